"""What plugins are asked about a RayJob, and what follows from their answers.

Source: spec plugins.md 1 and 4. A plugin that raises shows as a condition; where its answer is needed, creation waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from kuberay.api.conditions import JobCondition, is_true
from kuberay.api.kinds import JOB, RAYJOB, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT
from kuberay.api.names import SUBMITTER_GROUP
from kuberay.api.objects import RayObject
from kuberay.hooks.calls import PluginFailure
from kuberay.hooks.types import FinishContext, GroupSize, OwnerContext, PodContext
from kuberay.plan.build.context import group_sizes, owner_context, owner_reference, pod_requests
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import alive, cluster_spec, find_cluster, owned_by
from kuberay.plan.job.submitter import head_image, user_template
from kuberay.plan.model import Apply, Event, Manifest, Write
from kuberay.plan.plugin_secrets import random_secrets

CHILD_KINDS = (SERVICE, SECRET, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, JOB)
"""Core kinds plugins may make for a RayJob; others must be named by their watches."""

FinishReason = Literal["Complete", "Failed", "Suspended", "Retrying"]


def job_context(draft: Draft, cluster: RayObject | None = None) -> OwnerContext:
    """The RayJob as hooks see it. *cluster* is the live one of a clusterSelector, for the submitter's image.

    Only a submitter with a pod of its own is a group; one in the head pod (SidecarMode) is no pod that a gang could wait for."""
    spec = draft.spec.ray_cluster_spec
    requests: dict[str, str] | None = None
    if draft.mode.submitter_job:
        raw = draft.obj.spec.get("rayClusterSpec") or (cluster.spec if cluster is not None else None)
        requests = pod_requests(user_template(draft.spec, head_image(raw)))
    groups = group_sizes(spec, requests)
    return owner_context(
        draft.observed,
        kind=RAYJOB,
        cluster_spec=spec,
        lookups=draft.lookups,
        groups=_as_scaled(draft, groups) if spec is not None and spec.autoscaling else groups,
    )


def _as_scaled(draft: Draft, groups: Sequence[GroupSize]) -> list[GroupSize]:
    """*groups* in the numbers of pods of the RayJob's live cluster, which its autoscaler decides and the RayJob does not say."""
    cluster = find_cluster(draft)
    running = cluster is not None and alive(cluster) and owned_by(draft, cluster)
    spec = cluster_spec(cluster) if running and cluster is not None else None
    live = {group.name: group for group in group_sizes(spec)}
    return [
        replace(group, desired=now.desired, minimum=now.minimum, raw_desired=now.raw_desired)
        if (now := live.get(group.name))
        else group
        for group in groups
    ]


def submitter_context(draft: Draft, cluster: RayObject) -> PodContext:
    """The submitter's pod template as hooks see it."""
    return PodContext(owner=job_context(draft, cluster), group=SUBMITTER_GROUP, node_type="submitter")


def _applies(
    draft: Draft, hook: str, manifests: Sequence[Manifest], *, optional: bool = False, done: Event | None = None
) -> list[Write]:
    """The writes of objects plugins want for the RayJob; namespace and controller owner are filled in."""
    watches = {(watch.kind.api_version, watch.kind.kind): watch for watch in draft.observed.hooks.watches()}
    kinds = {(kind.api_version, kind.kind): kind for kind in CHILD_KINDS} | {
        key: watch.kind for key, watch in watches.items()
    }
    writes: list[Write] = []
    for manifest in manifests:
        key = (manifest["apiVersion"], manifest["kind"])
        if key not in kinds:
            draft.blame([PluginFailure("a plugin", hook, f"{key[0]} {key[1]} is of no kind that a watch names")])
            continue
        metadata = {"namespace": draft.obj.namespace, **manifest["metadata"]}
        metadata.setdefault("ownerReferences", [owner_reference(RAYJOB, draft.obj)])
        writes.append(
            Apply(
                kind=kinds[key],
                namespace=metadata["namespace"],
                name=metadata["name"],
                body={**manifest, "metadata": metadata},
                done=done,
                updated=done,
                create_only=key in watches and watches[key].create_only,
                optional=optional,
            )
        )
    return writes


def prepare(draft: Draft, *, creating: bool) -> bool:
    """Have plugins' objects applied that must exist before any pod.

    When the RayCluster is about to be made (*creating*), False means that it must wait.
    """
    answer = draft.observed.hooks.pre_create_pods(job_context(draft))
    draft.blame(answer.failures)
    writes = _applies(draft, "pre_create_pods", answer.manifests)
    draft.write(*random_secrets(draft.observed, owner_reference(RAYJOB, draft.obj), answer.secrets), *writes)
    if creating:
        for plugin, wait in answer.waits:
            draft.hold("WaitingForPlugin", f"{plugin}: {wait.reason}")
    return not answer.waits and not answer.failures and len(writes) == len(answer.manifests)


def extra_resources(draft: Draft) -> None:
    """Have plugins' further objects applied. None of them stops the job."""
    answer = draft.observed.hooks.extra_resources(job_context(draft))
    draft.blame(answer.failures)
    draft.write(*_applies(draft, "extra_resources", answer.manifests, optional=True))


def clean_up(draft: Draft, reason: FinishReason, cluster: RayObject | None, *, wait: bool) -> bool:
    """Let plugins release what they hold for the job; with *wait*, False keeps the job in its state.

    Source: spec plugins.md 1.2.
    """
    running = alive(cluster)
    spec = cluster_spec(cluster) if running and cluster is not None else None
    context = FinishContext(
        owner=job_context(draft),
        reason=reason,
        cluster_alive=running,
        cluster_groups=group_sizes(spec) if spec is not None else (),
    )
    answer = draft.observed.hooks.finish(context)
    known = is_true(draft.obj.status.get("conditions") or (), JobCondition.PLUGIN_FAILED)
    for failure in answer.failures:
        if not known:
            note = f"Failed to cleanup batch scheduler resources for RayJob {draft.where}: {failure.error}"
            draft.event("FailedToCleanupBatchScheduler", note, action="Cleanup", warning=True)
    draft.blame(answer.failures)
    done = Event(
        "BatchSchedulerCleanedUp", f"Cleaned up batch scheduler resources for RayJob {draft.where}", action="Cleanup"
    )
    draft.write(*_applies(draft, "finish", answer.manifests, optional=not wait, done=done))
    return not (wait and answer.failures)
