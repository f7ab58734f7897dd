"""What happens to pods: they start after a delay, do what their annotations wish, and fail or end when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kuberay.api import kinds

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.environment import stamp
from kuberay_testkit.sim.podstatus import Wish, container_ended, reached, read_wish, set_condition
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

HOST_IP = "10.77.0.1"
_FIRST_ADDRESS = 10 << 24 | 16 << 16

Behave = Callable[[dict[str, Any]], Wish | None]
"""Decides for a pod (parsed JSON) what becomes of it; None: its annotations say."""


class SimKubelet(Controller):
    """Makes pods Running and ready. Steered per pod by the same annotations as the development cluster's fake kubelet
    (``fake-kubelet.kuberay.dev/phase``, ``ready``, ``delay``, ``hold``), or by *behave* for all of them."""

    def __init__(
        self,
        server: SimServer,
        *,
        delay: tuple[float, float] = (0.5, 2.0),
        behave: Behave | None = None,
    ) -> None:
        """*delay* is the range of seconds a pod takes to start."""
        self.behave = behave
        self._addresses = 0
        self._progress: dict[str, tuple[Wish, float, bool]] = {}
        self._grace_began: dict[str, float] = {}
        self._lost: set[str] = set()
        super().__init__(server, delay=delay)

    # -- pods by themselves

    def observe(self, change: Change) -> None:
        stored = change.stored
        if stored.key.kind != kinds.POD:
            return
        if change.type == "DELETED":
            self._progress.pop(stored.uid, None)
            self._grace_began.pop(stored.uid, None)
            self._lost.discard(stored.uid)
        elif stored.deleting:
            self._grace_began.setdefault(stored.uid, self.server.clock.elapsed())
            self.enqueue(stored.key, float(stored.metadata.get("deletionGracePeriodSeconds") or 0))
        else:
            self.enqueue(stored.key, 0.0)

    def sync(self, key: Key) -> None:
        stored = self.server.store.get(key)
        if stored is None:
            return
        if stored.deleting:
            self._finish_grace(stored)
            return
        status = stored.body.get("status") or {}
        wish = self._wish(stored)
        if wish.hold or wish.phase == "Pending" or status.get("phase") in ("Succeeded", "Failed"):
            return
        if stored.body["spec"].get("schedulingGates"):
            return
        now = self.server.clock.elapsed()
        known = self._progress.get(stored.uid)
        if known is None or known[0] != wish:
            low, high = self.delay
            own = low + (high - low) * self.server.random.random()
            running = "startTime" in status and status.get("phase") == wish.phase
            known = (wish, now + (own if wish.delay is None else wish.delay), known is None and running)
            self._progress[stored.uid] = known
        _, due, done = known
        if done:
            return
        if due > now + 1e-6:
            self.enqueue(key, due - now)
            if wish.ends and "startTime" not in status:
                # On its way to Succeeded or Failed a pod runs first; the delay is how long.
                self._reach(stored, "Running", ready=True)
            return
        self._progress[stored.uid] = (wish, due, True)
        self._reach(stored, wish.phase, ready=wish.ready)

    def _wish(self, stored: Stored) -> Wish:
        wish = self.behave(stored.copy()) if self.behave is not None else None
        return wish if wish is not None else read_wish(stored.metadata.get("annotations") or {})

    def _finish_grace(self, stored: Stored) -> None:
        if stored.uid in self._lost:
            return
        grace = float(stored.metadata.get("deletionGracePeriodSeconds") or 0)
        left = self._grace_began[stored.uid] + grace - self.server.clock.elapsed()
        if left > 1e-6:
            self.enqueue(stored.key, left)
        else:
            self.server.finish_grace(stored)

    def _reach(self, stored: Stored, phase: str, *, ready: bool, exit_code: int = 1) -> None:
        status = reached(
            stored.copy(),
            phase,
            ready=ready,
            host_ip=HOST_IP,
            pod_ip=(stored.body.get("status") or {}).get("podIP") or self._address(),
            now=stamp(self.server.now()),
            exit_code=exit_code,
        )
        self.server.set_status(*stored.key, status, manager="kubelet")

    def _address(self) -> str:
        while True:
            self._addresses += 1
            number = _FIRST_ADDRESS + self._addresses
            if number & 0xFF not in (0, 0xFF):
                return ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8, 0))

    # -- pods as a test wants them

    def _pod(self, namespace: str, name: str) -> Stored:
        stored = self.server.store.get(Key(kinds.POD, namespace, name))
        if stored is None:
            raise LookupError(f"there is no pod {namespace}/{name}")
        return stored

    def _settled(self, stored: Stored) -> None:
        """Leave the pod as it is from now on."""
        self._progress[stored.uid] = (self._wish(stored), 0.0, True)

    def start(self, namespace: str, name: str, *, ready: bool = True) -> None:
        """Running now, whatever its annotations say; with *ready* false its containers run but are not ready."""
        stored = self._pod(namespace, name)
        self._settled(stored)
        self._reach(stored, "Running", ready=ready)

    def finish(self, namespace: str, name: str) -> None:
        """All containers exit with 0: Succeeded."""
        stored = self._pod(namespace, name)
        self._settled(stored)
        self._reach(stored, "Succeeded", ready=False)

    def fail(self, namespace: str, name: str, *, exit_code: int = 1, reason: str = "", message: str = "") -> None:
        """All containers exit with *exit_code*: Failed. *reason* and *message* are the pod's own."""
        stored = self._pod(namespace, name)
        self._settled(stored)
        self._reach(stored, "Failed", ready=False, exit_code=exit_code)
        if reason or message:
            self._change(namespace, name, lambda status: status.update(reason=reason, message=message))

    def evict(self, namespace: str, name: str, *, message: str = "The node was low on resource: memory.") -> None:
        """Failed with reason ``Evicted``, as under node pressure."""
        self.fail(namespace, name, exit_code=137, reason="Evicted", message=message)

    def lose(self, namespace: str, name: str) -> None:
        """The node went silent: readiness is unknown, the pod is told to go and nobody is there to end it. It stays like
        that until `give_up`."""
        stored = self._pod(namespace, name)
        self._settled(stored)
        self._lost.add(stored.uid)
        now = stamp(self.server.now())
        self._change(namespace, name, lambda status: _unknown(status, now))
        self.server.delete(kinds.POD, namespace, name, uid=stored.uid)

    def give_up(self, uid: str) -> None:
        """The lost node was removed from the cluster, and with it the pod that was on it."""
        self._lost.discard(uid)
        stored = self.server.store.by_uid(uid)
        if stored is not None:
            self.server.finish_grace(stored)

    def set_unschedulable(
        self, namespace: str, name: str, *, message: str = "0/1 nodes are available: 1 Insufficient cpu."
    ) -> None:
        """Pending with ``PodScheduled`` False."""
        self._settled(self._pod(namespace, name))
        now = stamp(self.server.now())
        self._change(
            namespace,
            name,
            lambda status: set_condition(status, "PodScheduled", False, now, "Unschedulable", message),
        )

    def end_container(
        self,
        namespace: str,
        name: str,
        container: str,
        exit_code: int = 0,
        message: str = "",
        *,
        starts_again: bool = True,
    ) -> None:
        """One container of a running pod exits; *message* is its termination message. Restart policies decide what follows:
        it runs again at once (with *starts_again* false it waits in back-off), it stays ended and the pod unready, or the
        whole pod is Succeeded or Failed because it was the last."""
        stored = self._pod(namespace, name)
        self._settled(stored)
        now = stamp(self.server.now())
        status = container_ended(stored.copy(), container, exit_code, message, now, starts_again=starts_again)
        self.server.set_status(*stored.key, status, manager="kubelet")

    def set_container(
        self,
        namespace: str,
        name: str,
        container: str,
        state: dict[str, Any],
        *,
        ready: bool = False,
        restarts: int | None = None,
    ) -> None:
        """Put one container into *state*, for example ``{"waiting": {"reason": "ImagePullBackOff"}}``; the state before
        becomes its last one, and the pod's readiness follows its containers."""
        stored = self._pod(namespace, name)
        self._settled(stored)
        now = stamp(self.server.now())

        def change(status: dict[str, Any]) -> None:
            containers = status.setdefault("containerStatuses", [])
            found = next((each for each in containers if each["name"] == container), None)
            if found is None:
                image = next(c["image"] for c in stored.body["spec"]["containers"] if c["name"] == container)
                found = {"name": container, "image": image, "imageID": "", "restartCount": 0, "state": {}}
                containers.append(found)
            found["lastState"] = found.get("state") or {}
            found.update(state=state, ready=ready)
            if restarts is not None:
                found["restartCount"] = restarts
            serving = all(each.get("ready") for each in containers)
            for type_ in ("ContainersReady", "Ready"):
                set_condition(status, type_, serving, now, "" if serving else "ContainersNotReady")

        self._change(namespace, name, change)

    def probed(self, namespace: str, name: str, *, ready: bool) -> None:
        """What the readiness probe of its first container says now, if that runs."""
        container = self._pod(namespace, name).body["spec"]["containers"][0]["name"]
        now = stamp(self.server.now())

        def change(status: dict[str, Any]) -> None:
            containers = status.get("containerStatuses") or ()
            for each in containers:
                if each["name"] == container and "running" in (each.get("state") or {}):
                    each["ready"] = ready
            serving = bool(containers) and all(each.get("ready") for each in containers)
            for type_ in ("ContainersReady", "Ready"):
                set_condition(status, type_, serving, now, "" if serving else "ContainersNotReady")

        self._change(namespace, name, change)

    def _change(self, namespace: str, name: str, change: Callable[[dict[str, Any]], object]) -> None:
        status: dict[str, Any] = self._pod(namespace, name).copy().get("status") or {}
        change(status)
        self.server.set_status(kinds.POD, namespace, name, status, manager="kubelet")


def _unknown(status: dict[str, Any], now: str) -> None:
    """What the node controller says of pods on a node it does not hear from."""
    for condition in status.get("conditions") or ():
        if condition["type"] in ("Ready", "ContainersReady") and condition["status"] != "Unknown":
            condition.update(status="Unknown", reason="NodeStatusUnknown", lastTransitionTime=now)
