"""Whether anything uses a RayCluster, and since when nothing does: what is asked, and what the condition then says.

Beyond KubeRay: ``lifecycle.idleTimeoutSeconds`` (docs/lifecycle.md). What cannot be seen counts as use.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kuberay.api import names
from kuberay.api.conditions import FALSE, TRUE, UNKNOWN, ClusterCondition, find_condition
from kuberay.api.times import parse_time
from kuberay.plan.build.auth import SECRET_KEY, secret_name
from kuberay.plan.cluster.conditions import Conditions
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.model import ActivityProbe, AuthSecret

PATIENCE = timedelta(minutes=2)
"""How long a dashboard may be silent before what is known of the cluster is forgotten. Nothing ends meanwhile, and what
ran meanwhile shows afterwards: Ray tells when the last driver ended."""


@dataclass(frozen=True, slots=True)
class Idleness:
    """What is known after a look."""

    since: datetime | None = None
    """None: in use, or not known."""
    confirmed: bool = False
    """Whether the answer is the one to the last question before the end."""


def time_of(conditions: Conditions, kind: str, status: str, now: datetime) -> datetime | None:
    """Since when the condition has that status. A time that is yet to come is none: a clock was wrong."""
    condition = find_condition(conditions.items, kind)
    if condition is None or condition.get("status") != status:
        return None
    try:
        since = parse_time(str(condition.get("lastTransitionTime")))
    except ValueError:
        return None
    return since if since <= now else None


def idle_since(conditions: Conditions, now: datetime) -> datetime | None:
    """Since when the cluster is stored as idle."""
    return time_of(conditions, ClusterCondition.IDLE, TRUE, now)


def observe_idleness(
    cluster: ClusterPass, conditions: Conditions, timeout: int, now: datetime, last_question: str
) -> Idleness:
    """Keeps the question going and says in the condition what is known.

    *last_question* names the end that is due, when one is: then it is asked once more, for an answer of this moment.
    """
    if not conditions.true(ClusterCondition.PROVISIONED):
        conditions.remove(ClusterCondition.IDLE)
        return Idleness()
    probe = _probe(cluster, timeout, last_question)
    if probe is None:
        _unknown(conditions, "the head service has no port named dashboard")
        return Idleness()
    cluster.probes.append(probe)
    result, known = cluster.observed.probes.get(probe), idle_since(conditions, now)
    if result is None:
        return Idleness(known)
    if result.outcome != "found":
        forgotten = (result.failing_since or result.at) + PATIENCE
        if known is not None and cluster.observed.now < forgotten:
            cluster.due.append(forgotten - cluster.observed.now)
            return Idleness(known)
        _unknown(conditions, result.error)
        return Idleness()
    if result.value.get("active") is not False:
        conditions.set(ClusterCondition.IDLE, FALSE, "InUse", str(result.value.get("reason") or "Ray gives no reason"))
        return Idleness()
    message = "no driver, submitted job, actor, task or Serve application is there"
    if result.value.get("lastEnd"):
        message += f"; the last driver or job ended at {result.value['lastEnd']}"
    condition = find_condition(conditions.items, ClusterCondition.IDLE)
    if known is None or condition is None or condition.get("message") != message:
        # Another last end means that something ran unseen since: idleness begins anew, with a time of its own.
        conditions.remove(ClusterCondition.IDLE)
        conditions.set(ClusterCondition.IDLE, TRUE, "NotInUse", message)
        return Idleness(now)
    return Idleness(known, confirmed=bool(last_question))


def _unknown(conditions: Conditions, why: str) -> None:
    message = f"it cannot be seen whether the cluster is in use, so it counts as used: {why}"
    conditions.set(ClusterCondition.IDLE, UNKNOWN, "ActivityUnknown", message)


def _probe(cluster: ClusterPass, timeout: int, last_question: str) -> ActivityProbe | None:
    """The question to the dashboard; None without a way there."""
    service, config = cluster.children.head_service, cluster.observed.config
    ports = (cluster.children.head_service_body.get("spec") or {}).get("ports") or ()
    port = next((port["port"] for port in ports if port.get("name") == "dashboard"), None)
    if service is None or port is None:
        return None
    auth = None
    if cluster.form.spec.token_auth:
        options = cluster.observed.obj.spec["authOptions"]
        auth = AuthSecret(cluster.namespace, secret_name(options, cluster.name), SECRET_KEY)
    return ActivityProbe(
        f"{names.service_fqdn(service.name, cluster.namespace, config.cluster_domain)}:{port}",
        cluster.namespace,
        service.name,
        auth,
        interval=timedelta(seconds=min(60, max(5, timeout // 10))),
        asked_for=last_question,
    )
