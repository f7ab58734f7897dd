"""Which names new RayClusters of a RayService get.

Source: spec rayservice.md 0 and 2.2. KubeRay draws them at random; here they follow from the RayService and its
generation, so that whoever plans the same upgrade names the same RayCluster.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.kinds import RAYCLUSTER
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft


def new_name(draft: Draft) -> str:
    """A name that nothing has: no object, and neither side of the status, whose RayCluster may be gone."""
    obj = draft.obj
    stored = [(obj.status.get(key) or {}).get("rayClusterName") for key in (ACTIVE, PENDING)]
    taken = {draft.cluster_name(ACTIVE), draft.cluster_name(PENDING), *stored}
    tries = 0
    while True:
        name = f"{obj.name}-{names.suffix(obj.uid, obj.metadata.generation, tries)}"
        if name not in taken and draft.observed.view.get(RAYCLUSTER, obj.namespace, name) is None:
            return name
        tries += 1
