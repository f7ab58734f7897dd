"""What a plan is: ordered writes, one status, events, probes wanted, and when to look again. Data only.

A plan function turns an `Observed` into a `Plan`; the executor performs it and nothing else decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from kuberay.api.kinds import Kind

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """An event about the planned object (spec raycluster.md 7). ``note`` is at most 1,024 characters on the wire."""

    reason: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"
    action: str = "Reconcile"
    count: int = 1
    """How many like occurrences this one event stands for (three workers created: one event, count 3)."""
    field_path: str = ""
    """The field concerned, told as ``regarding.fieldPath``; for refused specs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One change of one object.

    ``body`` may be a function, so that a pod's manifest is only built when the pod is really created. ``done`` is the
    event when the write changed something; ``failed`` makes the event from the error text, ``taken`` that of a name that an
    object of others holds, where that is another event; ``marker`` is the
    ``ReplicaFailure`` reason (spec raycluster.md 5.5) when it fails. A failed write ends its stage's successors unless
    ``optional``.
    """

    kind: Kind
    namespace: str
    name: str
    done: Event | None = None
    failed: Callable[[str], Event] | None = None
    taken: Event | None = None
    marker: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Write):
    """Create the object. An object of that name with the same controller owner counts as success."""

    body: Manifest | Callable[[], Manifest]
    random_data: Mapping[str, int] = field(default_factory=dict)
    """For Secrets: key of ``data`` to a number of random bytes. The executor draws them (plans know no chance) and puts
    them there as the text of their standard base64."""
    any_owner: bool = False
    """An object of that name counts as success whoever owns it, and is left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply(Write):
    """Server-side apply, skipped when the live object already says all of it. ``done`` when created, ``updated`` when
    an existing object was changed."""

    body: Manifest
    updated: Event | None = None
    subresource: str = ""
    create_only: bool = False
    """Leave an existing object alone, whatever it says (KubeRay's create-once objects and users' own)."""
    guarded: bool = False
    """What is wanted contradicts anybody else's object of that name (a selector with our labels), so the API server itself
    keeps it from being taken over, and nobody need look first."""
    yields: bool = False
    """Leave an object that others own alone without an error: the next plan sees it and says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Write):
    """Delete by name and UID. Gone already counts as success."""

    uid: str
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    at_once: bool = False
    """Whether a pod gets no time to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch(Write):
    """JSON merge patch, for finalizers and annotations; ``resource_version`` makes it conditional when not empty."""

    body: Manifest = field(default_factory=dict)
    resource_version: str = ""
    must_exist: bool = False
    """Fail when the object is gone, so that later stages do nothing for it."""
    operations: Sequence[Manifest] = ()
    """A JSON Patch (RFC 6902) instead of *body*."""
    subresource: str = ""


Stage = list[Write]
"""Writes that may run side by side. The next stage starts when all of this one have succeeded."""


@dataclass(frozen=True, slots=True)
class ObjectProbe:
    """Look up one object that the operator does not watch (a ServiceAccount named by a user, …)."""

    kind: Kind
    namespace: str
    name: str
    interval: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class AuthSecret:
    """Where a bearer token for the dashboard comes from."""

    namespace: str
    name: str
    key: str = "auth_token"


@dataclass(frozen=True, slots=True)
class JobInfoProbe:
    """Ask a Ray dashboard for one submission (spec rayjob.md 3.10), again and again while the plan wants it."""

    address: str
    """``host:port`` without a scheme."""
    job_id: str
    namespace: str = ""
    service: str = ""
    """Head service name, for access through the API server's proxy."""
    auth: AuthSecret | None = None
    interval: timedelta = timedelta(seconds=3)
    asked_for: str = ""
    """Another value is another question, and so asked at once: for an answer that must not be older than now."""


@dataclass(frozen=True, slots=True)
class StopJobCall:
    """Ask a Ray dashboard to stop a submission: once, or *until_answered*. An answer never changes afterwards."""

    address: str
    job_id: str
    namespace: str = ""
    service: str = ""
    auth: AuthSecret | None = None
    until_answered: bool = False
    interval: timedelta = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class SubmitJobCall:
    """Hand a job to a Ray dashboard until it is there. The answer is ``found`` once it was accepted or its id is known
    already, and does not change afterwards; after a failure the id is asked for before the job is handed in again."""

    address: str
    job_id: str
    request: str = field(repr=False)
    """The body of spec rayjob.md 3.10, as JSON."""
    namespace: str = ""
    service: str = ""
    auth: AuthSecret | None = None
    interval: timedelta = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class JobLogsProbe:
    """Ask a Ray dashboard, once, how the log of a submission ends. The value is ``{"lines": …}``; ``absent`` when there is
    no log. Its result never changes afterwards."""

    address: str
    job_id: str
    namespace: str = ""
    service: str = ""
    auth: AuthSecret | None = None


@dataclass(frozen=True, slots=True)
class LeavingPod:
    """A worker that Ray is asked to drain."""

    name: str
    uid: str
    ip: str
    deadline: datetime


@dataclass(frozen=True, slots=True)
class DrainProbe:
    """Have Ray drain workers, and ask again and again how far they are. The answer's value holds by pod UID
    ``draining``, ``drained`` or ``refused``."""

    host: str
    port: int
    pods: tuple[LeavingPod, ...]
    auth: AuthSecret | None = None
    interval: timedelta = timedelta(seconds=0.5)


@dataclass(frozen=True, slots=True)
class ActivityProbe:
    """Ask a Ray dashboard whether anything uses the cluster. The value is ``{"active": true, "reason": …}`` or
    ``{"active": false, "lastEnd": …}`` (`kuberay.ray.activity`)."""

    address: str
    namespace: str = ""
    service: str = ""
    auth: AuthSecret | None = None
    interval: timedelta = timedelta(seconds=60)
    asked_for: str = ""
    """Another value is another question, and so asked at once: for an answer that must not be older than now."""


@dataclass(frozen=True, slots=True)
class ServeProbe:
    """Ask a Ray dashboard how its Serve applications are (spec rayservice.md 2.10), again and again. The value is
    ``{"applications": {name: {"status", "message", "deployments": {name: {"status", "message"}}}}}``."""

    address: str
    namespace: str = ""
    service: str = ""
    auth: AuthSecret | None = None
    interval: timedelta = timedelta(seconds=2)
    asked_for: str = ""
    """Another value is another question, and so asked at once: for an answer that must not be older than now."""


@dataclass(frozen=True, slots=True)
class ServeConfigCall:
    """Give Serve a configuration, again and again until it is accepted; the answer does not change afterwards."""

    address: str
    config: str = field(repr=False)
    """The body of the PUT, as JSON."""
    namespace: str = ""
    service: str = ""
    auth: AuthSecret | None = None
    interval: timedelta = timedelta(seconds=2)
    occasion: str = ""
    """Another value is another call: a configuration that was accepted and is lost is given again."""


@dataclass(frozen=True, slots=True)
class ProxyHealthProbe:
    """Ask the Serve proxy of a pod whether it is healthy (spec rayservice.md 2.8). The value is ``{"healthy": bool}``; a
    proxy that does not answer, or with anything but 200, is not, and that is no error."""

    address: str
    """``host:port`` of the pod."""
    namespace: str = ""
    pod: str = ""
    """For access through the API server's proxy."""
    interval: timedelta = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class InFlightProbe:
    """Ask a Ray node how many requests Serve has under way there (`kuberay.ray.in_flight`), again and again. The value is
    ``{"inFlight": n, "seen": n}``; ``absent`` when that node tells nothing about Serve; an error when it does not answer."""

    address: str
    """``host:port`` where the pod serves metrics."""
    namespace: str = ""
    pod: str = ""
    """For access through the API server's proxy."""
    interval: timedelta = timedelta(seconds=5)


Probe = (
    ObjectProbe
    | JobInfoProbe
    | JobLogsProbe
    | StopJobCall
    | SubmitJobCall
    | ActivityProbe
    | DrainProbe
    | ServeProbe
    | ServeConfigCall
    | ProxyHealthProbe
    | InFlightProbe
)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe found last. ``at`` is when it was asked; ``failing_since`` when the current streak of errors began."""

    outcome: Literal["found", "absent", "error"]
    at: datetime
    value: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    failing_since: datetime | None = None
    since: datetime | None = None
    """When this very outcome and value came first, without another in between."""


NAMESPACE_TERMINATING = "NamespaceTerminating"
"""Reason of a `WriteFailure`: nothing can be created because the namespace is being deleted."""


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """The first write of a pass that failed; plan functions turn it into status."""

    kind: str
    name: str
    marker: str
    message: str
    reason: str = ""
    """The API server's reason, for example ``Forbidden``, ``Invalid``, ``AlreadyExists``; `NAMESPACE_TERMINATING` where
    that is the cause."""


@dataclass(slots=True)
class ExpectedPod:
    """One pod that should exist. Gangs, network policies, status totals, `render` and `why` read lists of these."""

    group: str
    """``headgroup``, a worker group's name, or ``submittergroup``."""
    node_type: str
    replica_index: int
    host_index: int
    name: str
    """Name of the live pod that fills the place, or the name it will get."""
    exists: bool
    resources: dict[str, str]
    """Requests, with limits filling in what has no request, summed over the user's containers (plugins.md 2)."""
    build: Callable[[], Manifest]


@dataclass(slots=True)
class Plan:
    """What one pass decided."""

    stages: list[Stage] = field(default_factory=list)
    status: Manifest | None = None
    """The whole status to apply, or None when what is stored already says it."""
    status_delay: timedelta = timedelta(0)
    """How long the status may wait for more changes to join it (progress is told in steps, not pod by pod)."""
    events: list[Event] = field(default_factory=list)
    """Sent after the writes and the status have succeeded."""
    probes: list[Probe] = field(default_factory=list)
    """Probes to keep going until a later plan no longer names them."""
    requeue_after: timedelta | None = None
    look_by: timedelta | None = None
    """When to look again at the latest, however long the back-off of failing writes is by then: a deadline."""
    expected_pods: list[ExpectedPod] = field(default_factory=list)
    waiting: str = ""
    """One sentence why the object is not yet where it should be; empty when nothing is awaited."""
    plugin_changes: dict[str, list[str]] = field(default_factory=dict)
    """Plugin name to the JSON pointers it changed, for `render` and logs."""
