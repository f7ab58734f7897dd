"""What people do to a cluster, as a seeded script: the stories of some RayClusters, RayJobs and RayServices, told at once.

The script does not depend on what the operator does, so the same seed can be played with and without faults, and the
outcome compared.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, RAYSERVICE, SERVICE
from kuberay.api.names import LABEL_CLUSTER, LABEL_GROUP

from kuberay_testkit.sim.autoscaled_story import AutoscaledStory
from kuberay_testkit.sim.cluster_story import ClusterStory
from kuberay_testkit.sim.cron_story import CronStory
from kuberay_testkit.sim.job_story import JobStory
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.service_story import ServiceStory
from kuberay_testkit.sim.status import APIError
from kuberay_testkit.sim.story import NAMESPACE as NAMESPACE
from kuberay_testkit.sim.story import Action
from kuberay_testkit.sim.world import SimWorld

JOB_PREFIX = "rj"
"""How the names of RayJobs in scripts begin."""
SERVICE_PREFIX = "sv"
"""How those of RayServices do."""

_RETRY = 0.5


@dataclass(slots=True)
class Script:
    """Everything that happens, and what must be there in the end."""

    actions: list[Action] = field(default_factory=list)
    clusters: list[ClusterStory] = field(default_factory=list)
    autoscaled: list[AutoscaledStory] = field(default_factory=list)
    jobs: list[JobStory] = field(default_factory=list)
    crons: list[CronStory] = field(default_factory=list)
    services: list[ServiceStory] = field(default_factory=list)

    @property
    def pods(self) -> Counter[tuple[str, str]]:
        """Expected pods of the clusters without an autoscaler, by (cluster, group); the head's is ``headgroup``."""
        found: Counter[tuple[str, str]] = Counter()
        for story in self.clusters:
            found += story.pods()
        return found

    async def play(self, world: SimWorld) -> None:
        """Do everything, each at its time."""
        begun = world.server.clock.elapsed()
        stories: dict[str, list[Action]] = {}
        for action in sorted(self.actions, key=lambda action: action.at):
            stories.setdefault(action.story, []).append(action)
        await asyncio.gather(*(_tell(world, begun, actions) for actions in stories.values()))


async def _tell(world: SimWorld, begun: float, actions: list[Action]) -> None:
    """One story. Who creates an object while its forerunner of the same name is still going tries again."""
    for action in actions:
        await asyncio.sleep(max(0.0, begun + action.at - world.server.clock.elapsed()))
        while True:
            try:
                action.do(world)
                break
            except APIError as error:
                if error.reason != "AlreadyExists":
                    error.add_note(f"when it came to: {action.what}")
                    raise
            await asyncio.sleep(_RETRY)


def write_script(
    seed: int,
    *,
    clusters: int = 3,
    autoscaled: int = 0,
    jobs: int = 2,
    crons: int = 0,
    services: int = 0,
    incremental: bool = False,
    span: float = 90.0,
) -> Script:
    """A script of so many RayClusters, such with an autoscaler, RayJobs, RayCronJobs and RayServices, within *span* seconds.
    *incremental*: whether RayServices may be upgraded by a gateway."""
    script = Script()

    def random(name: str) -> Random:
        return Random(f"script {seed} {name}")

    for name in (f"rc{number}" for number in range(clusters)):
        script.clusters.append(ClusterStory(name, random(name), span))
    for name in (f"as{number}" for number in range(autoscaled)):
        script.autoscaled.append(AutoscaledStory(name, random(name), span))
    for cluster in script.clusters:
        script.actions += cluster.actions
    for scaled in script.autoscaled:
        script.actions += scaled.actions
    script.jobs = [JobStory(name, random(name), span) for name in (f"{JOB_PREFIX}{number}" for number in range(jobs))]
    script.crons = [
        CronStory(name, random(name), span) for name in (f"{JOB_PREFIX}c{number}" for number in range(crons))
    ]
    for job in script.jobs:
        script.actions += job.actions
    for cron in script.crons:
        script.actions += cron.actions
    script.services = [
        ServiceStory(name, random(name), span, incremental=incremental)
        for name in (f"{SERVICE_PREFIX}{number}" for number in range(services))
    ]
    for service in script.services:
        script.actions += service.actions
    return script


def shape(server: SimServer, namespace: str = NAMESPACE, *, rayjobs: bool = True) -> dict[str, Counter[str]]:
    """What is there, with the random parts of names taken out: comparable between runs. Clusters with an autoscaler are
    left out (see `AutoscaledStory`), what belongs to RayServices is (see `service_rest`), and what belongs to RayJobs, where
    *rayjobs* is false (see `JobRules`)."""
    skipped = {
        cluster["metadata"]["name"]
        for cluster in server.objects(RAYCLUSTER, namespace)
        if cluster["spec"].get("enableInTreeAutoscaling")
        or (not rayjobs and cluster["metadata"]["name"].startswith(JOB_PREFIX))
        or cluster["metadata"]["name"].startswith(SERVICE_PREFIX)
    }
    multi_host = {
        cluster["metadata"]["name"]
        for cluster in server.objects(RAYCLUSTER, namespace)
        if not cluster["spec"].get("suspend")
        and any(
            group.get("numOfHosts", 1) > 1 and not group.get("suspend")
            for group in cluster["spec"].get("workerGroupSpecs") or ()
        )
    }
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
        if labels.get(LABEL_CLUSTER) in skipped or (not rayjobs and LABEL_CLUSTER not in labels):
            continue
        place = f"{known(labels.get(LABEL_CLUSTER, ''))} {labels.get(LABEL_GROUP, 'submitter')}"
        found["pods"][f"{place} {status.get('phase')}"] += 1
    for service in server.objects(SERVICE, namespace):
        owners = {owner["kind"] for owner in service["metadata"].get("ownerReferences") or ()}
        if owners & {RAYJOB.kind, RAYSERVICE.kind}:
            continue  # made while the job runs, if all goes well; nothing needs it when the job is over
        name = service["metadata"]["name"]
        if (service["metadata"].get("labels") or {}).get(LABEL_CLUSTER) in skipped:
            continue
        if name.endswith("-headless") and name.removesuffix("-headless") not in multi_host:
            continue  # stays when the last replica of several hosts went, if there was time to make it
        found["services"][known(name)] += 1
    for job in server.objects(JOB, namespace) if rayjobs else ():
        found["jobs"][job["metadata"]["name"]] += 1
    for cluster in server.objects(RAYCLUSTER, namespace):
        if cluster["metadata"]["name"] in skipped:
            continue
        status = cluster.get("status") or {}
        counts = [str(status.get(key) or 0) for key in ("desiredWorkerReplicas", "readyWorkerReplicas")]
        # Whether a head had started before the cluster was suspended depends on how long that took.
        told_of = [c for c in status.get("conditions") or () if c["type"] != "RedisStorageUnused"]
        conditions = sorted(f"{c['type']}={c['status']}" for c in told_of)
        told = " ".join([str(status.get("state")), *counts, *conditions])
        found["clusters"][f"{aliases[cluster['metadata']['name']]}: {told}"] += 1
    for rayjob in server.objects(RAYJOB, namespace) if rayjobs else ():
        status = rayjob.get("status") or {}
        told = " ".join(str(status.get(key)) for key in ("jobDeploymentStatus", "jobStatus", "failed", "succeeded"))
        found["rayjobs"][f"{rayjob['metadata']['name']}: {told}"] += 1
    return found
