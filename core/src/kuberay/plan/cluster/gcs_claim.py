"""What to do about the volume claim of embedded GCS fault tolerance: make it, own it or let it go, or say what is wrong.

Source: spec raycluster.md 2.8 and 7. A claim that exists is never reconfigured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kuberay.api import names
from kuberay.api.cluster import GcsStorage
from kuberay.api.kinds import PERSISTENT_VOLUME_CLAIM, RAYCLUSTER
from kuberay.api.objects import Child, Object
from kuberay.plan.build.context import owner_reference
from kuberay.plan.build.gcs_claim import claim_differences, gcs_claim, retained
from kuberay.plan.cluster.deletions import failure
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.cluster.trouble import Trouble, warning
from kuberay.plan.cluster.unwatched import is_absent, is_gone
from kuberay.plan.model import Create, Event, Patch, Write

FAILED = "FailedToCreatePVC"


@dataclass(slots=True)
class ClaimDecision:
    """Writes, what is wrong, and whether a new head must not use the claim because of that."""

    writes: list[Write] = field(default_factory=list)
    trouble: Trouble | None = None
    blocks: bool = False


def decide_gcs_claim(cluster: ClusterPass) -> ClaimDecision | None:
    """None where the cluster needs no claim."""
    options = cluster.form.spec.gcs_fault_tolerance_options
    if options is None or not options.embedded:
        return None
    storage = options.storage or GcsStorage()
    return _users_claim(cluster, storage.claim_name) if storage.claim_name else _own_claim(cluster, storage)


def _users_claim(cluster: ClusterPass, name: str) -> ClaimDecision:
    """Only looked for, and only while no head shows by being ready that it is there."""
    head = cluster.children.head
    if cluster.suspend_wanted or (head is not None and is_ready(head)):
        return ClaimDecision()
    if not is_absent(cluster, PERSISTENT_VOLUME_CLAIM, name):
        return ClaimDecision()
    note = (
        f'GcsFaultToleranceOptions.Storage.ClaimName "{name}" not found in namespace {cluster.namespace}; '
        "the head Pod will not start until it exists"
    )
    return ClaimDecision(trouble=warning("ClaimNotFound", FAILED, note, action="Validate"))


def _own_claim(cluster: ClusterPass, storage: GcsStorage) -> ClaimDecision:
    name = names.gcs_claim_name(cluster.name)
    place = f"GCS storage PVC {cluster.namespace}/{name}"
    live = cluster.observed.view.get(PERSISTENT_VOLUME_CLAIM, cluster.namespace, name)
    owner = owner_reference(RAYCLUSTER, cluster.observed.obj)
    if live is None or is_gone(cluster, PERSISTENT_VOLUME_CLAIM, live):
        create = Create(
            kind=PERSISTENT_VOLUME_CLAIM,
            namespace=cluster.namespace,
            name=name,
            body=gcs_claim(cluster.name, cluster.namespace, storage, owner),
            done=Event("CreatedPVC", f"Created {place}", action="Create"),
            failed=failure(FAILED, f"Failed to create {place}", action="Create"),
            any_owner=True,
        )
        return ClaimDecision([create])
    controller = live.metadata.controller
    if controller is not None and controller.uid != owner["uid"]:
        # The claim of a former cluster of this name is about to go with it; anybody else's holds other data.
        if retained(storage):
            return ClaimDecision(trouble=_drift(storage, live, place))
        note = f"Failed to create {place}, it exists and is owned by {controller.kind} {controller.name}"
        return ClaimDecision(trouble=warning("ClaimNotOwned", FAILED, note, action="Create"), blocks=True)
    if live.deleting:
        return ClaimDecision()
    return ClaimDecision(_ownership(storage, live, owner, place), _drift(storage, live, place))


def _drift(storage: GcsStorage, live: Object, place: str) -> Trouble | None:
    body: Mapping[str, Any] = live.body() if isinstance(live, Child) else {}
    differences = claim_differences(storage, body.get("spec") or {})
    if not differences:
        return None
    note = (
        f"{place} already exists and cannot be reconfigured in place ({differences}); "
        "delete the PVC to recreate it with the new settings"
    )
    return warning("ClaimDiffers", FAILED, note, action="Update")


def _ownership(storage: GcsStorage, live: Object, owner: Mapping[str, Any], place: str) -> list[Write]:
    """The patch after which a retained claim has no owner, and any other is the cluster's."""
    owned = live.metadata.controller is not None
    if owned is not retained(storage):
        return []
    references = (live.body()["metadata"].get("ownerReferences") or []) if isinstance(live, Child) else []
    others = [reference for reference in references if reference["uid"] != owner["uid"]]
    metadata: dict[str, Any] = {"ownerReferences": others if retained(storage) else [*others, dict(owner)]}
    if not retained(storage):
        metadata["labels"] = {names.LABEL_CLUSTER: owner["name"]}
    return [
        Patch(
            kind=PERSISTENT_VOLUME_CLAIM,
            namespace=live.namespace,
            name=live.name,
            body={"metadata": metadata},
            resource_version=live.metadata.resource_version,
            failed=failure(FAILED, f"Failed to create {place}", action="Update"),
        )
    ]
