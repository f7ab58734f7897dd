"""Whole clusters against single lines of raycluster.md: combinations of features, with the autoscaler's plugin enabled.

Ids name the section.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES, MULTI_HOST_INDEXING
from kuberay.api.kinds import INGRESS, SERVICE
from kuberay.plan.config import PlanConfig
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager

Manifest = dict[str, Any]
UNSET = object()


def template(container: Mapping[str, Any] | None = None, metadata: Any = None, **pod: Any) -> Manifest:
    found: Manifest = {"spec": {"containers": [{"name": "engine", "image": "img:1", **(container or {})}], **pod}}
    if metadata is not None:
        found["metadata"] = metadata
    return found


def group(name: str = "crew", **fields: Any) -> Manifest:
    return {"groupName": name, "replicas": 1, "minReplicas": 0, "maxReplicas": 5, "template": template(), **fields}


@pytest.fixture
def made(kubernetes: Any) -> Any:
    """Makes a cluster and everything of it; *spec* and metadata are given as keyword arguments."""

    def make(
        *,
        head: Manifest | None = None,
        groups: list[Manifest] | None = None,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        config: PlanConfig | None = None,
        gates: dict[str, bool] | None = None,
        name: str = "pair",
        **spec: Any,
    ) -> Any:
        body = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {
                "rayVersion": "2.54.0",
                "headGroupSpec": {"template": template(), **(head or {})},
                "workerGroupSpecs": [group()] if groups is None else groups,
                **spec,
            },
        }
        before = copy.deepcopy(body["spec"])
        hooks = PluginManager(load(["autoscaler-v2"]))
        tiny = kubernetes(body, hooks=hooks, config=config, gates={**DEFAULT_GATES, **(gates or {})})
        tiny.settle()
        assert tiny.cluster["spec"] == before, "the operator never changes what the user wrote"
        return tiny

    return make


def head_of(tiny: Any) -> Manifest:
    (pod,) = [p for p in tiny.pods.values() if p["metadata"]["labels"]["ray.io/node-type"] == "head"]
    return dict(pod)


def worker_of(tiny: Any) -> Manifest:
    return dict(next(iter(tiny.workers.values())))


def ray(pod: Manifest) -> Manifest:
    container: Manifest = pod["spec"]["containers"][0]
    return container


def values(container: Manifest, name: str) -> list[Any]:
    """All values of an environment variable, in order."""
    return [entry.get("value", entry.get("valueFrom")) for entry in container["env"] if entry["name"] == name]


def flags(container: Manifest) -> set[str]:
    (line,) = values(container, "KUBERAY_GEN_RAY_START_CMD")
    return {f"--{flag.strip()}" for flag in line.split(" --")[1:]}


# 3.5 to 3.7: start parameters


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        pytest.param({"block": "false"}, "--block", id="8.2-block"),
        pytest.param({"some-flag": "True"}, "--some-flag", id="3.7-True"),
        pytest.param({"some-flag": "tRUE"}, "--some-flag", id="3.7-any-case"),
        pytest.param({"some-flag": "FALSE"}, None, id="3.7-FALSE"),
        pytest.param({"log-color": "False"}, "--log-color=False", id="3.7-log-color"),
        pytest.param({"include-dashboard": "true"}, "--include-dashboard=true", id="3.7-include-dashboard"),
        pytest.param({"temp-dir": "/tmp/my dir"}, "--temp-dir=/tmp/my dir", id="3.7-blank"),
        pytest.param({"some-flag": ""}, "--some-flag=", id="3.7-empty"),
        pytest.param({"some-flag": '"quoted"'}, '--some-flag="quoted"', id="3.7-quotes"),
        pytest.param({"system-config": '{"a": [1, "b"]}'}, '--system-config={"a": [1, "b"]}', id="3.7-json"),
        pytest.param({"num-cpus": "0"}, "--num-cpus=0", id="3.6-9-users-zero"),
        pytest.param({"memory": "7"}, "--memory=7", id="3.6-10-users"),
        pytest.param({"num-gpus": "0"}, "--num-gpus=0", id="3.6-11-users"),
        pytest.param({"metrics-export-port": "9090"}, "--metrics-export-port=9090", id="3.6-4-users"),
    ],
)
@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_one_parameter(made: Any, node_type: str, given: dict[str, str], shown: str | None) -> None:
    limits = {"resources": {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}}}
    fields = {"rayStartParams": given, "template": template(limits)}
    tiny = made(**({"head": fields} if node_type == "head" else {"groups": [group(**fields)]}))
    container = ray(head_of(tiny) if node_type == "head" else worker_of(tiny))
    expected = {"--block", "--dashboard-agent-listen-port=52365"}
    expected |= {"--head", "--dashboard-host=0.0.0.0"} if node_type == "head" else {f"--address={FQDN}:6379"}
    for key, value in {
        "num-cpus": "2",
        "memory": str(2**30),
        "num-gpus": "1",
        "metrics-export-port": "8080",
    }.items():
        if key not in given:
            expected.add(f"--{key}={value}")
    assert flags(container) == expected | ({shown} if shown else set())
    assert container["args"] == [
        "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; " + values(container, "KUBERAY_GEN_RAY_START_CMD")[0]
    ]


FQDN = "pair-head-svc.default.svc.cluster.local"


@pytest.mark.parametrize(
    ("limits", "params", "wanted"),
    [
        pytest.param(
            {"nvidia.com/gpu": "2", "amd.com/gpu": "4"}, {}, {"--num-gpus=4"}, id="3.6-11-first-in-sorted-order"
        ),
        pytest.param({"nvidia.com/gpu": "0", "x.io/gpu": "3"}, {}, {"--num-gpus=3"}, id="3.6-11-first-non-zero"),
        pytest.param({"nvidia.com/mig-1g.5gb": "2"}, {}, {"--num-gpus=2"}, id="3.6-11-mig"),
        pytest.param({"nvidia.com/mig-1g.5gb.me": "2"}, {}, set(), id="3.6-11-mig-with-suffix"),
        pytest.param(
            {"google.com/tpu": "8", "aws.amazon.com/neuroncore": "0"},
            {},
            {"--resources='{\"TPU\":8}'"},
            id="3.6-11-first-non-zero-accelerator",
        ),
        pytest.param(
            {"google.com/tpu": "8"},
            {"resources": "'{\"neuron_cores\": 1}'"},
            {"--resources='{\"neuron_cores\": 1}'"},
            id="3.6-11-either-is-named",
        ),
        pytest.param(
            {"google.com/tpu": "8", "nvidia.com/gpu": "1"},
            {"resources": '\'{"a": 1, "b": 0.5}\''},
            {"--num-gpus=1", '--resources=\'{"TPU":8,"a":1,"b":0.5}\''},
            id="3.6-11-merged-and-sorted",
        ),
        pytest.param(
            {"google.com/tpu": "8", "nvidia.com/gpu": "1"},
            {"resources": '"{\\"a\\": 1}"'},
            {'--resources="{\\"a\\": 1}"'},
            id="3.6-11-escaped-quotes",
        ),
        pytest.param({"habana.ai/gaudi": "8", "huawei.com/npu": "1"}, {}, set(), id="3.6-11-no-other"),
    ],
)
def test_accelerators(made: Any, limits: dict[str, str], params: dict[str, str], wanted: set[str]) -> None:
    fields = {"rayStartParams": params, "template": template({"resources": {"limits": limits}})}
    tiny = made(groups=[group(**fields)])
    found = flags(ray(worker_of(tiny)))
    assert {flag for flag in found if flag.startswith(("--num-gpus", "--resources"))} == wanted


def test_group_resources_beside_container_resources(made: Any) -> None:
    """3.6 steps 1 and 2: what the group names wins, the rest is filled in from the container."""
    fields = {
        "resources": {"GPU": "1500m", "Memory": "1.5Gi", "TPU": "4", "weird": "300m", "bad": "x"},
        "labels": {"zone": "a", "ray.io/cluster": "other"},
        "template": template({"resources": {"limits": {"cpu": "1500m", "memory": "4Gi", "nvidia.com/gpu": "8"}}}),
    }
    tiny = made(groups=[group(**fields)])
    pod = worker_of(tiny)
    assert flags(ray(pod)) >= {
        "--num-cpus=2",
        "--num-gpus=2",
        f"--memory={3 * 2**29}",
        '--resources=\'{"TPU":4,"weird":0.3}\'',
        "--labels=ray.io/cluster=other,zone=a",
    }
    assert pod["metadata"]["labels"].items() >= {"ray.io/cluster": "pair", "zone": "a"}.items()


@pytest.mark.parametrize(
    ("container", "own"),
    [
        pytest.param({"command": ["echo", "hi"]}, " echo  hi ", id="command-only"),
        pytest.param({"args": ["echo hi"]}, " echo hi ", id="args-only"),
        pytest.param({"command": ["ray", "start"]}, " ray  start ", id="words-apart"),
        pytest.param({"command": [], "args": []}, "", id="empty"),
    ],
)
def test_own_command(made: Any, container: Manifest, own: str) -> None:
    """3.7."""
    found = ray(head_of(made(head={"template": template(container)})))
    assert found["command"] == ["/bin/bash", "-c", "--"]
    (line,) = found["args"]
    assert line.startswith((f"{own} && " if own else "") + "ulimit -n ")


@pytest.mark.parametrize(
    ("container", "metadata", "annotations"),
    [
        pytest.param({"args": ["sleep 1; ray start --head --block"]}, None, {}, id="ray-start-in-args"),
        pytest.param({"args": ["x"]}, {"annotations": {"ray.io/overwrite-container-cmd": "TRUE"}}, {}, id="template"),
        pytest.param({"args": ["x"]}, None, {"ray.io/overwrite-container-cmd": "True"}, id="cluster"),
        pytest.param({}, None, {"ray.io/overwrite-container-cmd": "true"}, id="nothing-of-its-own"),
    ],
)
def test_left_alone_command(made: Any, container: Manifest, metadata: Any, annotations: dict[str, str]) -> None:
    """3.7: the generated line is told all the same."""
    tiny = made(head={"template": template(container, metadata)}, annotations=annotations)
    found = ray(head_of(tiny))
    assert "command" not in found
    assert found.get("args") == container.get("args")
    assert values(found, "KUBERAY_GEN_RAY_START_CMD")[0].startswith("ray start --head ")
    other = worker_of(tiny)
    marked = other["metadata"].get("annotations", {}).get("ray.io/overwrite-container-cmd")
    assert marked == ("true" if annotations else None)
    assert ("command" in ray(other)) is (not annotations)


# 3.3 and 3.4: metadata


def test_every_base_label_but_three_can_be_overridden(made: Any) -> None:
    """3.3 and 2.5."""
    given = {
        "ray.io/is-ray-node": "no",
        "ray.io/cluster": "x",
        "ray.io/node-type": "worker",
        "ray.io/group": "x",
        "ray.io/identifier": "me",
        "app.kubernetes.io/name": "mine",
        "app.kubernetes.io/created-by": "me",
    }
    kept = {"ray.io/cluster": "pair", "ray.io/node-type": "head", "ray.io/group": "headgroup"}
    tiny = made(head={"template": template(metadata={"labels": given})})
    assert head_of(tiny)["metadata"]["labels"] == given | kept
    service = tiny.objects[SERVICE, "pair-head-svc"]
    assert service["metadata"]["labels"] == {
        "ray.io/cluster": "pair",
        "ray.io/node-type": "head",
        "ray.io/identifier": "pair-head",
        "app.kubernetes.io/name": "mine",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    assert tiny.status["head"]["serviceIP"]


@pytest.mark.parametrize(
    ("creator", "serve", "told"),
    [
        pytest.param("RayCluster", (None, None), "RayCluster", id="0.6-RayCluster"),
        pytest.param("RayJob", (None, None), "RayJob", id="0.6-RayJob"),
        pytest.param("RayService", ("false", "true"), "RayService", id="0.6-RayService"),
        pytest.param("RayCronJob", (None, None), "RayCluster", id="0.6-anything-else"),
    ],
)
def test_creator(made: Any, creator: str, serve: tuple[str | None, str | None], told: str) -> None:
    tiny = made(labels={"ray.io/originated-from-crd": creator})
    head, worker = head_of(tiny), worker_of(tiny)
    assert (head["metadata"]["labels"].get("ray.io/serve"), worker["metadata"]["labels"].get("ray.io/serve")) == serve
    assert values(ray(head), "RAY_USAGE_STATS_EXTRA_TAGS") == [f"kuberay_version=1.2.3;kuberay_crd={told}"]
    assert values(ray(worker), "RAY_USAGE_STATS_EXTRA_TAGS") == []
    short = ["5"] if creator == "RayService" else []
    assert values(ray(head), "RAY_SERVE_KV_TIMEOUT_S") == values(ray(worker), "RAY_SERVE_KV_TIMEOUT_S") == short
    assert ray(worker)["readinessProbe"]["failureThreshold"] == (1 if creator == "RayService" else 10)
    assert "httpGet" in ray(worker)["livenessProbe"]


def test_operator_settings_give_way_to_the_users_entries(made: Any) -> None:
    """0.4 and 3.5 (12): nothing is doubled, sidecars come last, and only the Ray container gets the environment."""
    config = PlanConfig(
        operator_version="1.2.3",
        default_envs=[
            {"name": "SHARED", "value": "default"},
            {"name": "ONLY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "RAY_ADDRESS", "value": "default:1"},
            {"name": "RAY_AUTH_MODE", "value": "default"},
            {"name": "RAY_enable_autoscaler_v2", "value": "default"},
        ],
        default_pod_labels={"shared": "default", "only": "default", "ray.io/group": "default"},
        default_pod_annotations={"shared": "default", "only": "default"},
        head_sidecars=[{"name": "log", "image": "l"}],
        worker_sidecars=[{"name": "wlog", "image": "l"}],
    )
    own = {"labels": {"shared": "mine"}, "annotations": {"shared": "mine"}}
    container = {"env": [{"name": "SHARED", "value": "mine"}]}
    tiny = made(
        head={"template": template(container, own)},
        groups=[group(template=template(container, own))],
        config=config,
        enableInTreeAutoscaling=True,
        autoscalerOptions={"version": "v2"},
        authOptions={"mode": "token"},
    )
    head, worker = head_of(tiny), worker_of(tiny)
    assert [c["name"] for c in head["spec"]["containers"]] == ["engine", "autoscaler", "log"]
    assert [c["name"] for c in worker["spec"]["containers"]] == ["engine", "wlog"]
    for pod in (head, worker):
        assert pod["metadata"]["labels"].items() >= {"shared": "mine", "only": "default"}.items()
        assert pod["metadata"]["labels"]["ray.io/group"] != "default"
        assert pod["metadata"]["annotations"].items() >= {"shared": "mine", "only": "default"}.items()
        assert values(ray(pod), "SHARED") == ["mine"]
        assert len(values(ray(pod), "ONLY")) == 1
        assert values(ray(pod), "RAY_ADDRESS") == ["default:1"]
        assert values(ray(pod), "RAY_AUTH_MODE") == ["token"]
    assert values(ray(head), "RAY_enable_autoscaler_v2") == ["true"]
    (wait,) = worker["spec"]["initContainers"]
    assert values(wait, "ONLY") == values(head["spec"]["containers"][1], "ONLY") == []


@pytest.mark.parametrize("null", [None, UNSET], ids=["null", "absent"])
def test_null_means_absent(made: Any, null: Any) -> None:
    """2.1 step 3, and what slim CRDs let through."""

    def given(**fields: Any) -> Manifest:
        return {} if null is UNSET else dict.fromkeys(fields)

    container = given(env=0, ports=0, volumeMounts=0, command=0, args=0, resources=0, livenessProbe=0, envFrom=0)
    found = template(container, **given(volumes=0, initContainers=0, restartPolicy=0))
    found |= given(metadata=0)
    tiny = made(
        head={**given(rayStartParams=0, labels=0, resources=0, headService=0, enableIngress=0), "template": found},
        groups=[group(**given(rayStartParams=0, labels=0, resources=0, scaleStrategy=0, suspend=0), template=found)],
        enableInTreeAutoscaling=True,
        autoscalerOptions=given(env=0, volumeMounts=0, resources=0, args=0, command=0, version=0, securityContext=0),
        **given(authOptions=0, gcsFaultToleranceOptions=0, upgradeStrategy=0, suspend=0, headServiceAnnotations=0),
    )
    assert tiny.status["state"] == "ready"
    for pod in tiny.pods.values():
        assert None not in pod["spec"].values()
        assert None not in ray(pod).values()
        assert ray(pod)["volumeMounts"]
        assert ray(pod)["livenessProbe"]


def test_null_lists_of_plugins(made: Any) -> None:
    """Nothing is mounted by the core here, so that the autoscaler meets the nulls."""
    head = {
        "template": template({"volumeMounts": None}, volumes=None),
        "rayStartParams": {"plasma-directory": "/x"},
    }
    tiny = made(head=head, enableInTreeAutoscaling=True)
    assert [volume["name"] for volume in head_of(tiny)["spec"]["volumes"]] == ["ray-logs"]


def test_no_worker_groups(made: Any) -> None:
    assert made(groups=None, workerGroupSpecs=None).status["state"] == "ready"


# 3.8 to 3.12: probes, init container, volumes, autoscaler


@pytest.mark.parametrize(
    ("version", "http"),
    [
        pytest.param("2.53", True, id="two-numbers"),
        pytest.param("v2.53.0rc1", True, id="suffix"),
        pytest.param("3.0.0.dev0", True, id="next-major"),
        pytest.param("2.52.99", False, id="older"),
        pytest.param("2", False, id="one-number"),
        pytest.param("nightly", False, id="word"),
        pytest.param("", False, id="empty"),
    ],
)
def test_probe_style(made: Any, version: str, http: bool) -> None:
    """3.8, with a readiness probe of the user's."""
    mine = {"exec": {"command": ["true"]}}
    tiny = made(rayVersion=version, groups=[group(template=template({"readinessProbe": mine}))])
    for pod, timeout in ((head_of(tiny), 5), (worker_of(tiny), 2)):
        live = ray(pod)["livenessProbe"]
        assert ("httpGet" in live) is http
        assert live.items() >= {"initialDelaySeconds": 30, "timeoutSeconds": timeout, "failureThreshold": 120}.items()
    assert ray(worker_of(tiny))["readinessProbe"] == mine
    assert ray(head_of(tiny))["readinessProbe"]["initialDelaySeconds"] == 10


@pytest.mark.parametrize("text", [" 7000", "7_000", "0x10", "7e3", str(2**31), "٧"])
def test_ports_that_are_no_numbers(made: Any, text: str) -> None:
    """3.8: they fall back in probes, and go to ``ray start`` as they are."""
    params = {"dashboard-agent-listen-port": text, "dashboard-port": text, "metrics-export-port": text}
    found = ray(head_of(made(head={"rayStartParams": params}, rayVersion="2.40.0")))
    command = found["livenessProbe"]["exec"]["command"][2]
    assert "localhost:52365/" in command
    assert "localhost:8265/" in command
    assert f" --dashboard-port={text} " in found["args"][0]


def test_a_user_init_container_keeps_its_environment(made: Any) -> None:
    """3.5 and 3.9: the addresses come after what is there; the waiting container comes last."""
    init = {"name": "mine", "image": "x", "env": [{"name": "RAY_IP", "value": "own"}]}
    container = {
        "env": [{"name": "A", "value": "b"}],
        "volumeMounts": [{"name": "d", "mountPath": "/d"}],
        "imagePullPolicy": "Never",
    }
    pods = template(container, volumes=[{"name": "d", "emptyDir": {}}], initContainers=[init])
    tiny = made(head={"template": pods}, groups=[group(template=pods)], authOptions={"mode": "token"})
    assert values(head_of(tiny)["spec"]["initContainers"][0], "RAY_IP") == ["own", "pair-head-svc"]
    first, wait = worker_of(tiny)["spec"]["initContainers"]
    assert values(first, "RAY_IP") == ["own", "pair-head-svc"]
    assert values(first, "RAY_AUTH_MODE") == []
    assert [entry["name"] for entry in wait["env"]] == ["A", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "FQ_RAY_IP", "RAY_IP"]
    assert (wait["volumeMounts"], wait["imagePullPolicy"]) == ([{"name": "d", "mountPath": "/d"}], "Never")


def test_shared_memory_of_another_container_does_not_count(made: Any) -> None:
    """3.10: the rule is per container, and a volume of that name is reused."""
    side = {"name": "side", "image": "s", "volumeMounts": [{"name": "shared-mem", "mountPath": "/dev/shm"}]}
    pods = template(volumes=[{"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}])
    pods["spec"]["containers"].append(side)
    pod = head_of(made(head={"template": pods}))
    assert pod["spec"]["volumes"] == pods["spec"]["volumes"]
    assert ray(pod)["volumeMounts"] == [{"name": "shared-mem", "mountPath": "/dev/shm"}]


@pytest.mark.parametrize(
    ("version", "switch", "policy"),
    [
        pytest.param(None, [], None, id="8.3-nil"),
        pytest.param("v1", ["false"], None, id="8.3-v1"),
        pytest.param("v2", ["true"], "Never", id="8.3-v2"),
    ],
)
def test_autoscaler_version(made: Any, version: str | None, switch: list[str], policy: str | None) -> None:
    options = {"autoscalerOptions": {"version": version}} if version else {}
    tiny = made(enableInTreeAutoscaling=True, **options)
    head = head_of(tiny)
    assert [c["name"] for c in head["spec"]["containers"]] == ["engine", "autoscaler"]
    assert values(ray(head), "RAY_enable_autoscaler_v2") == switch
    assert head["spec"].get("restartPolicy") == worker_of(tiny)["spec"].get("restartPolicy") == policy
    assert "--no-monitor" in flags(ray(head))


def test_autoscaler_v1_with_another_restart_policy(made: Any) -> None:
    """2.1 step 6."""
    tiny = made(
        enableInTreeAutoscaling=True,
        autoscalerOptions={"version": "v1"},
        groups=[
            group("a", template=template(restartPolicy="Always")),
            group("b", template=template(restartPolicy="Never")),
            group("c", template=template(restartPolicy="OnFailure")),
        ],
    )
    told = [event.note for event in tiny.events if event.type == "Warning"]
    assert told == [
        "RayCluster spec warning default/pair: restartPolicy for worker groups [a, c] should be Never or unset when"
        " using autoscaler V1"
    ]
    policies = {p["metadata"]["labels"]["ray.io/group"]: p["spec"]["restartPolicy"] for p in tiny.workers.values()}
    assert policies == {"a": "Always", "b": "Never", "c": "OnFailure"}


def test_token_autoscaler_and_several_hosts(made: Any) -> None:
    """3.12 with 3.3: every container that speaks to Ray has the token, and no other one."""
    tiny = made(
        head={"template": {"spec": {"containers": [{"name": "engine", "image": "i"}, {"name": "side", "image": "s"}]}}},
        groups=[group(replicas=2, numOfHosts=2)],
        enableInTreeAutoscaling=True,
        authOptions={"mode": "token", "enableK8sTokenAuth": True},
        rayVersion="2.55.0",
    )
    head = head_of(tiny)
    with_token = [c["name"] for c in head["spec"]["containers"] if values({"env": [], **c}, "RAY_AUTH_MODE")]
    assert with_token == ["engine", "autoscaler"]
    for pod in tiny.pods.values():
        assert [volume["name"] for volume in pod["spec"]["volumes"]].count("ray-token") == 1
    places = sorted(
        (
            pod["metadata"]["labels"]["ray.io/worker-group-replica-index"],
            pod["metadata"]["labels"]["ray.io/replica-host-index"],
        )
        for pod in tiny.workers.values()
    )
    assert places == [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    assert not [kind for kind, _ in tiny.objects if kind.kind == "Secret"]


def test_fault_tolerance_by_annotation_with_a_login_shell(made: Any) -> None:
    """3.15, 3.5 (2, 3, 6) and 3.7."""
    own = [{"name": "RAY_external_storage_namespace", "value": "own"}]
    tiny = made(
        head={"template": template({"env": own}), "rayStartParams": {"redis-password": "pw"}},
        annotations={"ray.io/ft-enabled": "TRUE", "ray.io/external-storage-namespace": "store"},
        config=PlanConfig(operator_version="1", login_shell=True),
        enableInTreeAutoscaling=True,
    )
    head, worker = head_of(tiny), worker_of(tiny)
    told = head["metadata"]["annotations"]
    assert (told["ray.io/ft-enabled"], told["ray.io/external-storage-namespace"]) == ("true", "store")
    assert values(ray(head), "RAY_external_storage_namespace") == ["own"]
    assert values(ray(head), "REDIS_PASSWORD") == ["pw"]
    assert values(ray(head), "RAY_REDIS_ADDRESS") == []
    assert "--redis-password=pw" in flags(ray(head))
    assert values(ray(worker), "RAY_gcs_rpc_server_reconnect_timeout_s") == ["600"]
    assert "annotations" not in worker["metadata"]
    containers = [*head["spec"]["containers"], ray(worker), *worker["spec"]["initContainers"]]
    assert {tuple(container["command"]) for container in containers} == {("/bin/bash", "-cl", "--")}


# 2.5 to 2.7 and 6.4: services and Ingress


def test_every_field_of_a_users_head_service(made: Any) -> None:
    """2.5."""
    custom = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "front",
            "namespace": "elsewhere",
            "labels": {"keep": "me", "ray.io/cluster": "x", "app.kubernetes.io/name": "x"},
            "annotations": {"a": "user", "b": "user"},
            "finalizers": ["example.test/keep"],
        },
        "spec": {
            "type": "LoadBalancer",
            "loadBalancerClass": "k",
            "externalTrafficPolicy": "Local",
            "sessionAffinity": "ClientIP",
            "selector": {"foo": "bar"},
            "ports": [{"name": "extra", "port": 1, "targetPort": 2}],
        },
    }
    tiny = made(
        head={"headService": custom, "serviceType": "NodePort", "enableIngress": True},
        headServiceAnnotations={"b": "op", "c": "op"},
    )
    service = tiny.objects[SERVICE, "front"]
    metadata, spec = service["metadata"], service["spec"]
    assert metadata["namespace"] == "default"
    assert metadata["annotations"] == {"a": "user", "b": "op", "c": "op"}
    assert metadata["finalizers"] == ["example.test/keep"]
    assert metadata["labels"] == {
        "keep": "me",
        "ray.io/cluster": "pair",
        "ray.io/node-type": "head",
        "ray.io/identifier": "pair-head",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }
    assert spec["selector"] == {key: value for key, value in metadata["labels"].items() if key != "keep"}
    kept = ("type", "loadBalancerClass", "externalTrafficPolicy", "sessionAffinity")
    assert {key: spec[key] for key in kept} == {key: custom["spec"][key] for key in kept}  # type: ignore[index]
    names = [port["name"] for port in spec["ports"]]
    assert sorted(names) == ["client", "dashboard", "extra", "gcs-server", "metrics", "serve"]
    assert values(ray(worker_of(tiny)), "FQ_RAY_IP") == ["front.default.svc.cluster.local"]
    (rule,) = tiny.objects[INGRESS, "pair-head-ingress"]["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"] == {"service": {"name": "front", "port": {"number": 8265}}}


@pytest.mark.parametrize("service_type", ["NodePort", "LoadBalancer", "ClusterIP"])
def test_serve_service(made: Any, service_type: str) -> None:
    """2.7: serving ports in order, the head's service type, never headless."""
    declared = [("serve", 1), ("serve-grpc", 2), ("server", 3), ("serve-b", 4), ("dashboard", 5)]
    ports = [{"name": name, "containerPort": number} for name, number in declared]
    tiny = made(
        head={"template": template({"ports": ports}), "serviceType": service_type},
        annotations={"ray.io/enable-serve-service": "true"},
    )
    service = tiny.objects[SERVICE, "pair-serve-svc"]
    assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [
        ("serve", 1),
        ("serve-b", 4),
        ("serve-grpc", 2),
    ]
    assert not any("appProtocol" in port for port in service["spec"]["ports"])
    assert service["spec"]["type"] == service_type
    assert service["spec"].get("clusterIP") != "None"
    assert service["metadata"]["labels"] == {
        "ray.io/originated-from-cr-name": "pair",
        "ray.io/originated-from-crd": "RayCluster",
        "ray.io/serve": "pair-serve",
    }


@pytest.mark.parametrize("value", ["True", "1", "false", ""])
def test_serve_service_wants_exactly_true(made: Any, value: str) -> None:
    """2.3."""
    tiny = made(annotations={"ray.io/enable-serve-service": value})
    assert [name for kind, name in tiny.objects if kind == SERVICE] == ["pair-head-svc"]


def test_another_service_with_the_same_labels(made: Any) -> None:
    """2.5: KubeRay stops with an error where there are two."""
    tiny = made()
    labels = dict(tiny.objects[SERVICE, "pair-head-svc"]["metadata"]["labels"])
    tiny.add(SERVICE, {"metadata": {"name": "a-user", "labels": labels}, "spec": {"ports": [{"name": "x", "port": 1}]}})
    before = len(tiny.writes)
    tiny.settle()
    assert tiny.writes[before:] == []
    assert tiny.status["head"]["serviceName"] == "pair-head-svc"
    assert "x" not in tiny.status["endpoints"]


def test_unnamed_and_doubled_ports(made: Any) -> None:
    """2.5: an unnamed port is named by its number, of doubled names the last one counts."""
    declared = [
        {"containerPort": 1234},
        {"name": "serve", "containerPort": 1},
        {"name": "serve", "containerPort": 2},
        {"name": "", "containerPort": 77},
    ]
    tiny = made(head={"template": template({"ports": declared})})
    ports = [(port["name"], port["port"]) for port in tiny.objects[SERVICE, "pair-head-svc"]["spec"]["ports"]]
    assert ports == [("1234-port", 1234), ("77-port", 77), ("metrics", 8080), ("serve", 2)]
    assert ray(head_of(tiny))["ports"] == [*declared, {"name": "metrics", "containerPort": 8080}]


# 0.2: names


def test_group_names_as_users_write_them(made: Any) -> None:
    """0.2: pod names in lower case, labels as they are; a group may be called like the head's."""
    long = "UPPER-Group-with-a-long-name-0123456789-0123456789-0123456789"
    tiny = made(groups=[group(long, numOfHosts=2), group("headgroup"), group("9g")])
    by_group: dict[str, list[Manifest]] = {}
    for pod in tiny.workers.values():
        by_group.setdefault(pod["metadata"]["labels"]["ray.io/group"], []).append(pod["metadata"])
    assert {name: len(pods) for name, pods in by_group.items()} == {long: 2, "headgroup": 1, "9g": 1}
    assert {pod["generateName"] for pod in by_group[long]} == {
        "pair-upper-group-with-a-long-name-0123456789-01234-worker-"
    }
    (replica,) = {pod["labels"]["ray.io/worker-group-replica-name"] for pod in by_group[long]}
    assert replica.startswith(f"{long[:57]}-")
    assert len(replica) == 63, "a label holds no more"
    assert tiny.status["state"] == "ready"


@pytest.mark.parametrize(
    ("fixed", "named", "expected"),
    [
        pytest.param(True, None, "pair-head", id="8.1-deterministic"),
        pytest.param(True, "mine", "pair-head", id="3.1-deterministic-wins"),
        pytest.param(False, "mine", "mine", id="3.1-template-name-is-kept"),
    ],
)
def test_fixed_head_names(made: Any, fixed: bool, named: str | None, expected: str) -> None:
    config = PlanConfig(operator_version="1", deterministic_head_pod_name=fixed)
    head = {"template": template(metadata={"name": named} if named else None)}
    metadata = head_of(made(head=head, config=config))["metadata"]
    assert metadata["name"] == expected
    assert metadata.get("generateName") == (None if fixed else "pair-head-")


# 1.4, 4.5 and 5.2: counts and totals


@pytest.mark.parametrize(
    ("fields", "pods"),
    [
        pytest.param({"replicas": None, "minReplicas": 1}, 1, id="8.6-nil"),
        pytest.param({"replicas": 0, "minReplicas": 1}, 1, id="8.6-below-min"),
        pytest.param({"replicas": 4, "maxReplicas": 3}, 3, id="8.6-above-max"),
        pytest.param({"replicas": 4, "maxReplicas": 3, "numOfHosts": 4}, 12, id="8.6-hosts"),
        pytest.param({"replicas": 0, "numOfHosts": 2}, 0, id="no-replicas-of-two-hosts"),
        pytest.param({"replicas": 2, "numOfHosts": 0}, 0, id="9-no-hosts"),
        pytest.param({"replicas": 2, "suspend": True}, 0, id="8.6-suspended"),
        pytest.param({"replicas": 5, "minReplicas": 0, "maxReplicas": 0}, 0, id="max-zero"),
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_desired_pods(made: Any, fields: Manifest, pods: int, indexed: bool) -> None:
    tiny = made(groups=[group(**fields)], gates={MULTI_HOST_INDEXING: indexed})
    assert len(tiny.workers) == pods == tiny.status.get("desiredWorkerReplicas", 0)
    assert tiny.status["state"] == "ready"
    labelled = {"ray.io/worker-group-replica-index" in pod["metadata"]["labels"] for pod in tiny.workers.values()}
    assert labelled <= {indexed}


def sized(requests: Manifest | None = None, limits: Manifest | None = None, **fields: Any) -> Manifest:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return {"template": template({"resources": resources}), **fields}


GPUS = {"gpu": "3", "nvidia.com/mig-1g.10gb": "2", "foo.bar/gpu": "2", "google.com/tpu": "1"}


@pytest.mark.parametrize(
    ("head", "groups", "expected"),
    [
        pytest.param(
            sized({"cpu": "1", "memory": "100Mi"}),
            [group(**sized({"cpu": "1", "memory": "200Mi"}), replicas=4, numOfHosts=2)],
            ("9", "1700Mi", "0", "0"),
            id="8.8-hosts",
        ),
        pytest.param(
            sized(limits={"cpu": "1", "memory": "1Gi"}),
            [group(**sized(limits={"cpu": "1", "memory": "1Gi"}), replicas=3)],
            ("4", "4Gi", "0", "0"),
            id="8.8-limits",
        ),
        pytest.param(sized(GPUS), [], ("0", "0", "7", "1"), id="8.8-gpus"),
        pytest.param(
            sized({"cpu": "500m"}, {"cpu": "4", "nvidia.com/gpu": "2", "memory": "1Gi"}),
            [],
            ("500m", "1Gi", "2", "0"),
            id="5.2-limits-fill-what-requests-lack",
        ),
        pytest.param(
            {},
            [group(**sized({"cpu": "1"}), replicas=9, maxReplicas=2), group("b", **sized({"cpu": "1"}), minReplicas=2)],
            ("10", "0", "0", "0"),
            id="5.2-replicas-are-not-clamped",
        ),
        pytest.param(
            {}, [group(**sized({"cpu": "1"}), replicas=None, minReplicas=2)], ("0", "0", "0", "0"), id="5.2-nil-is-zero"
        ),
        pytest.param(
            sized({"cpu": "100m"}),
            [group(**sized({"cpu": "1"}), replicas=2, suspend=True)],
            ("100m", "0", "0", "0"),
            id="8.8-suspended-group",
        ),
    ],
)
def test_desired_resources(made: Any, head: Manifest, groups: list[Manifest], expected: tuple[str, ...]) -> None:
    status = made(head=head, groups=groups).status
    names = ("desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU")
    assert tuple(status[name] for name in names) == expected


def test_the_autoscaler_and_init_containers_do_not_count(made: Any) -> None:
    """5.2: all containers the user wrote do."""
    pods = template({"resources": {"requests": {"cpu": "1"}}})
    pods["spec"]["containers"].append({"name": "side", "image": "s", "resources": {"requests": {"cpu": "250m"}}})
    pods["spec"]["initContainers"] = [{"name": "i", "image": "x", "resources": {"requests": {"cpu": "64"}}}]
    pods["spec"]["overhead"] = {"cpu": "8"}
    tiny = made(head={"template": pods}, groups=[], enableInTreeAutoscaling=True)
    assert tiny.status["desiredCPU"] == "1250m"


@pytest.mark.parametrize(
    ("groups", "counters"),
    [
        pytest.param([group(replicas=3, numOfHosts=4, maxReplicas=4)], (12, 0, 16), id="8.6-hosts"),
        pytest.param([group(numOfHosts=4, maxReplicas=2**31 - 1)], (4, 0, 2**31 - 1), id="8.8-saturated"),
        pytest.param(
            [group(numOfHosts=2, maxReplicas=1500000000), group("b", maxReplicas=1000000000)],
            (3, 0, 2**31 - 1),
            id="8.8-saturated-sum",
        ),
        pytest.param([group(numOfHosts=4, maxReplicas=100)], (4, 0, 400), id="8.8-400"),
        pytest.param([group(suspend=True, minReplicas=100, maxReplicas=100)], (0, 0, 0), id="8.8-suspended"),
    ],
)
def test_counters(made: Any, groups: list[Manifest], counters: tuple[int, int, int]) -> None:
    status = made(groups=groups).status
    names = ("desiredWorkerReplicas", "minWorkerReplicas", "maxWorkerReplicas")
    assert tuple(status.get(name, 0) for name in names) == counters
