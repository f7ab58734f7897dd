"""Whether the submitter of a RayJob is kept out by the network policy of the RayCluster that its clusterSelector names.

Source: cases.md NP-02. Such a submitter waits for the dashboard without end, so the wait is told at once and has one. What other
NetworkPolicies or the network itself allow cannot be seen here: nothing is held back for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import NETWORK_POLICY
from kuberay.api.job import JobFailedReason
from kuberay.api.kinds import POD
from kuberay.api.names import LABEL_CLUSTER, LABEL_ORIGIN_CRD, LABEL_ORIGIN_NAME
from kuberay.api.objects import Pod, RayObject
from kuberay.plan.build.start_params import DEFAULT_DASHBOARD_PORT, port_param
from kuberay.plan.job import deadlines
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.outcome import fail
from kuberay.plan.job.ray_cluster import cluster_spec
from kuberay.plan.job.submission import submitted
from kuberay.plan.job.submitter_watch import Submitter
from kuberay.plan.job.waiting import look_again_soon

REASON = "SubmitterDenied"
_PLUGIN = "networkpolicy"
Selector = Mapping[str, Any]


def kept_out(draft: Draft, cluster: RayObject | None, submitter: Submitter | None) -> bool:
    """Tell of a submitter that the policy denies; True when it has tried for so long that the attempt is over."""
    if cluster is None or submitter is None or submitter.job is None or not submitter.at_work:
        return False
    if draft.uses_own_cluster or submitted(draft) or not _in_force(draft):
        return False
    spec = cluster_spec(cluster)
    if spec is None or not _restricts(spec):
        return False
    pods = cast("Sequence[Pod]", draft.observed.view.owned(submitter.job.uid, POD))
    alive = [pod for pod in pods if not pod.deleting and pod.status.phase not in ("Succeeded", "Failed")]
    since = min((started for pod in alive if (started := _running_since(pod))), default=None)
    if since is None:
        # Pods of Jobs wake nobody.
        look_again_soon(draft)
    if not alive or any(admits(spec, cluster.name, pod.metadata.labels) for pod in alive):
        return False
    port = _dashboard_port(spec)
    sentence = (
        f"the networkPolicy of RayCluster {cluster.namespace}/{cluster.name} denies ingress from this RayJob's submitter: add "
        f"to its spec.networkPolicy.head.ingressRules a rule from pods with the labels {LABEL_ORIGIN_CRD}: RayJob and "
        f"{LABEL_ORIGIN_NAME}: {draft.obj.name} to TCP port {port}"
    )
    limit = _limit(draft)
    if since is not None and deadlines.passed(draft, since + limit):
        told = f"The submitter did not hand the job in within {int(limit.total_seconds())} s: {sentence}."
        fail(draft, JobFailedReason.SUBMISSION_FAILED, told)
        return True
    if draft.hold(REASON, sentence):
        draft.event(REASON, sentence[0].upper() + sentence[1:], action="Validate", warning=True)
    return False


def admits(spec: RayClusterSpec, cluster: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod with *labels*, in the namespace of *cluster*, may reach its dashboard as far as ``spec.networkPolicy``
    tells. A rule that only a namespace's labels or addresses decide counts as admitting."""
    policy = spec.network_policy
    if policy is None or not _restricts(spec) or labels.get(LABEL_CLUSTER) == cluster:
        return True
    rules = policy.head.ingress_rules if policy.head is not None else ()
    port = _dashboard_port(spec)
    return any(_opens(rule, port) and _lets_in(rule, labels) for rule in rules)


def _restricts(spec: RayClusterSpec) -> bool:
    """Whether ingress is restricted at all."""
    return spec.network_policy is not None and spec.network_policy.mode != "DenyAllEgress"


def _in_force(draft: Draft) -> bool:
    return draft.observed.gate(NETWORK_POLICY) and draft.observed.hooks.has(_PLUGIN)


def _limit(draft: Draft) -> timedelta:
    """As long as a dashboard may give no answer."""
    return draft.observed.config.job_status_check_timeout


def _dashboard_port(spec: RayClusterSpec) -> int:
    return port_param(spec.head_group_spec.ray_start_params, "dashboard-port", DEFAULT_DASHBOARD_PORT)


def _running_since(pod: Pod) -> datetime | None:
    running = (status.state.running for status in pod.status.container_statuses)
    return min((state.started_at for state in running if state is not None and state.started_at), default=None)


def _opens(rule: Mapping[str, Any], port: int) -> bool:
    """Whether the rule is about TCP *port*; a port by name may be that."""
    ports = rule.get("ports") or ()
    return not ports or any(_is_port(entry, port) for entry in ports)


def _is_port(entry: Mapping[str, Any], port: int) -> bool:
    if (entry.get("protocol") or "TCP") != "TCP":
        return False
    first, last = entry.get("port"), entry.get("endPort")
    if not isinstance(first, int):
        return True
    return first <= port <= (last if isinstance(last, int) else first)


def _lets_in(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    peers = rule.get("from") or ()
    return not peers or any(_is_peer(peer, labels) for peer in peers)


def _is_peer(peer: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if peer.get("ipBlock") is not None:
        return True
    selector = peer.get("podSelector")
    return selector is None or _selects(selector, labels)


def _selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """A Kubernetes label selector; an empty one selects everything."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(expression, labels) for expression in selector.get("matchExpressions") or ())


def _meets(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression.get("key", "")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return True
