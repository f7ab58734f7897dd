"""Whether head pods are behind the serve service: their label follows the health of their Serve proxy.

Source: spec rayservice.md 2.8, cases RS-01 and RS-11. A head that is missing is nobody's error; workers are never labelled.
"""

from __future__ import annotations

from kuberay.api.kinds import POD
from kuberay.api.names import LABEL_SERVE
from kuberay.api.objects import Pod
from kuberay.plan.build.serve_services import serve_port
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.model import Event, Patch, ProxyHealthProbe, Write
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.sides import Side, both_sides


def label(draft: Draft) -> None:
    """Bring the labels of both heads up to date; what is not known yet changes nothing."""
    writes: list[Write] = []
    for side in both_sides(draft):
        head = side.head if side is not None and side.exists else None
        if side is None or head is None:
            continue
        wanted = _serves(draft, side, head)
        if wanted is not None and head.metadata.labels.get(LABEL_SERVE) != wanted:
            writes.append(_relabel(head, wanted))
    draft.write(*writes)


def settled(draft: Draft, side: Side) -> bool:
    """Whether it is known if the head of *side* serves: nobody is led to a RayCluster before that."""
    return side.head is None or _serves(draft, side, side.head) is not None


def _serves(draft: Draft, side: Side, head: Pod) -> str | None:
    """``true`` or ``false``; None while the proxy has not been asked.

    A head that is not ready is no endpoint, whatever its label says. It is asked once it is ready: what was said of an
    earlier start must not lead anybody to it (RS-11)."""
    ip = head.status.pod_ip
    if draft.spec.exclude_head_pod_from_serve_svc or not ip or not is_ready(head):
        return "false"
    host = f"[{ip}]" if ":" in ip else ip
    probe = ProxyHealthProbe(f"{host}:{serve_port(side.spec)}", head.namespace, head.name)
    draft.want(probe)
    result = draft.observed.probes.get(probe)
    if result is None:
        return None
    return "true" if result.outcome == "found" and result.value.get("healthy") else "false"


def _relabel(head: Pod, value: str) -> Patch:
    """A head that cannot be labelled stops nothing else."""
    what = f'the serve label to "{value}" for the Head Pod {head.namespace}/{head.name}'
    return Patch(
        kind=POD,
        namespace=head.namespace,
        name=head.name,
        body={"metadata": {"uid": head.uid, "labels": {LABEL_SERVE: value}}},
        done=Event("UpdatedHeadPodServeLabel", f"Updated {what}", action="Update"),
        failed=lambda error: Event(
            "FailedToUpdateHeadPodServeLabel", f"Failed to update {what}: {error}", "Warning", "Update"
        ),
        optional=True,
    )
