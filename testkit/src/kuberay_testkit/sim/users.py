"""What people do to a cluster, as a seeded script: create, scale, suspend, resume, delete, re-create, kill pods.

The script does not depend on what the operator does, so the same seed can be played with and without faults, and the
outcome compared.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE
from kuberay.api.names import LABEL_CLUSTER, LABEL_GROUP, LABEL_NODE_TYPE, WORKER

from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob
from kuberay_testkit.sim.server import SimServer

NAMESPACE = "lab"
OUTCOME = "sim.kuberay.dev/outcome"
"""Annotation of a RayJob that says how its Ray job ends."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a user does, *at* seconds after the start."""

    at: float
    what: str
    do: Callable[[SimServer], object]


@dataclass(slots=True)
class Script:
    """Everything that happens, and what must be there in the end."""

    actions: list[Action] = field(default_factory=list)
    pods: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Expected pods of user-made clusters, by (cluster, group); the head's group is ``headgroup``."""
    jobs: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Expected (deployment status, failed attempts) of the RayJobs that are left."""

    async def play(self, server: SimServer) -> None:
        """Do everything, each at its time."""
        begun = server.clock.elapsed()
        for action in sorted(self.actions, key=lambda action: action.at):
            await asyncio.sleep(max(0.0, begun + action.at - server.clock.elapsed()))
            action.do(server)


def write_script(seed: int, *, clusters: int = 3, jobs: int = 2, span: float = 90.0) -> Script:
    """A script of *clusters* RayClusters and *jobs* RayJobs within *span* seconds."""
    random, script = Random(f"script {seed}"), Script()
    for number in range(clusters):
        _cluster(script, f"rc{number}", random, span)
    for number in range(jobs):
        _job(script, f"rj{number}", random, span)
    return script


def _cluster(script: Script, name: str, random: Random, span: float) -> None:
    groups = [build_group(f"g{n}", random.randint(0, 3)) for n in range(random.randint(1, 2))]
    times = sorted(random.uniform(0, span) for _ in range(random.randint(1, 6)))
    manifest = build_raycluster(name, namespace=NAMESPACE, groups=groups)
    exists, suspended = True, False

    def add(at: float, what: str, do: Callable[[SimServer], object]) -> None:
        script.actions.append(Action(at, f"{what} {name}", do))

    def create() -> Callable[[SimServer], object]:
        body = {**manifest, "spec": {**manifest["spec"], "workerGroupSpecs": _copies(groups)}}
        return lambda server: server.create(body)

    def change(**spec: Any) -> Callable[[SimServer], object]:
        return lambda server: server.patch(RAYCLUSTER, NAMESPACE, name, {"spec": spec})

    add(times[0], "create", create())
    for at in times[1:]:
        move = random.choice(("scale", "scale", "suspend", "resume", "kill", "delete"))
        if not exists:
            suspended, exists = False, True
            add(at, "create", create())
        elif move == "scale":
            random.choice(groups)["replicas"] = random.randint(0, 4)
            add(at, "scale", change(workerGroupSpecs=_copies(groups)))
        elif move in ("suspend", "resume"):
            suspended = move == "suspend"
            add(at, move, change(suspend=suspended))
        elif move == "kill":
            add(at, "kill a pod of", _kill(name, random.random()))
        else:
            exists = False
            add(at, "delete", lambda server: server.delete(RAYCLUSTER, NAMESPACE, name))
    if exists and not suspended:
        script.pods[name, "headgroup"] = 1
        script.pods.update({(name, group["groupName"]): group["replicas"] for group in groups})


def _copies(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [dict(group) for group in groups]


def _kill(cluster: str, pick: float) -> Callable[[SimServer], object]:
    def kill(server: SimServer) -> None:
        pods = server.objects(POD, NAMESPACE, f"{LABEL_CLUSTER}={cluster},{LABEL_NODE_TYPE}={WORKER}")
        if pods:
            server.delete(POD, NAMESPACE, pods[int(pick * len(pods))]["metadata"]["name"])

    return kill


def _job(script: Script, name: str, random: Random, span: float) -> None:
    outcome = random.choice(("SUCCEEDED", "SUCCEEDED", "FAILED"))
    retries = random.randint(0, 1)
    manifest = build_rayjob(
        name,
        namespace=NAMESPACE,
        groups=random.randint(0, 2),
        annotations={OUTCOME: outcome},
        shutdownAfterJobFinishes=random.random() < 0.7,
        backoffLimit=retries,
    )
    at = random.uniform(0, span / 2)
    script.actions.append(Action(at, f"create {name}", lambda server: server.create(manifest)))
    if random.random() < 0.25:
        script.actions.append(
            Action(at + random.uniform(0, span), f"delete {name}", lambda s: s.delete(RAYJOB, NAMESPACE, name))
        )
    else:
        script.jobs[name] = ("Complete", 0) if outcome == "SUCCEEDED" else ("Failed", retries + 1)


def outcome_of(rayjob: dict[str, Any]) -> Any:
    """For `SimRay`: how the script wants this RayJob to end."""
    return (rayjob["metadata"].get("annotations") or {}).get(OUTCOME, "SUCCEEDED")


def shape(server: SimServer, namespace: str = NAMESPACE) -> dict[str, Counter[str]]:
    """What is there, with the random parts of names taken out: comparable between runs."""
    aliases = {}
    for cluster in server.objects(RAYCLUSTER, namespace):
        owner = next(iter(cluster["metadata"].get("ownerReferences") or ()), None)
        name = cluster["metadata"]["name"]
        aliases[name] = f"<cluster of {owner['name']}>" if owner else name

    def known(text: str) -> str:
        for name, alias in sorted(aliases.items(), key=lambda item: -len(item[0])):
            if text.startswith(name):
                return alias + text[len(name) :]
        return text

    found: dict[str, Counter[str]] = {kind: Counter() for kind in ("pods", "services", "jobs", "clusters", "rayjobs")}
    for pod in server.objects(POD, namespace):
        labels, status = pod["metadata"].get("labels") or {}, pod.get("status") or {}
        place = f"{known(labels.get(LABEL_CLUSTER, ''))} {labels.get(LABEL_GROUP, 'submitter')}"
        found["pods"][f"{place} {status.get('phase')}"] += 1
    for service in server.objects(SERVICE, namespace):
        if any(owner["kind"] == RAYJOB.kind for owner in service["metadata"].get("ownerReferences") or ()):
            continue  # made while the job runs, if all goes well; nothing needs it when the job is over
        found["services"][known(service["metadata"]["name"])] += 1
    for job in server.objects(JOB, namespace):
        found["jobs"][job["metadata"]["name"]] += 1
    for cluster in server.objects(RAYCLUSTER, namespace):
        status = cluster.get("status") or {}
        counts = [str(status.get(key) or 0) for key in ("desiredWorkerReplicas", "readyWorkerReplicas")]
        conditions = sorted(f"{c['type']}={c['status']}" for c in status.get("conditions") or ())
        told = " ".join([str(status.get("state")), *counts, *conditions])
        found["clusters"][f"{aliases[cluster['metadata']['name']]}: {told}"] += 1
    for rayjob in server.objects(RAYJOB, namespace):
        status = rayjob.get("status") or {}
        told = " ".join(str(status.get(key)) for key in ("jobDeploymentStatus", "jobStatus", "failed", "succeeded"))
        found["rayjobs"][f"{rayjob['metadata']['name']}: {told}"] += 1
    return found
