"""The write that brings a Service of a RayJob or a RayService up to date, with what is told of it.

Source: spec rayjob.md 4.3 and rayservice.md 6.2.
"""

from __future__ import annotations

from kuberay.api.kinds import SERVICE
from kuberay.plan.model import Apply, Event, Manifest


def apply_service(
    namespace: str, body: Manifest, *, exists: bool, optional: bool = False, guarded: bool = False
) -> Apply:
    """*exists* says whether a failure is one to create or to update; *optional* and *guarded* are those of `Apply`."""
    name = body["metadata"]["name"]
    where = f"{namespace}/{name}"
    verb = "Update" if exists else "Create"
    return Apply(
        kind=SERVICE,
        namespace=namespace,
        name=name,
        body=body,
        done=Event("CreatedService", f"Created the service {where}", action="Create"),
        updated=Event("UpdatedService", f"Updated the service {where}", action="Update"),
        failed=lambda error: Event(
            f"FailedTo{verb}Service", f"Failed to {verb.lower()} the service {where}, {error}", "Warning", verb
        ),
        optional=optional,
        guarded=guarded,
    )
