"""What to do about a RayJob: `plan_job` decides one pass, from what is seen of it, as a pure function.

One module per policy; `machine` says which applies when. Source: spec rayjob.md 2.
"""

from __future__ import annotations

from kuberay.plan.job.machine import plan_job

__all__ = ["plan_job"]
