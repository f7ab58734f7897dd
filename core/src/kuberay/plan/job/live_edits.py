"""Which edits of ``rayClusterSpec`` reach the RayCluster of an attempt that is under way, and what is said about the others.

Source: spec rayjob.md 4.1; cases.md RJ-33. Worker groups are raised; all else waits for the next cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kuberay.api.conditions import FALSE, TRUE, JobCondition, find_condition
from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.names import COMPONENT
from kuberay.api.objects import RayObject
from kuberay.hooks.types import PodContext
from kuberay.plan.edit.changes import FieldChange, field_changes
from kuberay.plan.job import hook_calls
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import alive, build_cluster, find_cluster, owned_by
from kuberay.plan.job.submit_command import SubmitCommandError
from kuberay.plan.model import Event, Manifest, Patch

IGNORED = "RayClusterSpecEditIgnored"
"""Reason of the event, once per change of what the condition says."""
_LIVE = (JobDeploymentStatus.INITIALIZING, JobDeploymentStatus.WAITING, JobDeploymentStatus.RUNNING)
_AUTOSCALER = "python-requests"
"""Field manager of Ray's autoscaler, which names none: the API server takes it from its user agent."""
_GROUPS = "workerGroupSpecs"
_COUNTS: Mapping[str, int] = {"maxReplicas": 2_147_483_647, "replicas": 0, "minReplicas": 0}
"""What may be raised, in the order in which it is, with what the schema says of an absent one."""
_OF_AUTOSCALER = ("replicas", "scaleStrategy")
_MOST_FIELDS = 5
_AGAIN = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class _Raise:
    """Counts of one worker group that go up."""

    index: int
    group: str
    counts: Mapping[str, tuple[int | None, int]]
    """Field to the value that is there and the wanted one."""

    def told(self, cluster: RayObject) -> str:
        """For example ``replicas of worker group small in cluster default/ray from 1 to 3``."""
        where = f"of worker group {self.group} in cluster {cluster.namespace}/{cluster.name}"
        return " and ".join(
            f"{field} {where} from {_value(field, old)} to {new}" for field, (old, new) in self.counts.items()
        )

    @property
    def operations(self) -> list[Manifest]:
        """A patch that fails when any of it has changed meanwhile."""
        place = f"/spec/{_GROUPS}/{self.index}"
        tests: list[Manifest] = [{"op": "test", "path": f"{place}/groupName", "value": self.group}]
        tests += [
            {"op": "test", "path": f"{place}/{field}", "value": old}
            for field, (old, _) in self.counts.items()
            if old is not None
        ]
        return tests + [
            {"op": "add", "path": f"{place}/{field}", "value": new} for field, (_, new) in self.counts.items()
        ]


def follow_edits(draft: Draft) -> None:
    """Raise worker groups of the running cluster as the RayJob was edited, and tell of edits that do not reach it.

    A RayCluster that others have edited is left as they want it.
    """
    cluster = find_cluster(draft) if draft.state in _LIVE and not draft.ray_job_ended else None
    raises, sentences, foreign = _decide(draft, cluster)
    sentences += _mode_waits(draft)
    told = [f"To be raised: {each.told(cluster)}." for each in raises if cluster is not None] + sentences
    if not told:
        draft.drop_condition(JobCondition.EDIT_IGNORED)
        return
    message = " ".join(told)
    stored = find_condition(draft.status.get("conditions") or [], JobCondition.EDIT_IGNORED)
    news = stored is None or stored.get("message") != message
    reason = "RayClusterChangedByOthers" if foreign else "TakesEffectLater" if sentences else "NotYetApplied"
    draft.condition(JobCondition.EDIT_IGNORED, TRUE, reason, message)
    if news and sentences:
        draft.event(IGNORED, " ".join(sentences), action="Update", warning=True)
    if raises and cluster is not None:
        draft.write(_patch(cluster, raises, news=news))
        draft.wake_at(draft.now + _AGAIN)


def _mode_waits(draft: Draft) -> list[str]:
    """What is said about another ``submissionMode``: a job that may be with Ray is not handed in a second way."""
    wanted, used = draft.spec.mode, draft.mode.name
    if draft.state not in _LIVE or wanted is None or wanted == used or _refused(draft):
        return []
    return [f"submissionMode: not applied, since this attempt was made for {used}; takes effect with the next attempt."]


def _decide(draft: Draft, cluster: RayObject | None) -> tuple[list[_Raise], list[str], bool]:
    """What is to be raised, what is said about other edits, and whether they meet somebody else's."""
    nothing: tuple[list[_Raise], list[str], bool] = ([], [], False)
    if cluster is None or not alive(cluster) or not draft.uses_own_cluster or not owned_by(draft, cluster):
        return nothing
    if draft.obj.metadata.generation <= 1 or draft.obj.spec.get("rayClusterSpec") == cluster.spec or _refused(draft):
        return nothing
    edited = _edited_since(draft.obj, cluster)
    if not edited:
        return nothing
    changes = [change for change in _changes(draft, cluster) if _key(change) in edited]
    others = {key: _others(cluster, key) for key in edited}
    autoscaled = bool(cluster.spec.get("enableInTreeAutoscaling"))
    if autoscaled and _AUTOSCALER in _owners(cluster, _GROUPS):
        # What the autoscaler has asked for since is no edit of the RayJob.
        changes = [change for change in changes if not _is_count(change, _OF_AUTOSCALER)]
    raises: list[_Raise] = []
    if not others.get(_GROUPS):
        raises = _raises(changes, cluster, ("maxReplicas", "minReplicas") if autoscaled else tuple(_COUNTS))
    raised = {(each.group, field) for each in raises for field in each.counts}
    rest = [change for change in changes if (change.group, _field(change)) not in raised]
    foreign = any(others.get(_key(change)) for change in rest)
    return raises, _left(rest, others, cluster, autoscaled), foreign


def _refused(draft: Draft) -> bool:
    """Whether the spec as it is now is refused: then none of it is followed."""
    accepted = find_condition(draft.status.get("conditions") or [], JobCondition.ACCEPTED)
    return accepted is not None and accepted.get("status") == FALSE


def _edited_since(job: RayObject, cluster: RayObject) -> set[str]:
    """Fields of ``rayClusterSpec`` that may have been edited since *cluster* was made: what it looks like does not tell,
    since plugins and people change it, too."""
    made = cluster.metadata.creation_timestamp
    if made is None:
        return set()
    prefix = "rayClusterSpec."
    owned = [entry.owned for entry in job.metadata.managed_fields if entry.time is not None and entry.time >= made]
    edited = {name.removeprefix(prefix) for names in owned for name in names if name.startswith(prefix)}
    if owned:
        # Nobody owns what has been removed.
        asked = job.spec.get("rayClusterSpec") or {}
        edited |= {key for key in cluster.spec if key not in asked and not _others(cluster, key)}
    return edited


def _owners(cluster: RayObject, key: str) -> set[str]:
    return {entry.manager for entry in cluster.metadata.managed_fields if key in entry.owned}


def _others(cluster: RayObject, key: str) -> list[str]:
    """Who besides the operator has written ``spec.<key>`` of the cluster; ``unknown`` where that is not recorded."""
    owners = _owners(cluster, key)
    if not owners:
        return ["unknown"] if key in cluster.spec else []
    allowed = {COMPONENT}
    if key == _GROUPS and cluster.spec.get("enableInTreeAutoscaling"):
        allowed.add(_AUTOSCALER)
    return sorted(owners - allowed)


def _changes(draft: Draft, cluster: RayObject) -> list[FieldChange]:
    """How the cluster differs from what the RayJob asks for. What a submitter in the head pod or a plugin has added when
    it was made is no difference."""
    raw = _compare(cluster.spec, draft.obj.spec.get("rayClusterSpec") or {})
    if not raw:
        return []
    try:
        body = build_cluster(draft)
    except SubmitCommandError:
        return raw
    if draft.mode.submitter_job:
        context = PodContext(owner=hook_calls.job_context(draft), group="", node_type="head")
        changed = draft.observed.hooks.mutate_cluster(context, body)
        draft.blame(changed.failures)
        body = changed.pod
    paths = {change.path for change in _compare(cluster.spec, body["spec"])}
    return [change for change in raw if change.path in paths]


def _compare(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[FieldChange]:
    return list(field_changes(live, wanted, ("spec",)))


def _key(change: FieldChange) -> str:
    """The field right below ``spec``."""
    return str(change.steps[1])


def _field(change: FieldChange) -> str:
    """The field of a worker group that is changed as a whole; empty for anything else."""
    return str(change.steps[3]) if _key(change) == _GROUPS and len(change.steps) == 4 else ""


def _is_count(change: FieldChange, fields: Iterable[str]) -> bool:
    return _key(change) == _GROUPS and change.in_group[:1] in {(field,) for field in fields}


def _raises(changes: list[FieldChange], cluster: RayObject, fields: tuple[str, ...]) -> list[_Raise]:
    """Groups of which some of *fields* go up and none of the counts goes down."""
    found: list[_Raise] = []
    for index, group in enumerate(cluster.spec.get(_GROUPS) or ()):
        name = group.get("groupName") or ""
        counts = {_field(change): change for change in changes if change.group == name and _field(change) in _COUNTS}
        if any(_value(field, change.after) < _value(field, change.before) for field, change in counts.items()):
            continue
        up = {field: (counts[field].before, _value(field, counts[field].after)) for field in fields if field in counts}
        if up:
            found.append(_Raise(index, name, up))
    return found


def _value(field: str, value: Any) -> int:
    return int(_COUNTS[field] if value is None else value)


def _patch(cluster: RayObject, raises: list[_Raise], *, news: bool) -> Patch:
    """One write for all groups. Optional: a cluster that cannot be raised keeps nobody from watching the job."""
    what = ", ".join(each.told(cluster) for each in raises)
    operations: list[Manifest] = [{"op": "test", "path": "/metadata/uid", "value": cluster.uid}]
    for each in raises:
        operations += each.operations

    def failed(error: str) -> Event:
        return Event("FailedToUpdateRayCluster", f"Failed to raise {what}: {error}", "Warning", "Update")

    return Patch(
        kind=RAYCLUSTER,
        namespace=cluster.namespace,
        name=cluster.name,
        operations=operations,
        optional=True,
        done=Event("UpdatedRayCluster", f"Raised {what}", action="Update"),
        failed=failed if news else None,
    )


def _left(rest: list[FieldChange], others: Mapping[str, list[str]], cluster: RayObject, autoscaled: bool) -> list[str]:
    """What is said about edits that are not followed."""
    foreign = [change for change in rest if others.get(_key(change))]
    scaled = [change for change in rest if change not in foreign and autoscaled and _is_count(change, ("replicas",))]
    later = [change for change in rest if change not in foreign and change not in scaled]
    where = f"RayCluster {cluster.namespace}/{cluster.name}"
    sentences = []
    if later:
        sentences.append(
            f"{_names(later)}: not applied to the running cluster; takes effect with the next attempt, or after suspend "
            f"and resume. To change the running cluster, edit {where}."
        )
    if scaled:
        sentences.append(f"{_names(scaled)}: not applied, the autoscaler decides about it; minReplicas can be raised.")
    if foreign:
        managers = sorted({manager for change in foreign for manager in others[_key(change)]})
        sentences.append(
            f"{_names(foreign)}: not applied, since {where} has been changed there by others ({', '.join(managers)})."
        )
    return sentences


def _names(changes: list[FieldChange]) -> str:
    paths = [f"rayClusterSpec.{change.path.removeprefix('spec.')}" for change in changes]
    more = len(paths) - _MOST_FIELDS
    return ", ".join(paths[:_MOST_FIELDS]) + (f" and {more} more" if more > 0 else "")
