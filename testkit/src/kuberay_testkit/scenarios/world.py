"""One scenario's namespace on any API server: a copy of its objects, its pods and dashboards, and what steps do to them.

Everything goes over `kuberay.kube.client.Client`, so the same world serves a simulated and a real API server.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from kuberay.api.kinds import (
    EVENT,
    GATEWAY,
    HTTP_ROUTE,
    JOB,
    POD,
    RAYCLUSTER,
    RAYCRONJOB,
    RAYJOB,
    RAYSERVICE,
    SERVICE,
    Kind,
)
from kuberay.api.names import LABEL_CLUSTER
from kuberay.api.times import format_time
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import ConflictError

from kuberay_testkit.scenarios.dashboards import Conduct, Dashboards
from kuberay_testkit.scenarios.edits import edit_patch
from kuberay_testkit.scenarios.endpoints import PlayedEndpoints
from kuberay_testkit.scenarios.follow import Follower
from kuberay_testkit.scenarios.gateways import PlayedGateways
from kuberay_testkit.scenarios.masks import Masks
from kuberay_testkit.scenarios.pause import LOOK, pause
from kuberay_testkit.scenarios.pods import JOB_NAME, PlayedPods, is_ready, phase_of, role_of, terminating
from kuberay_testkit.scenarios.record import Body, Played, Record, checkpoint, final
from kuberay_testkit.scenarios.script import Scenario, UnsupportedStepError

WORLD_KEYS = frozenset({"head", "worker", "job", "dashboard", "apps", "proxy", "gateway"})
CONDUCT_KEYS = frozenset({"refuse", "fail", "slow", "proxy"})
_TRIES = 5


def scenario_kinds() -> list[Kind]:
    """Every kind a world follows, as far as the API server serves it."""
    return [POD, SERVICE, JOB, RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB, GATEWAY, HTTP_ROUTE, EVENT]


class ScenarioWorld:
    """Create it, `open` it, let `kuberay_testkit.scenarios.replay` play the steps, `close` it."""

    def __init__(
        self,
        scenario: Scenario,
        client: Client,
        clock: Clock,
        namespace: str,
        follower: Follower,
        addresses: Iterator[int] | None = None,
    ) -> None:
        """*addresses* numbers the pods of all worlds whose pods can be reached from one place."""
        self.scenario = scenario
        self.client = client
        self.clock = clock
        self.namespace = namespace
        self.objects: dict[tuple[Kind, str], Body] = {}
        self.settings: dict[str, str] = {"head": "ready", "worker": "ready"}
        self.last_change = 0.0
        self._follower = follower
        self._kinds = {kind.kind: kind for kind in scenario_kinds()}
        self.masks = Masks(namespace, scenario.given_names())
        self.record = Record(scenario.main_kind, scenario.main_name, self.masks, asyncio.get_running_loop().time)
        self._events: list[Body] = []
        self._gone: set[str] = set()
        self._changed = asyncio.Event()
        self.dashboards = Dashboards(clock, self._has_head, self._has_ready_head, self._changed.set)
        self.gateways = PlayedGateways(client, clock, namespace)
        self._endpoints: PlayedEndpoints | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._pods = PlayedPods(client, clock, namespace, addresses or itertools.count(1))
        self._failed: BaseException | None = None

    # -- life

    async def open(self) -> None:
        """Begin to listen, and create the manifests in order."""
        self.set_world(self.scenario.world)
        self._follower.subscribe(self.namespace, self._tell)
        for manifest in self.scenario.manifests:
            await self.create(manifest)

    def play_endpoints(self) -> None:
        """From now on until `close`: the server's own controller has none for pods without a node."""
        services = partial(self.all_of, SERVICE)
        self._endpoints = PlayedEndpoints(self.client, self.namespace, services, self._owned_pods)
        self._spawn(self._endpoints.run())

    async def close(self) -> None:
        self._follower.unsubscribe(self.namespace)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def verify(self) -> None:
        """Raise what ended a task of this world."""
        if error := self._failed or self._follower.failed:
            raise error

    # -- what is there

    def kind(self, name: str) -> Kind:
        if name not in self._kinds:
            raise UnsupportedStepError(f"objects of kind {name} cannot be played yet")
        return self._kinds[name]

    def all_of(self, kind: Kind) -> list[Body]:
        return [obj for (other, _), obj in self.objects.items() if other == kind]

    @property
    def main(self) -> Body | None:
        return self.objects.get((self.kind(self.scenario.main_kind), self.scenario.main_name))

    @property
    def status(self) -> Body:
        return (self.main or {}).get("status") or {}

    @property
    def cluster(self) -> str:
        """Name of the main object's present RayCluster."""
        return self.cluster_of("active")

    def cluster_of(self, side: str) -> str:
        """Name of that RayCluster of a RayService, ``active`` or ``pending``; the pending one is also the active one while
        there is no other. Other kinds have one RayCluster."""
        if self.scenario.main_kind != RAYSERVICE.kind:
            return str(self.status.get("rayClusterName") or "")
        names = {
            each: (self.status.get(f"{each}ServiceStatus") or {}).get("rayClusterName") or ""
            for each in ("active", "pending")
        }
        return str(names[side] or (names["pending"] if side == "active" else ""))

    def pods(self, role: str, cluster: str = "") -> list[Body]:
        """Live pods of a role (that have not ended), oldest first."""
        found = [
            pod
            for pod in self.all_of(POD)
            if role_of(pod) == role
            and not terminating(pod)
            and phase_of(pod) not in ("Succeeded", "Failed")
            and (not cluster or (pod["metadata"].get("labels") or {}).get(LABEL_CLUSTER) == cluster)
        ]
        return sorted(found, key=lambda pod: int(pod["metadata"]["resourceVersion"]))

    def events(self) -> Iterator[Body]:
        yield from self._events

    def route(self, service: str) -> str | None:
        """The cluster whose head service has that name."""
        for obj in self.all_of(RAYCLUSTER):
            told = ((obj.get("status") or {}).get("head") or {}).get("serviceName")
            if service in (told, f"{obj['metadata']['name']}-head-svc"):
                return str(obj["metadata"]["name"])
        return None

    def at_address(self, address: str) -> str | None:
        """The cluster whose head has that address."""
        for pod in self.pods("head"):
            if (pod.get("status") or {}).get("podIP") == address:
                return str(pod["metadata"]["labels"][LABEL_CLUSTER])
        return None

    def _owned_pods(self) -> list[Body]:
        """Without those of a cluster that is gone: how soon garbage is collected depends on the server's load."""
        return [pod for pod in self.all_of(POD) if not self._is_garbage(pod)]

    def _has_head(self, cluster: str) -> bool:
        return any(phase_of(pod) == "Running" for pod in self.pods("head", cluster))

    def _has_ready_head(self, cluster: str) -> bool:
        return any(is_ready(pod) for pod in self.pods("head", cluster))

    # -- what happens by itself

    def _wake(self) -> None:
        self.last_change = asyncio.get_running_loop().time()
        self._changed.set()

    def _tell(self, kind: Kind, change: str, obj: Body) -> None:
        if kind == EVENT:
            if change == "ADDED":
                self._events.append(obj)
            self._changed.set()
            return
        key = (kind, obj["metadata"]["name"])
        if change == "DELETED":
            self.objects.pop(key, None)
            self._gone.add(obj["metadata"]["uid"])
        else:
            self.objects[key] = obj
        self.record.change(kind, change, obj)
        if kind in (POD, SERVICE, RAYCLUSTER) and self._endpoints is not None:
            self._endpoints.changed()
        if kind == POD and change == "ADDED" and role_of(obj) in self.settings:
            self._spawn(self._pods.start(obj, self.settings))
        if kind == RAYCLUSTER and change == "ADDED":
            self.dashboards.of(obj["metadata"]["name"])  # what the world is like now counts for it
        if kind in (GATEWAY, HTTP_ROUTE) and change != "DELETED":
            self._spawn(self.gateways.see(kind, obj))
        self._wake()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = error

    # -- waiting

    async def until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until *holds*; ``AssertionError`` after *seconds*."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            self.verify()
            self._changed.clear()
            if holds():
                return
            if loop.time() >= end:
                state = {key: value for key, value in self.status.items() if isinstance(value, str | int)}
                raise AssertionError(f"not within {seconds:g} s: {what}; the status is {state}")
            try:
                async with asyncio.timeout(LOOK):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def quiet(self, seconds: float, most: float) -> None:
        """Wait until nothing has changed for *seconds* and all garbage is collected, at most *most*."""
        loop = asyncio.get_running_loop()
        end = loop.time() + most
        while loop.time() < end:
            seen = self.last_change
            await pause(max(seen + seconds - loop.time(), LOOK) + 0.01)
            if self.last_change == seen and not self._garbage():
                return

    def _garbage(self) -> bool:
        """Whether something is left whose owner was seen to go; its end is no matter of the operator."""
        return any(self._is_garbage(obj) for obj in self.objects.values())

    def _is_garbage(self, obj: Body) -> bool:
        return any(owner["uid"] in self._gone for owner in obj["metadata"].get("ownerReferences") or ())

    # -- what steps do

    def set_world(self, values: Mapping[str, Any]) -> None:
        if unknown := set(values) - WORLD_KEYS:
            raise UnsupportedStepError(f"the world's {', '.join(sorted(unknown))} cannot be played yet")
        for key in ("head", "worker"):
            self.settings[key] = values.get(key, self.settings[key])
        if "job" in values:
            self.dashboards.status_of_unknown = values["job"] or ""
        self.dashboards.apps = values.get("apps", self.dashboards.apps)
        _change(self.dashboards.conduct, values.get("dashboard") or {})
        _change(self.dashboards.conduct, {key: values[key] for key in ("proxy",) if key in values})
        if "gateway" in values:
            self.gateways.become(values["gateway"])
            for kind in (GATEWAY, HTTP_ROUTE):
                for obj in self.all_of(kind):
                    self._spawn(self.gateways.see(kind, obj))

    def set_dashboard(self, values: Mapping[str, Any], side: str = "active") -> None:
        """Change how the head of one of the main object's clusters answers."""
        _change(self.dashboards.of(self._named(side)).conduct, values)

    def set_apps(self, status: str, side: str = "active") -> None:
        """Put all applications of one of the main object's clusters into *status*; ``none``: there are none."""
        self.dashboards.of(self._named(side)).serve.set_all(status)

    def _named(self, side: str) -> str:
        name = self.cluster_of(side)
        if not name:
            raise AssertionError(f"there is no {side} cluster")
        return name

    async def create(self, manifest: Mapping[str, Any]) -> None:
        body = copy.deepcopy(dict(manifest))
        body["metadata"]["namespace"] = self.namespace
        await self.client.create(self.kind(body["kind"]), self.namespace, body)

    async def edit(self, changes: Mapping[str, Any]) -> None:
        """Set members of the main object by their path; None removes."""
        await self._patch_main(edit_patch(self.main or {}, changes))

    async def set_last_schedule(self, minutes: float) -> None:
        moment = format_time(self.clock.now() - timedelta(minutes=minutes))
        await self._patch_main({"status": {"lastScheduleTime": moment}}, "status")

    async def _patch_main(self, patch: Body, subresource: str = "") -> None:
        kind = self.kind(self.scenario.main_kind)
        name = self.scenario.main_name
        for attempt in range(_TRIES):
            try:
                await self.client.merge_patch(kind, self.namespace, name, patch, subresource=subresource)
                return
            except ConflictError:
                if attempt == _TRIES - 1:
                    raise

    async def delete(self, kind_name: str, name: str) -> None:
        """Delete an object; ``<cluster>`` is the main object's cluster."""
        kind = self.kind(kind_name)
        name = self.cluster if name == "<cluster>" else name
        uid = self.objects[kind, name]["metadata"]["uid"]
        await self.client.delete(kind, self.namespace, name, uid=uid)

    async def move_pods(self, which: str, to: str, container: str = "", side: str = "active") -> None:
        """Do something to all pods of a role of one of the main object's clusters."""
        pods = self.pods(which, self._named(side))
        if not pods:
            raise AssertionError(f"there is no {which} pod to be {to}")
        for pod in pods:
            await self._pods.move(pod, to, container)

    async def end_submitter(self, to: str, patience: float) -> None:
        """The newest submitter pod ends; it is waited for when it is not there yet."""
        await self.until(lambda: bool(self._submitters()), patience, "a submitter pod runs")
        await self._pods.move(self._submitters()[-1], to)

    def _submitters(self) -> list[Body]:
        """Running pods of the Jobs that are there now."""
        jobs = {obj["metadata"]["name"] for obj in self.all_of(JOB) if not terminating(obj)}
        return [
            pod
            for pod in self.pods("submitter")
            if pod["metadata"]["labels"][JOB_NAME] in jobs and phase_of(pod) == "Running"
        ]

    def set_job(self, status: str, message: str = "", job_id: str = "") -> None:
        """Put the main object's present Ray job into *status*."""
        cluster, current = self.cluster, job_id or str(self.status.get("jobId") or "")
        if not cluster or not current:
            raise AssertionError(f"there is no job yet to be {status}")
        self.dashboards.set_job(cluster, current, status, message)

    # -- what was seen

    def take_checkpoint(self, name: str) -> None:
        self.record.checkpoints.append(
            {"at": name, **checkpoint(self.scenario.main_kind, self.main, self._looked_at())}
        )

    def _looked_at(self) -> list[tuple[Kind, Body]]:
        return [(kind, obj) for (kind, _), obj in self.objects.items()]

    def played(self) -> Played:
        """All that was seen, masked."""
        events: dict[str, list[tuple[str, str]]] = {}
        ignored = set(self.scenario.ignored_events)
        for event in sorted(self._events, key=_event_time):
            about = event.get("regarding") or {}
            if about.get("kind", "").startswith("Ray") and event["reason"] not in ignored:
                place = self.masks.text(f"{about['kind']} {about['name']}")
                events.setdefault(place, []).append((_event_time(event), f"{event['type']} {event['reason']}"))
        masked = self.masks.put_on
        return Played(
            transitions=masked(self.record.transitions),
            lifecycle=masked(self.record.lifecycle),
            requests=masked(
                {name: board.requests for name, board in self.dashboards.by_cluster.items() if board.requests}
            ),
            events=events,
            checkpoints=masked(self.record.checkpoints),
            final=masked(final(self.scenario.main_kind, self.main, self._looked_at())),
            lasted=self.record.lasted(),
        )


def _change(conduct: Conduct, values: Mapping[str, Any]) -> None:
    if unknown := set(values) - CONDUCT_KEYS:
        raise UnsupportedStepError(f"a dashboard's {', '.join(sorted(unknown))} cannot be played yet")
    for key, value in values.items():
        setattr(conduct, key, value)


def _event_time(event: Body) -> str:
    return str(event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")
