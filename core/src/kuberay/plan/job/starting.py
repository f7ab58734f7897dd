"""What happens before a job runs: identifiers first, then its RayCluster, then its submitter.

Source: spec rayjob.md 2.2 (New, Initializing, Waiting), 4.1, 4.2.
"""

from __future__ import annotations

from kuberay.api.conditions import FALSE, ClusterCondition, JobCondition, is_true
from kuberay.api.job import JobDeploymentStatus, JobFailedReason
from kuberay.api.kinds import JOB, RAYCLUSTER, RAYJOB
from kuberay.api.names import RAYJOB_FINALIZER
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time
from kuberay.hooks.types import PodContext
from kuberay.plan.build.pod_security import add_restricted_defaults
from kuberay.plan.job import deadlines, hook_calls
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.identity import assign_identifiers, told_job_id
from kuberay.plan.job.inherited import pass_on
from kuberay.plan.job.job_probe import told_early
from kuberay.plan.job.outcome import fail
from kuberay.plan.job.ray_cluster import (
    alive,
    build_cluster,
    copy_cluster_status,
    dashboard_url,
    find_cluster,
    only_kubernetes_tokens,
    owned_by,
)
from kuberay.plan.job.submit_command import SubmitCommandError
from kuberay.plan.job.submitter import submitter_job, submitter_template
from kuberay.plan.job.submitter_watch import look_at_job, look_at_submitter, ray_is_ready
from kuberay.plan.job.waiting import look_again_soon
from kuberay.plan.model import Create, Event, Patch


def begin(draft: Draft) -> None:
    """New: the finalizer, then the identifiers of the attempt. Nothing is created before they are stored."""
    obj, status = draft.obj, draft.status
    if look_at_job(draft).job is not None:
        # Of an attempt that was not taken down: refused by KubeRay, or its status was edited. A submitter that it leaves
        # behind would pass for the one of the next attempt.
        status["jobDeploymentStatus"] = JobDeploymentStatus.SUSPENDING.value
        draft.wait("what is left of an attempt before must be gone first")
        return
    if RAYJOB_FINALIZER not in obj.metadata.finalizers:
        draft.write(
            Patch(
                kind=RAYJOB,
                namespace=obj.namespace,
                name=obj.name,
                body={"metadata": {"finalizers": [*obj.metadata.finalizers, RAYJOB_FINALIZER]}},
                resource_version=obj.metadata.resource_version,
            )
        )
    assign_identifiers(draft)
    for key in ("reason", "message", "jobStatus"):
        status.pop(key, None)
    draft.condition(JobCondition.SUBMITTED, FALSE, "WaitingForRayCluster", "the RayCluster comes first")
    status["jobDeploymentStatus"] = JobDeploymentStatus.INITIALIZING.value
    status["startTime"] = format_time(draft.now)
    draft.wait("the RayJob is about to start")


def initialize(draft: Draft) -> None:
    """Initializing: get the RayCluster, and hand the job in once it is ready."""
    if draft.suspend_wanted:
        draft.status["jobDeploymentStatus"] = JobDeploymentStatus.SUSPENDING.value
        return
    late = deadlines.active_deadline(draft) or deadlines.pre_running_deadline(draft)
    if late is not None:
        fail(draft, *late)
        return
    if assign_identifiers(draft):
        # A status that somebody edited: what is made with them must find them stored.
        draft.wait("the RayJob is about to start")
        return
    if _follow_selector(draft):
        draft.wait("the RayJob is about to start")
        return
    cluster = find_cluster(draft)
    cleared = hook_calls.prepare(draft, creating=cluster is None)
    hook_calls.extra_resources(draft)
    if cluster is None:
        _get_cluster(draft, cleared)
    elif cluster.deleting:
        draft.wait(f"RayCluster {cluster.namespace}/{cluster.name} is being deleted")
    elif draft.uses_own_cluster and not owned_by(draft, cluster):
        where = f"{cluster.namespace}/{cluster.name}"
        draft.hold("RayClusterNotOwned", f"RayCluster {where} exists and does not belong to this RayJob")
        look_again_soon(draft)
    else:
        _use_cluster(draft, cluster)


def _follow_selector(draft: Draft) -> bool:
    """Whether ``clusterSelector`` was corrected before anything was handed in: then the other cluster is used."""
    chosen, status = draft.spec.selected_cluster, draft.status
    cluster = find_cluster(draft)
    made = cluster is not None and owned_by(draft, cluster)
    if not chosen or chosen == status["rayClusterName"] or made or look_at_job(draft).present:
        return False
    status["rayClusterName"] = chosen
    for key in ("dashboardURL", "rayClusterStatus"):
        status.pop(key, None)
    return True


def _get_cluster(draft: Draft, cleared: bool) -> None:
    where = f"{draft.obj.namespace}/{draft.status['rayClusterName']}"
    if not draft.uses_own_cluster:
        note = f"RayCluster {where} set in the clusterSelector is not found. It must be created manually"
        if draft.hold("RayClusterNotFound", note):
            draft.event("RayClusterNotFound", note, action="Validate", warning=True)
        return
    if not cleared:
        return
    if draft.mode.sidecar and is_true(
        (draft.status.get("rayClusterStatus") or {}).get("conditions") or (), ClusterCondition.HEAD_STARTED
    ):
        # The head of a second cluster would be a second submitter of this attempt (RJ-10).
        fail(draft, JobFailedReason.APP_FAILED, f"RayCluster {where} was deleted after its head had started")
        return
    try:
        body = build_cluster(draft)
    except SubmitCommandError as error:
        if draft.hold("InvalidSubmitCommand", str(error)):
            note = f"Failed to create RayCluster {where}: {error}"
            draft.event("FailedToCreateRayCluster", note, action="Create", warning=True)
        return
    if draft.mode.submitter_job:
        context = PodContext(owner=hook_calls.job_context(draft), group="", node_type="head")
        changed = draft.observed.hooks.mutate_cluster(context, body)
        draft.blame(changed.failures)
        draft.plan.plugin_changes.update(changed.changes)
        if changed.failures:
            return
        body = changed.pod
    draft.write(
        Create(
            kind=RAYCLUSTER,
            namespace=draft.obj.namespace,
            name=draft.status["rayClusterName"],
            body=body,
            done=Event("CreatedRayCluster", f"Created RayCluster {where}", action="Create"),
            failed=lambda error: Event(
                "FailedToCreateRayCluster", f"Failed to create RayCluster {where}: {error}", "Warning", "Create"
            ),
        )
    )
    draft.wait(f"RayCluster {where} is being created")


def _use_cluster(draft: Draft, cluster: RayObject) -> None:
    where = f"{cluster.namespace}/{cluster.name}"
    mode = draft.mode
    copy_cluster_status(draft, cluster)
    if only_kubernetes_tokens(cluster):
        # Handed in, the job could never be followed, and would count as failed whatever it does.
        words = "takes Kubernetes tokens only (authOptions.enableK8sTokenAuth), with which this operator cannot ask for a job"
        draft.hold("DashboardNotAccessible", f"RayCluster {where} {words}")
        return
    if mode.sidecar and _sidecar_is_ahead(draft, cluster):
        return
    if not draft.status.get("dashboardURL"):
        if cluster.status.get("state") != "ready":
            draft.wait(f"RayCluster {where} is not ready")
            return
        address = dashboard_url(draft, cluster)
        if address is None:
            draft.hold("NoDashboardPort", f"the head service of RayCluster {where} has no port named dashboard")
            look_again_soon(draft)
            return
        draft.status["dashboardURL"] = address
    if mode.waits:
        draft.status["jobDeploymentStatus"] = JobDeploymentStatus.WAITING.value
        return
    if mode.submitter_job and not ensure_submitter(draft, cluster):
        # The address is stored together with Running; until then each pass reads it again.
        draft.status.pop("dashboardURL", None)
        return
    draft.status["jobDeploymentStatus"] = JobDeploymentStatus.RUNNING.value


def _sidecar_is_ahead(draft: Draft, cluster: RayObject) -> bool:
    """A sidecar submits as soon as its head is up, whatever becomes of the workers. When its job runs, its submitter has
    ended or its head is lost, that is not left unnoticed until the cluster is ready (RJ-12)."""
    submitter = look_at_submitter(draft, cluster)
    if submitter is None:
        return False
    if submitter.lost is not None:
        fail(draft, JobFailedReason.APP_FAILED, submitter.lost)
        return True
    known = draft.status.get("dashboardURL")
    draft.status["dashboardURL"] = known or dashboard_url(draft, cluster)
    told = ray_is_ready(draft, cluster) and told_early(draft, cluster)
    if submitter.finished_at is not None or told:
        draft.status["jobDeploymentStatus"] = JobDeploymentStatus.RUNNING.value
        return True
    draft.status["dashboardURL"] = known
    return False


def await_job_id(draft: Draft) -> None:
    """Waiting (InteractiveMode): a user submits the job and tells its id, in ``spec.jobId`` or as an annotation."""
    if draft.suspend_wanted:
        draft.status["jobDeploymentStatus"] = JobDeploymentStatus.SUSPENDING.value
        return
    late = deadlines.active_deadline(draft) or deadlines.pre_running_deadline(draft)
    if late is not None:
        fail(draft, *late)
        return
    cluster = find_cluster(draft)
    copy_cluster_status(draft, cluster)
    if not alive(cluster):
        where = f"{draft.obj.namespace}/{draft.status.get('rayClusterName')}"
        fail(draft, JobFailedReason.APP_FAILED, f"RayCluster {where} was deleted while a job id was awaited")
        return
    job_id = told_job_id(draft)
    if not job_id:
        draft.wait("a user submits the job and tells its id in spec.jobId")
        return
    draft.status["jobId"] = job_id
    draft.status["jobDeploymentStatus"] = JobDeploymentStatus.RUNNING.value


def ensure_submitter(draft: Draft, cluster: RayObject) -> bool:
    """Have the submitter Job created unless it is there; False when it cannot be yet."""
    where = f"{draft.obj.namespace}/{draft.obj.name}"
    submitter = look_at_job(draft)
    if submitter.foreign:
        draft.hold("SubmitterNotOwned", f"Job {where} exists and does not belong to this RayJob")
        look_again_soon(draft)
        return False
    if submitter.going:
        draft.wait(f"Job {where} of an earlier attempt is being deleted")
        return False
    if submitter.job is not None:
        return True
    failed = f"Failed to create new Kubernetes Job {where}: "
    try:
        template = submitter_template(
            draft.spec,
            job=draft.obj.name,
            cluster=cluster,
            dashboard_url=draft.status["dashboardURL"],
            job_id=draft.status["jobId"],
            login=draft.observed.config.login_shell,
        )
        pass_on(draft, template)
    except SubmitCommandError as error:
        if draft.hold("InvalidSubmitCommand", str(error)):
            draft.event("FailedToCreateRayJobSubmitter", f"{failed}{error}", action="Create", warning=True)
        return False
    changed = draft.observed.hooks.mutate_pod(hook_calls.submitter_context(draft, cluster), template)
    draft.blame(changed.failures)
    draft.plan.plugin_changes.update(changed.changes)
    if changed.failures:
        return False
    if draft.observed.config.restricted_pods:
        add_restricted_defaults(changed.pod["spec"])
    draft.write(
        Create(
            kind=JOB,
            namespace=draft.obj.namespace,
            name=draft.obj.name,
            body=pass_on(draft, submitter_job(draft.obj, draft.spec, changed.pod)),
            done=Event("CreatedRayJobSubmitter", f"Created Kubernetes Job {where}", action="Create"),
            failed=lambda error: Event("FailedToCreateRayJobSubmitter", f"{failed}{error}", "Warning", "Create"),
        )
    )
    return True
