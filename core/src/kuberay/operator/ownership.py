"""Whether an object that has the name of a wanted one is its owner's to change, and what is said when it is not.

Decided by owner references alone; labels make nothing ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.objects import Object, RayObject
from kuberay.plan.model import Apply, Write


class NotOwnedError(Exception):
    """The name is taken by an object that this owner does not control; *passing* when that is about to be collected."""

    def __init__(self, write: Write, owner: RayObject, live: Object) -> None:
        super().__init__(not_owned(write, owner, live))
        self.passing = is_of_namesake(live, owner)


def is_foreign(obj: Object, owner: RayObject, wanted: Mapping[str, Any]) -> bool:
    """Whether *obj* is controlled by nobody, or by another one than *owner* and the controller that is *wanted*: what an
    owner makes for its own child (a RayService for its RayCluster) may be the child's."""
    controller = obj.metadata.controller
    return controller is None or (controller.uid != owner.uid and controller.uid != _controller_uid(wanted))


def is_in_the_way(live: Object, owner: RayObject, write: Apply) -> bool:
    """Whether *live* is not the owner's to change. What is meant to have no owner may be shared, and what nobody controls but
    is collected with *owner* becomes its: KubeRay makes such objects (the PodGroups of scheduler-plugins)."""
    if not is_foreign(live, owner, write.body):
        return False
    uncontrolled = live.metadata.controller is None
    return not (uncontrolled and (_wants_no_owner(write) or _is_dependent(live, owner)))


def is_of_namesake(obj: Object, owner: RayObject) -> bool:
    """Whether *obj* belongs to a former object of the owner's name, with which it is about to be collected."""
    controller = obj.metadata.controller
    return controller is not None and (controller.kind, controller.name) == (owner.kind, owner.name)


def _is_dependent(live: Object, owner: RayObject) -> bool:
    return any(reference.uid == owner.uid for reference in live.metadata.owner_references)


def _controller_uid(body: Mapping[str, Any]) -> str | None:
    references = body.get("metadata", {}).get("ownerReferences") or ()
    return next((reference.get("uid") for reference in references if reference.get("controller")), None)


def _wants_no_owner(write: Apply) -> bool:
    return not write.body.get("metadata", {}).get("ownerReferences")


def not_owned(write: Write, owner: RayObject, live: Object) -> str:
    """The error when *live* has the name that *write* wants."""
    if is_of_namesake(live, owner):
        return f"{write.kind.kind} {write.namespace}/{write.name} still belongs to a former {owner.kind} of this name"
    return (
        f"{write.kind.kind} {write.namespace}/{write.name} already exists and is not owned by this {owner.kind}; "
        f"rename one of them"
    )
