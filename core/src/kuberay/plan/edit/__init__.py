"""What an edit of a RayCluster would do, told before it is made: for ``kuberay diff``, never for a pass."""

from kuberay.plan.edit.effects import creation_effects as creation_effects
from kuberay.plan.edit.effects import edit_effects as edit_effects
