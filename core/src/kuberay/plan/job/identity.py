"""Which names an attempt gets: its RayCluster and its submission id.

Source: spec rayjob.md 2.2 (New) and 2.6. KubeRay draws them at random; here they follow from the RayJob and the attempt,
so that whoever plans the same attempt names the same objects.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.kinds import RAYCLUSTER
from kuberay.plan.job.draft import Draft


def assign_identifiers(draft: Draft) -> bool:
    """Fill in ``jobId`` and ``rayClusterName`` where they are empty; whether one of them was."""
    status, spec, obj = draft.status, draft.spec, draft.obj
    # The start of the attempt before this one tells attempts apart that end without a failure (suspend, resume); times have
    # whole seconds, so the version of the spec joins it: each resume is an edit.
    attempt = (obj.uid, status["failed"], status.get("startTime") or "", obj.metadata.generation)
    incomplete = not status.get("rayClusterName")
    if not status.get("jobId") and not draft.mode.waits:
        incomplete = True
        status["jobId"] = spec.job_id or f"{obj.name}-{names.suffix('job', *attempt)}"
    if status.get("rayClusterName"):
        return incomplete
    if spec.selected_cluster:
        status["rayClusterName"] = spec.selected_cluster
        return incomplete
    tries = 0
    while True:
        name = f"{obj.name}-{names.suffix('cluster', *attempt, tries)}"
        if draft.observed.view.get(RAYCLUSTER, obj.namespace, name) is None:
            break
        tries += 1
    status["rayClusterName"] = name
    return incomplete


def told_job_id(draft: Draft) -> str:
    """InteractiveMode: the id of the job a user submitted, from the spec or an annotation; empty while none is told."""
    return draft.spec.job_id or draft.obj.metadata.annotations.get(names.ANNOTATION_SUBMISSION_ID, "").strip()
