"""A simulated cluster whose Ray jobs live and die with their heads, for stories in which anything may fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from kuberay.api.kinds import RAYJOB
from kuberay.ray.dashboard import DashboardClient

from kuberay_testkit.sim.operator import RayWorld
from kuberay_testkit.sim.ray_heads import Fate, Outcome
from kuberay_testkit.sim.serve_heads import ServeHeads
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.submitters import SimSubmitters
from kuberay_testkit.sim.world import SimWorld

OUTCOMES = "sim.kuberay.dev/outcomes"
"""Annotation of a RayJob: how the jobs of its attempts end, one after the other; the last holds for all further ones."""
SECONDS = "sim.kuberay.dev/seconds"
"""Annotation of a RayJob: how long its jobs run."""


def fate_of(server: SimServer) -> Callable[[str, str, str], tuple[Outcome, float]]:
    """For `RayHeads`: what the RayJob whose attempt it is wants of a job."""

    def fate(namespace: str, cluster: str, job_id: str) -> tuple[Outcome, float]:
        for stored in server.store.all_of(RAYJOB):
            status = stored.body.get("status") or {}
            named = status.get("jobId") or stored.body["spec"].get("jobId") or job_id
            if stored.key.namespace == namespace and (status.get("rayClusterName"), named) == (cluster, job_id):
                notes = stored.metadata.get("annotations") or {}
                words = str(notes.get(OUTCOMES, "SUCCEEDED")).split(",")
                word: Any = words[min(int(status.get("failed") or 0), len(words) - 1)]
                return word, float(notes.get(SECONDS, 10))
        return "SUCCEEDED", 10.0

    return fate


class HeadsWorld(RayWorld):
    """As `RayWorld`, with `ServeHeads` for dashboards and `SimSubmitters` to bring jobs there."""

    def __init__(
        self,
        *,
        fate: Fate | None = None,
        weather: float = 0.0,
        follower_fails: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> None:
        """*fate*: how jobs end; their RayJobs' annotations say it otherwise. *weather*: which part of all calls to
        dashboards goes wrong. *follower_fails*: see `SimSubmitters`."""
        super().__init__(seed=seed, **options)
        self.ray.close()
        self.heads = ServeHeads(self.server, fate=fate or fate_of(self.server), seed=seed, intensity=weather)
        self.submitters = SimSubmitters(self.server, self.kubelet, self.heads, follower_fails=follower_fails)

    def calm(self) -> None:
        """Nothing of Ray fails any more."""
        self.heads.catch_up()

    @property
    def dashboards(self) -> DashboardClient:
        return self.heads

    async def __aenter__(self) -> Self:
        await SimWorld.__aenter__(self)
        self.add(self.submitters)
        return self
