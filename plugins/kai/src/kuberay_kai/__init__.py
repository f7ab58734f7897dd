"""KAI: pods name KAI as their scheduler and carry the queue of their owner; KAI's pod grouper makes a gang of them.

No objects, no further permissions. The submitter of a RayJob stays outside: it comes when the gang runs already. Source: spec
plugins.md 7, cases.md KA-01 and KA-03.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.hooks import OwnerContext, PodContext, Problem, hookimpl
from kuberay.hooks.types import Manifest

from kuberay_kai import advice
from kuberay_kai.advice import LABEL_QUEUE

kuberay_hook_api = (1, 0)

SCHEDULER = "kai-scheduler"


@hookimpl
def batch_scheduler() -> str:
    return SCHEDULER


@hookimpl
def warn(ctx: OwnerContext) -> Sequence[Problem]:
    return list(advice.warnings(ctx))


@hookimpl
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest:
    """Scheduler and queue. A submitter goes to the scheduler its template names, else Kubernetes' own: KAI would count it into
    the gang of its RayJob, of which it is no member."""
    if ctx.node_type != "submitter":
        pod["spec"]["schedulerName"] = SCHEDULER
    metadata = pod.setdefault("metadata", {})
    if queue := ctx.owner.labels.get(LABEL_QUEUE):
        metadata["labels"] = {**(metadata.get("labels") or {}), LABEL_QUEUE: queue}
    return pod


@hookimpl
def diagnose(ctx: OwnerContext) -> Sequence[str]:
    if ctx.cluster_spec is None or ctx.spec.get("suspend") is True:
        return []
    return [*(f"{problem}." for problem in advice.warnings(ctx)), advice.reason_to_wait(ctx)]
