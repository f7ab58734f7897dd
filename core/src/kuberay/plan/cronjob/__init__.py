"""What to do about a RayCronJob: `plan_cronjob` decides one pass, from what is seen of it, as a pure function.

One module per policy; `reconcile` puts them in order. Source: spec rayjob.md 5.
"""

from __future__ import annotations

from kuberay.plan.cronjob.reconcile import plan_cronjob

__all__ = ["plan_cronjob"]
