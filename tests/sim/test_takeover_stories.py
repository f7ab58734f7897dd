"""How what KubeRay left running goes on under this operator: jobs end, services serve and are upgraded, clusters are cleaned up."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from former_operator import TIME, Recorded
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, RAYSERVICE, SERVICE
from kuberay.api.names import LABEL_SERVE
from kuberay_testkit.golden import Manifest
from kuberay_testkit.sim.endpoints import SimEndpoints
from sim_takeover import Takeover, play

RUNNING_JOB = {"jobStatus": "RUNNING", "jobDeploymentStatus": "Running", "jobStatusCheckFailureStartTime": None}
STORAGE = "ray.io/external-storage-namespace"


@pytest.mark.parametrize("name", ["rayjob/job-minimal", "rayjob/job-http", "rayjob/job-sidecar", "volcano/volcano-job"])
def test_a_running_job_goes_on_and_is_handed_in_by_nobody_else(name: str) -> None:
    """Its submitter, or the request that KubeRay sent, has brought it to Ray; it ends as it does."""

    async def story(takeover: Takeover) -> None:
        dashboard, job_id = takeover.world.dashboard, takeover.recorded.cluster
        dashboard.set_job(takeover.dashboard(), job_id, "RUNNING")
        await takeover.load(**RUNNING_JOB)
        dashboard.calls.clear()
        await takeover.start(120)
        takeover.expect_untouched()
        takeover.expect_status_kept(RAYJOB)
        assert takeover.get(RAYJOB)["status"]["jobStatus"] == "RUNNING"
        assert {call for call, _, _ in dashboard.calls} <= {"job_info"}, "nothing was submitted or stopped"

        dashboard.set_job(takeover.dashboard(), job_id, "SUCCEEDED", message="all done")
        for pod in takeover.world.server.objects(POD, takeover.recorded.namespace):
            if pod["metadata"]["labels"].get("batch.kubernetes.io/job-name"):
                takeover.world.kubelet.finish(takeover.recorded.namespace, pod["metadata"]["name"])
        if name == "rayjob/job-sidecar":
            takeover.world.kubelet.end_container(
                takeover.recorded.namespace, takeover.recorded.head, "ray-job-submitter", exit_code=0
            )

        def ended() -> bool:
            status = takeover.get(RAYJOB)["status"]
            return (status["jobDeploymentStatus"], status["jobStatus"]) == ("Complete", "SUCCEEDED")

        await takeover.world.until(ended, within=300)
        assert takeover.get(RAYJOB)["status"]["startTime"] == TIME
        assert dashboard.count("submit_job") == 0

    play(name, story)


def test_a_job_that_has_ended_stays_ended() -> None:
    ended = {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "succeeded": 1, "endTime": TIME}

    async def story(takeover: Takeover) -> None:
        await takeover.load(**ended, message="all done", jobStatusCheckFailureStartTime=None)
        (submitter,) = takeover.world.server.objects(POD, labels="batch.kubernetes.io/job-name=basic")
        takeover.world.kubelet.finish(takeover.recorded.namespace, submitter["metadata"]["name"])
        await takeover.world.pass_time(5)
        takeover.before = takeover.there()
        await takeover.start(300)
        takeover.expect_untouched()
        takeover.expect_status_kept(RAYJOB)

    play("rayjob/job-minimal", story)


CLUSTER_KEYS = {"ray.io/originated-from-cr-name": "shop", "ray.io/originated-from-crd": "RayService"}
OWNER = [
    {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "shop", "controller": True, "blockOwnerDeletion": True}
]


def serving_children() -> list[Manifest]:
    """The Services of a RayService that serves (spec rayservice.md 4.1 and 4.2), which come after the recording ends."""
    ports = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}
    base = {"app.kubernetes.io/name": "kuberay", "app.kubernetes.io/created-by": "kuberay-operator"}
    head = {"ray.io/cluster": "shop-<rand>", "ray.io/node-type": "head", "ray.io/identifier": "shop-<rand>-head"}

    def service(name: str, labels: Manifest, spec: Manifest) -> Manifest:
        metadata = {"name": name, "labels": {**CLUSTER_KEYS, **labels}, "ownerReferences": OWNER}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}

    of_head = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "ports": [{"name": name, "port": port, "appProtocol": "tcp"} for name, port in ports.items()],
        "selector": {**base, **head},
    }
    of_serve = {
        "ports": [{"name": "serve", "port": 8000}],
        "selector": {"ray.io/cluster": "shop-<rand>", "ray.io/serve": "true"},
    }
    return [
        service("shop-head-svc", {"ray.io/node-type": "head", "ray.io/identifier": "shop-head"}, of_head),
        service("shop-serve-svc", {"ray.io/serve": "shop-serve"}, of_serve),
    ]


def serving_status(recorded: Recorded) -> dict[str, Any]:
    """As KubeRay writes it (recorded in scenarios/rayservice/first-deploy)."""
    applications = {"greeter": {"status": "RUNNING", "serveDeploymentStatuses": {"Greeter": {"status": "HEALTHY"}}}}
    active = {
        "applicationStatuses": applications,
        "rayClusterName": recorded.cluster,
        "rayClusterStatus": "<copy of the cluster status>",
    }
    conditions = [
        ("Ready", "True", "NonZeroServeEndpoints", "Number of serve endpoints is greater than 0"),
        ("UpgradeInProgress", "False", "NoPendingCluster", "Active Ray cluster exists and no pending Ray cluster"),
    ]
    return {
        "activeServiceStatus": active,
        "pendingServiceStatus": {"rayClusterStatus": "<copy of the cluster status>"},
        "serviceStatus": "Running",
        "numServeEndpoints": 2,
        "conditions": [
            {"type": t, "status": s, "reason": r, "message": m, "lastTransitionTime": TIME, "observedGeneration": 2}
            for t, s, r, m in conditions
        ],
    }


async def load_serving(takeover: Takeover) -> None:
    """A RayService whose application runs, with its head taking requests."""
    world, recorded = takeover.world, takeover.recorded
    world.add(SimEndpoints(world.server, delay=(0.05, 0.2)))
    await takeover.load(extra=serving_children(), **serving_status(recorded))
    world.server.patch(POD, recorded.namespace, recorded.head, {"metadata": {"labels": {LABEL_SERVE: "true"}}})
    world.dashboard.strict = False
    serve = world.dashboard.serve(takeover.dashboard())
    serve.configs.append(yaml.safe_load(takeover.get(RAYSERVICE)["spec"]["serveConfigV2"]))
    serve.set("greeter", "RUNNING", deployments={"Greeter": "HEALTHY"})
    await world.pass_time(5)
    takeover.before = takeover.there()


def test_a_service_that_serves_goes_on_serving() -> None:
    """RS-02: KubeRay's hash cannot be compared, so the RayCluster's spec is; nothing else tells a change that there is not."""

    async def story(takeover: Takeover) -> None:
        await load_serving(takeover)
        broken: list[str] = []

        def serves(_server: Any, _change: Any) -> None:
            conditions = {c["type"]: c["status"] for c in takeover.get(RAYSERVICE)["status"]["conditions"]}
            if (conditions["Ready"], conditions["UpgradeInProgress"]) != ("True", "False"):
                broken.append(str(conditions))

        takeover.world.always(serves)
        await takeover.start(120)
        takeover.expect_untouched()
        takeover.expect_status_kept(RAYSERVICE)
        assert not broken, "its conditions never flap"
        assert len(takeover.world.server.objects(RAYCLUSTER)) == 1
        before, *later = takeover.world.dashboard.serve(takeover.dashboard()).configs
        assert later in ([], [before]), "Serve is told once at most what it runs already"
        assert not [call for call in await takeover.operator.idle_calls() if call.changed], "it comes to rest"

    play("rayservice/svc-minimal", story)


def test_a_service_that_was_taken_over_can_be_upgraded() -> None:
    """The first real edit makes a second RayCluster, and clients are led there, over Services that KubeRay made."""

    async def story(takeover: Takeover) -> None:
        await load_serving(takeover)
        await takeover.start()
        old, place = takeover.recorded.cluster, takeover.recorded.namespace
        config = copy.deepcopy(takeover.get(RAYSERVICE)["spec"]["rayClusterConfig"])
        config["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] += "-py312"
        takeover.world.server.patch(RAYSERVICE, place, "shop", {"spec": {"rayClusterConfig": config}})

        def moved() -> bool:
            active = takeover.get(RAYSERVICE)["status"]["activeServiceStatus"].get("rayClusterName")
            selector = takeover.get(SERVICE, "shop-serve-svc")["spec"]["selector"]
            return active not in (None, "", old) and selector["ray.io/cluster"] == active

        await takeover.world.until(moved, within=300)
        assert takeover.get(SERVICE, "shop-serve-svc")["spec"]["selector"][LABEL_SERVE] == "true"

    play("rayservice/svc-minimal", story)


NEXT = "shop-p3nd6"
NEWER = "-py312"


def next_cluster(recorded: Recorded) -> list[Manifest]:
    """Another RayCluster of the service with its pods and head service, which KubeRay made for a newer image."""
    text = yaml.safe_dump(recorded.case.expected["children"], width=10_000)
    children: list[Manifest] = yaml.safe_load(text.replace("shop-<rand>", NEXT))
    for child in children:
        if child["kind"] == "RayCluster":
            child["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] += NEWER
    return children


def test_an_upgrade_that_kuberay_began_is_finished() -> None:
    """RS-02, RS-08: the pending RayCluster is the one that is asked for, so there is no third."""

    async def story(takeover: Takeover) -> None:
        world, recorded = takeover.world, takeover.recorded
        active, pending = recorded.cluster, NEXT
        status = serving_status(recorded)
        status["pendingServiceStatus"] = {"rayClusterName": pending, "rayClusterStatus": {}}
        status["conditions"][1] |= {"status": "True", "reason": "BothActivePendingClustersExist"}
        world.add(SimEndpoints(world.server, delay=(0.05, 0.2)))
        await takeover.load(extra=[*serving_children(), *next_cluster(recorded)], **status)
        place = recorded.namespace
        config = copy.deepcopy(takeover.get(RAYSERVICE)["spec"]["rayClusterConfig"])
        config["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] += NEWER
        world.server.patch(RAYSERVICE, place, "shop", {"spec": {"rayClusterConfig": config}})
        world.dashboard.strict = False
        serve = world.dashboard.serve(takeover.dashboard())
        serve.configs.append(yaml.safe_load(takeover.get(RAYSERVICE)["spec"]["serveConfigV2"]))
        serve.set("greeter", "RUNNING", deployments={"Greeter": "HEALTHY"})
        await world.pass_time(5)
        seen: set[str] = set()
        world.always(lambda *_: seen.update(c["metadata"]["name"] for c in world.server.objects(RAYCLUSTER, place)))
        takeover.operator.start()

        def moved() -> bool:
            selector = takeover.get(SERVICE, "shop-serve-svc")["spec"]["selector"]
            now = takeover.get(RAYSERVICE)["status"]["activeServiceStatus"].get("rayClusterName")
            return (now, selector["ray.io/cluster"]) == (pending, pending)

        await world.until(moved, within=300)
        await world.until(lambda: world.server.peek(RAYCLUSTER, place, active) is None, within=300)
        assert seen == {active, pending}, "no third RayCluster"

    play("rayservice/svc-minimal", story)


def test_an_edit_of_ports_reaches_the_service_that_kuberay_made() -> None:
    """KubeRay's ports are its own in the eyes of the API server; together with the wanted ones they would be refused."""

    async def story(takeover: Takeover) -> None:
        await takeover.load()
        await takeover.start(20)
        place = takeover.recorded.namespace
        head = copy.deepcopy(takeover.get(RAYCLUSTER)["spec"]["headGroupSpec"])
        ports = [{"name": "client", "containerPort": 10100}, {"name": "dashboard", "containerPort": 8265}]
        head["template"]["spec"]["containers"][0]["ports"] = ports
        takeover.world.server.patch(RAYCLUSTER, place, takeover.recorded.name, {"spec": {"headGroupSpec": head}})

        def moved() -> bool:
            found = takeover.get(SERVICE, f"{takeover.recorded.name}-head-svc")["spec"]["ports"]
            return {port["name"]: port["port"] for port in found}.get("client") == 10100

        await takeover.world.until(moved, within=120)
        assert takeover.gone() == []

    play("raycluster/one-group", story)


def test_redis_is_cleaned_up_after_a_cluster_of_kuberay() -> None:
    """Deleted later, the RayCluster waits for the job that removes what KubeRay's head stored, under the same name."""

    async def story(takeover: Takeover) -> None:
        await takeover.load()
        await takeover.start(20)
        place, name = takeover.recorded.namespace, takeover.recorded.name
        stored_as = takeover.get(POD, takeover.recorded.head)["metadata"]["annotations"][STORAGE]
        takeover.world.server.delete(RAYCLUSTER, place, name)
        seen: list[Manifest] = []

        def cleaned() -> bool:
            seen.extend(takeover.world.server.objects(JOB, place))
            return bool(seen)

        await takeover.world.until(cleaned, within=120)
        assert takeover.world.server.peek(RAYCLUSTER, place, name) is not None, "it waits for the job"
        template = seen[0]["spec"]["template"]
        assert template["metadata"]["annotations"][STORAGE] == stored_as

    play("raycluster/gcsft-value", story)


def test_recreate_waits_for_a_real_edit() -> None:
    """RC-04: the hash KubeRay wrote is another one for the same spec."""

    async def story(takeover: Takeover) -> None:
        await takeover.load()
        await takeover.start()
        takeover.expect_untouched()
        place, name = takeover.recorded.namespace, takeover.recorded.name
        spec = copy.deepcopy(takeover.get(RAYCLUSTER)["spec"])
        spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] += "-py312"
        takeover.world.server.patch(RAYCLUSTER, place, name, {"spec": spec})
        pods = {f"Pod {pod['metadata']['name']}" for pod in takeover.world.server.objects(POD)}
        await takeover.world.until(lambda: pods <= set(takeover.gone()), within=120)

    play("raycluster/template-change-recreate", story)
