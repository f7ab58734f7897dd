"""What to do about a RayService: `plan_service` decides one pass, from what is seen of it, as a pure function.

One module per policy; `machine` says which applies when. Source: spec rayservice.md 2.
"""

from __future__ import annotations

from kuberay.plan.service.machine import plan_service

__all__ = ["plan_service"]
