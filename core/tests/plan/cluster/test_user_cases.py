"""Whole cases of users, from the object to its children: names, ports, copies, resources, memory, tokens."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT
from kuberay.api.validation.job import validate_job
from kuberay.plan.build.spec_hash import spec_hash
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager

Manifest = dict[str, Any]

ADDRESS = re.compile(r"--address=(\S+)")


def ray(pod: Manifest) -> Manifest:
    container: Manifest = pod["spec"]["containers"][0]
    return container


def container_of(body: Manifest, group: int | None = None) -> Manifest:
    spec = body["spec"]["headGroupSpec"] if group is None else body["spec"]["workerGroupSpecs"][group]
    return ray(spec["template"])


@pytest.mark.parametrize("length", [52, 53])
def test_names_derived_from_a_long_name_agree(kubernetes: Any, cluster: Any, group: Any, length: int) -> None:
    """RC-13: services, the address workers dial, the autoscaler's account, role and binding."""
    name = "r" * length
    body = cluster(name, groups=[group("a-rather-long-group-name", 1, numOfHosts=2)], enableInTreeAutoscaling=True)
    tiny = kubernetes(body, hooks=PluginManager(load(["autoscaler-v2"])))
    tiny.settle()
    services = {service for kind, service in tiny.objects if kind == SERVICE}
    assert services == {f"{name}-head-svc", f"{name}-headless"}
    dialled = {found for pod in tiny.workers.values() for found in ADDRESS.findall(ray(pod)["args"][0])}
    waited_for = {
        found
        for pod in tiny.workers.values()
        for init in pod["spec"]["initContainers"]
        for found in re.findall(r"--address ([^\s;]+)", init["args"][0])
    }
    assert len(tiny.workers) == 2
    assert dialled == waited_for == {f"{name}-head-svc.default.svc.cluster.local:6379"}
    (head,) = [pod for pod in tiny.pods.values() if pod["metadata"]["labels"]["ray.io/node-type"] == "head"]
    (account,) = [found for kind, found in tiny.objects if kind == SERVICE_ACCOUNT]
    (role,) = [found for kind, found in tiny.objects if kind == ROLE]
    (binding,) = [manifest for (kind, _), manifest in tiny.objects.items() if kind == ROLE_BINDING]
    assert head["spec"]["serviceAccountName"] == account == binding["subjects"][0]["name"]
    assert binding["roleRef"]["name"] == role
    assert all(len(found) <= 63 for _, found in tiny.objects), "all are names that DNS can hold"


def test_a_name_that_is_too_long_makes_nothing(kubernetes: Any, cluster: Any) -> None:
    """RC-13: one event, however often the object is looked at."""
    tiny = kubernetes(cluster("r" * 54))
    for _ in range(3):
        tiny.reconcile()
    assert [event.reason for event in tiny.events] == ["InvalidRayClusterMetadata"]
    assert tiny.objects == {}


def test_everything_follows_moved_ports(kubernetes: Any, cluster: Any) -> None:
    """RC-16: probes, head service, and the operator's own way to the dashboard; a user's own probe is left alone."""
    body = cluster(rayVersion="2.40.0")
    body["spec"]["headGroupSpec"]["rayStartParams"] = {"dashboard-port": "8300", "dashboard-agent-listen-port": "52400"}
    mine = {"tcpSocket": {"port": 1}}
    container_of(body)["readinessProbe"] = mine
    tiny = kubernetes(body)
    tiny.settle()
    (head,) = [pod for pod in tiny.pods.values() if pod["metadata"]["labels"]["ray.io/node-type"] == "head"]
    command = ray(head)["livenessProbe"]["exec"]["command"][2]
    assert "localhost:52400/" in command
    assert "localhost:8300/" in command
    assert "8265" not in command
    assert "52365" not in command
    assert ray(head)["readinessProbe"] == mine
    ports = {port["name"]: port["port"] for port in tiny.objects[SERVICE, "pair-head-svc"]["spec"]["ports"]}
    assert ports["dashboard"] == 8300
    assert tiny.status["endpoints"]["dashboard"] == "8300", "where the operator asks Ray"


def test_one_groups_settings_stay_in_that_group(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-18: also where the groups' templates are one and the same object in memory, and however often pods are made."""
    shared = group()["template"]
    own = copy.deepcopy(shared)
    ray(own)["env"] = [{"name": "X", "value": "1"}]
    body = cluster(groups=[group("a", 1, template=own), group("b", 1, template=shared), group("c", 1, template=shared)])
    before = copy.deepcopy(body["spec"])
    tiny = kubernetes(body)
    tiny.cluster["spec"]["workerGroupSpecs"][2]["template"] = tiny.cluster["spec"]["workerGroupSpecs"][1]["template"]
    tiny.settle()
    names = {
        pod["metadata"]["labels"]["ray.io/group"]: {entry["name"] for entry in ray(pod)["env"]}
        for pod in tiny.workers.values()
    }
    assert "X" in names["a"]
    assert "X" not in names["b"] | names["c"]
    assert tiny.cluster["spec"] == before
    first = _by_group(tiny)
    for name in list(tiny.pods):
        del tiny.objects[POD, name]
    tiny.settle()
    assert _by_group(tiny) == first, "pods made again are the same"


def _by_group(tiny: Any) -> Manifest:
    pods = tiny.pods.values()
    return {pod["metadata"]["labels"]["ray.io/group"]: (pod["metadata"]["labels"], pod["spec"]) for pod in pods}


def test_totals_do_not_reach_into_templates(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-19: requests stay those the user wrote; totals fill the gaps from limits; the hash is the same afterwards."""
    sized = group("g", 1)
    ray(sized["template"])["resources"] = {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}
    body = cluster(groups=[sized])
    container_of(body)["resources"] = {}
    before = spec_hash(body["spec"])
    tiny = kubernetes(body)
    tiny.settle()
    (worker,) = tiny.workers.values()
    assert ray(worker)["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}}
    assert (tiny.status["desiredCPU"], tiny.status["desiredMemory"]) == ("1", "2Gi")
    assert spec_hash(tiny.cluster["spec"]) == before
    heads = [pod for pod in tiny.pods.values() if pod not in tiny.workers.values()]
    assert heads[0]["metadata"]["annotations"]["ray.io/upgrade-strategy-recreate-hash"] == before


@pytest.mark.parametrize("device", ["nvidia.com/gpu", "google.com/tpu", "aws.amazon.com/neuroncore", "example.com/x"])
def test_only_the_ray_container_asks_for_devices(kubernetes: Any, cluster: Any, group: Any, device: str) -> None:
    """RC-29: none of what the operator puts beside it, on workers or on the head."""
    devices = group("gpu", 1)
    ray(devices["template"])["resources"] = {"limits": {device: 1}}
    body = cluster(groups=[devices], enableInTreeAutoscaling=True)
    container_of(body)["resources"] = {"limits": {device: 1}}
    tiny = kubernetes(body, hooks=PluginManager(load(["autoscaler-v2"])))
    tiny.settle()
    assert len(tiny.pods) == 2
    for pod in tiny.pods.values():
        first, *others = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
        assert others
        assert device in first["resources"]["limits"]
        for other in others:
            asked = {name for amounts in other.get("resources", {}).values() for name in amounts}
            assert asked <= {"cpu", "memory"}


@pytest.mark.parametrize(
    ("params", "mounts", "volumes"),
    [
        ({"plasma-directory": "/data/plasma"}, [], []),
        ({}, [{"name": "mine", "mountPath": "/dev/shm"}], [{"name": "mine", "emptyDir": {}}]),
        ({}, [], [{"name": "shared-mem", "emptyDir": {"sizeLimit": "1Gi"}}]),
    ],
    ids=["plasma elsewhere", "mounted by the user", "the name is the user's"],
)
def test_no_memory_volume_where_the_user_sees_to_it(
    kubernetes: Any, cluster: Any, params: dict[str, str], mounts: list[Manifest], volumes: list[Manifest]
) -> None:
    """RC-31: no volume beyond the user's own."""
    body = cluster(groups=[])
    head = body["spec"]["headGroupSpec"]
    head["rayStartParams"] = params
    head["template"]["spec"]["volumes"] = volumes
    container_of(body).update(volumeMounts=mounts, resources={"limits": {"memory": "4Gi"}})
    tiny = kubernetes(body)
    tiny.settle()
    (pod,) = tiny.pods.values()
    assert pod["spec"].get("volumes", []) == volumes
    paths = [mount["mountPath"] for mount in ray(pod).get("volumeMounts", [])]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize(
    ("version", "options", "words"),
    [
        ("2.40.0", {"mode": "token"}, "minimum Ray version is 2.52.0, got 2.40.0"),
        ("", {"mode": "token"}, "RayVersion was not specified"),
        ("2.54.0", {"mode": "token", "enableK8sTokenAuth": True}, "minimum Ray version is 2.55.0, got 2.54.0"),
        ("2.55.0", {"mode": "token", "enableK8sTokenAuth": True, "secretName": "s"}, "secretName is also set"),
        ("2.55.0", {"enableK8sTokenAuth": True}, "mode not set to 'token'"),
    ],
)
def test_token_settings_that_do_not_fit_are_refused(
    kubernetes: Any, cluster: Any, version: str, options: Manifest, words: str
) -> None:
    """SE-05: with one event that says why, and neither pods nor a Secret nobody needs."""
    tiny = kubernetes(cluster(rayVersion=version, authOptions=options))
    for _ in range(3):
        tiny.reconcile()
    (event,) = tiny.events
    assert (event.type, event.reason) == ("Warning", "InvalidRayClusterSpec")
    assert words in event.note
    assert tiny.objects == {}


@pytest.mark.parametrize(("kubernetes_tokens", "secrets"), [(True, 0), (False, 1)])
def test_kubernetes_tokens_need_no_secret(kubernetes: Any, cluster: Any, kubernetes_tokens: bool, secrets: int) -> None:
    """SE-05."""
    options = {"mode": "token", "enableK8sTokenAuth": kubernetes_tokens}
    tiny = kubernetes(cluster(rayVersion="2.55.0", authOptions=options))
    tiny.settle()
    assert len([name for kind, name in tiny.objects if kind == SECRET]) == secrets
    assert tiny.status["state"] == "ready"


def test_a_job_with_tokens_of_kubernetes_is_refused(cluster: Any) -> None:
    """SE-05: also where the cluster alone would be allowed to."""
    spec = cluster(rayVersion="2.55.0", authOptions={"mode": "token", "enableK8sTokenAuth": True})["spec"]
    problems = validate_job("j", {}, {}, {"entrypoint": "true", "rayClusterSpec": spec}, DEFAULT_GATES)
    assert [str(problem) for problem in problems] == [
        "spec.rayClusterSpec.authOptions.enableK8sTokenAuth: The RayJob spec is invalid: authOptions.enableK8sTokenAuth is not "
        "supported for RayJob"
    ]


def test_an_own_port_list_keeps_the_metrics_port(kubernetes: Any, cluster: Any) -> None:
    """ME-03: on the service and the pod, in the same order at each pass, following metrics-export-port."""
    body = cluster(groups=[])
    body["spec"]["headGroupSpec"]["rayStartParams"] = {"metrics-export-port": "8090"}
    container_of(body)["ports"] = [{"name": "dashboard", "containerPort": 8265}]
    tiny = kubernetes(body)
    tiny.settle()
    ports = [(port["name"], port["port"]) for port in tiny.objects[SERVICE, "pair-head-svc"]["spec"]["ports"]]
    assert ports == [("dashboard", 8265), ("metrics", 8090)]
    writes = len(tiny.writes)
    tiny.reconcile()
    tiny.reconcile()
    assert len(tiny.writes) == writes
