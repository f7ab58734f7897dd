"""``spec.lifecycle``: when a RayCluster is ended that nobody uses, or that is old enough. Not KubeRay's.

What it does: docs/lifecycle.md.
"""

from __future__ import annotations

from typing import Annotated

from kuberay.api.schema import Crd, Model

SUSPEND = "Suspend"
DELETE = "Delete"
DEFAULT_WARNING_SECONDS = 300


class Lifecycle(Model):
    """At least one of the two limits is set; both may be."""

    idle_timeout_seconds: Annotated[int | None, Crd(format="int32", minimum=1)] = None
    """How long nothing may have used the cluster."""
    max_age_seconds: Annotated[int | None, Crd(format="int32", minimum=1)] = None
    """How old the cluster may become, used or not; counted from its creation or its last resume."""
    action: Annotated[str | None, Crd(enum=(SUSPEND, DELETE), default=SUSPEND)] = None
    warning_seconds: Annotated[int | None, Crd(format="int32", minimum=0, default=DEFAULT_WARNING_SECONDS)] = None
    """How long before the end it is announced."""

    @property
    def deletes(self) -> bool:
        return self.action == DELETE

    def warning(self, limit: int) -> int:
        """Seconds between announcement and end under a limit of *limit* seconds: never more than the limit itself."""
        return min(limit, DEFAULT_WARNING_SECONDS if self.warning_seconds is None else self.warning_seconds)
