"""Head and worker pods: labels, annotations, environment, volumes, probes (spec raycluster.md 3, 8.1, 8.3 and 8.4)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.objects import from_dict
from kuberay.hooks.calls import MutatedPod, NoHooks, PluginFailure
from kuberay.hooks.types import PodContext
from kuberay.plan.build.context import owner_context
from kuberay.plan.build.pods import PodFactory, PodPlace
from kuberay.plan.cluster.form import cluster_form
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import Observed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FQDN = "pair-head-svc.ns.svc.cluster.local"
Pod = dict[str, Any]


class Bench:
    """Builds pods of one cluster; the arguments are changes to its parts."""

    def __init__(
        self,
        *,
        head: Mapping[str, Any] | None = None,
        worker: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        config: PlanConfig | None = None,
        hooks: Any = None,
        **spec: Any,
    ) -> None:
        self.body = {
            "metadata": {
                "name": "pair",
                "namespace": "ns",
                "uid": "uid-1",
                "labels": dict(labels or {}),
                "annotations": dict(annotations or {}),
            },
            "spec": {
                "rayVersion": "2.54.0",
                "headGroupSpec": {"template": template(), **(head or {})},
                "workerGroupSpecs": [{"groupName": "crew", "template": template(), **(worker or {})}],
                **spec,
            },
        }
        obj = from_dict(RAYCLUSTER, self.body)
        config = config or PlanConfig(operator_version="1.2.3")
        observed = Observed(obj=obj, now=NOW, gates=DEFAULT_GATES, config=config, hooks=hooks or NoHooks())  # type: ignore[arg-type]
        form = cluster_form(obj)  # type: ignore[arg-type]
        self.spec = form.spec
        owner = owner_context(observed, kind=RAYCLUSTER, cluster_spec=form.spec, lookups=[])
        self.factory = PodFactory(owner=owner, spec=form.spec, config=config, hooks=observed.hooks)

    def built(self, node_type: str, **place: Any) -> MutatedPod:
        group = self.spec.head_group_spec if node_type == "head" else self.spec.worker_group_specs[0]
        name = "headgroup" if node_type == "head" else "crew"
        fields: dict[str, Any] = {"name": "n", "generate_name": f"pair-{name}-", **place}
        return self.factory.build(PodPlace(node_type=node_type, group=group, group_name=name, **fields))  # type: ignore[arg-type]

    def head(self, **place: Any) -> Pod:
        return self.built("head", **place).pod

    def worker(self, **place: Any) -> Pod:
        return self.built("worker", **place).pod


def template(container: Mapping[str, Any] | None = None, metadata: Any = None, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"spec": {"containers": [{"name": "ray", "image": "img:1", **(container or {})}], **spec}}
    if metadata is not None:
        found["metadata"] = metadata
    return found


def ray(pod: Pod) -> dict[str, Any]:
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def env(container: Mapping[str, Any]) -> dict[str, Any]:
    """Names to values, the later of doubles winning as in the kubelet."""
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container.get("env", [])}


def test_templates_are_not_touched_and_pods_share_nothing() -> None:
    """RC-18 and RC-19."""
    bench = Bench(worker={"template": template({"env": [{"name": "A", "value": "1"}]})})
    before = copy.deepcopy(bench.body)
    first, second = bench.worker(), bench.worker()
    assert first == second
    first["spec"]["containers"][0]["env"].clear()
    assert second["spec"]["containers"][0]["env"]
    assert bench.body == before


def test_base_labels() -> None:
    assert Bench().head()["metadata"]["labels"] == {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": "pair",
        "ray.io/group": "headgroup",
        "ray.io/identifier": "pair-head",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "head",
    }


def test_user_labels_win_except_over_three() -> None:
    metadata = {"labels": {"ray.io/cluster": "x", "app.kubernetes.io/name": "mine", "market": "spot", "acc": "GPU"}}
    pod = Bench(
        worker={"template": template(metadata=metadata), "labels": {"acc": "TPU", "ray.io/group": "x"}}
    ).worker()
    labels = pod["metadata"]["labels"]
    wanted = {"ray.io/cluster": "pair", "ray.io/group": "crew", "app.kubernetes.io/name": "mine", "market": "spot"}
    assert labels.items() >= {**wanted, "acc": "TPU"}.items()


def test_operator_default_labels_and_annotations_only_fill_gaps() -> None:
    config = PlanConfig(
        default_pod_labels={"shared": "default", "only": "default"}, default_pod_annotations={"note": "default"}
    )
    metadata = {"labels": {"shared": "head"}, "annotations": {"note": "head"}}
    pod = Bench(head={"template": template(metadata=metadata)}, config=config).head()
    assert pod["metadata"]["labels"].items() >= {"shared": "head", "only": "default"}.items()
    assert pod["metadata"]["annotations"]["note"] == "head"


def test_replica_labels() -> None:
    single = Bench().worker(replica_index=2)["metadata"]["labels"]
    assert single["ray.io/worker-group-replica-index"] == "2"
    assert "ray.io/replica-host-index" not in single
    multi = Bench().worker(replica_index=0, host_index=3, replica_name="crew-abcde")["metadata"]["labels"]
    assert (multi["ray.io/worker-group-replica-name"], multi["ray.io/replica-host-index"]) == ("crew-abcde", "3")


@pytest.mark.parametrize(("crd", "head", "worker"), [("RayService", "false", "true"), ("RayJob", None, None)])
def test_serve_label(crd: str, head: str | None, worker: str | None) -> None:
    bench = Bench(labels={"ray.io/originated-from-crd": crd})
    assert bench.head()["metadata"]["labels"].get("ray.io/serve") == head
    assert bench.worker()["metadata"]["labels"].get("ray.io/serve") == worker


def test_namespace_owner_and_names() -> None:
    pod = Bench(worker={"template": template(metadata={"namespace": "other", "name": "mine"})}).worker()
    metadata = pod["metadata"]
    assert (metadata["namespace"], metadata["name"], metadata["generateName"]) == ("ns", "n", "pair-crew-")
    (owner,) = metadata["ownerReferences"]
    assert owner == {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "name": "pair",
        "uid": "uid-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_addresses() -> None:
    bench = Bench()
    head, worker = env(ray(bench.head())), env(ray(bench.worker()))
    assert (head["RAY_ADDRESS"], head["RAY_PORT"]) == ("127.0.0.1:6379", "6379")
    assert (worker["RAY_ADDRESS"], worker["RAY_IP"], worker["FQ_RAY_IP"]) == (f"{FQDN}:6379", "pair-head-svc", FQDN)
    assert "FQ_RAY_IP" not in head


def test_moved_gcs_port_is_used_everywhere() -> None:
    bench = Bench(head={"rayStartParams": {"port": "9999"}})
    worker = bench.worker()
    assert env(ray(worker))["RAY_ADDRESS"] == f"{FQDN}:9999"
    assert env(ray(worker))["RAY_PORT"] == "9999"
    assert f"--address={FQDN}:9999" in ray(worker)["args"][0]
    assert f"--address {FQDN}:9999" in worker["spec"]["initContainers"][0]["args"][0]


def test_cluster_domain() -> None:
    config = PlanConfig(cluster_domain="abc.com")
    assert env(ray(Bench(config=config).worker()))["FQ_RAY_IP"] == "pair-head-svc.ns.svc.abc.com"


def test_users_env_is_kept() -> None:
    container = {
        "env": [{"name": "RAY_ADDRESS", "value": "mine"}, {"name": "RAY_START_ULIMIT_OPEN_FILES", "value": "9"}]
    }
    found = ray(Bench(head={"template": template(container)}).head())
    assert env(found)["RAY_ADDRESS"] == "mine"
    assert "${RAY_START_ULIMIT_OPEN_FILES:-65536}" in found["args"][0]


def test_default_envs_fill_gaps() -> None:
    config = PlanConfig(default_envs=[{"name": "A", "value": "d"}, {"name": "B", "value": "d"}])
    found = env(ray(Bench(head={"template": template({"env": [{"name": "A", "value": "u"}]})}, config=config).head()))
    assert (found["A"], found["B"]) == ("u", "d")


def test_creator_and_version_are_told_to_usage_stats() -> None:
    pod = Bench(labels={"ray.io/originated-from-crd": "RayJob"}).head()
    assert env(ray(pod))["RAY_USAGE_STATS_EXTRA_TAGS"] == "kuberay_version=1.2.3;kuberay_crd=RayJob"


def test_service_clusters_get_short_timeouts() -> None:
    found = env(ray(Bench(labels={"ray.io/originated-from-crd": "RayService"}).worker()))
    assert found["RAY_SERVE_KV_TIMEOUT_S"] == "5"


@pytest.mark.parametrize("flag", ["true", "TRUE"])
def test_overwritten_command_is_left_alone(flag: str) -> None:
    container = {"command": ["I am head"], "args": ["I am head again"]}
    pod = Bench(head={"template": template(container)}, annotations={"ray.io/overwrite-container-cmd": flag}).head()
    assert (ray(pod)["command"], ray(pod)["args"]) == (["I am head"], ["I am head again"])
    assert pod["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
    assert env(ray(pod))["KUBERAY_GEN_RAY_START_CMD"].startswith("ray start --head ")


def test_login_shell() -> None:
    pod = Bench(config=PlanConfig(login_shell=True)).worker()
    assert ray(pod)["command"] == pod["spec"]["initContainers"][0]["command"] == ["/bin/bash", "-cl", "--"]


def test_wait_container_asks_for_cpu_and_memory_only() -> None:
    """RC-29."""
    container = {
        "resources": {"limits": {"nvidia.com/gpu": 1}},
        "imagePullPolicy": "Never",
        "env": [{"name": "A", "value": "b"}],
        "securityContext": {"runAsUser": 7},
    }
    init = Bench(worker={"template": template(container)}).worker()["spec"]["initContainers"][-1]
    size = {"cpu": "200m", "memory": "256Mi"}
    assert init["resources"] == {"limits": size, "requests": size}
    assert (init["imagePullPolicy"], init["securityContext"]) == ("Never", {"runAsUser": 7})
    assert env(init) == {"A": "b", "FQ_RAY_IP": FQDN, "RAY_IP": "pair-head-svc"}


def test_injections_can_be_turned_off() -> None:
    pod = Bench(config=PlanConfig(init_container_injection=False, probes_injection=False)).worker()
    assert "initContainers" not in pod["spec"]
    assert not {"livenessProbe", "readinessProbe"} & ray(pod).keys()


def test_users_init_containers_come_first_and_learn_the_address() -> None:
    init = [{"name": "mine", "image": "x"}]
    bench = Bench(head={"template": template(initContainers=init)}, worker={"template": template(initContainers=init)})
    names = [container["name"] for container in bench.worker()["spec"]["initContainers"]]
    assert names == ["mine", "wait-gcs-ready"]
    assert env(bench.head()["spec"]["initContainers"][0])["FQ_RAY_IP"] == FQDN


@pytest.mark.parametrize(
    ("version", "http"), [("", False), ("2.52.0", False), ("2.53.0", True), ("v2.53", True), ("nightly", False)]
)
def test_probe_style(version: str, http: bool) -> None:
    probe = ray(Bench(rayVersion=version).head())["livenessProbe"]
    assert ("httpGet" in probe) is http
    if http:
        assert probe["httpGet"] == {"path": "/api/healthz", "port": 52365}


def test_exec_probes_follow_moved_ports() -> None:
    """RC-16."""
    moved = {"dashboard-agent-listen-port": "8266", "dashboard-port": "8365"}
    bench = Bench(rayVersion="2.40.0", head={"rayStartParams": moved}, worker={"rayStartParams": {**moved}})
    head = ray(bench.head())["readinessProbe"]["exec"]["command"]
    assert head[:2] == ["bash", "-c"]
    assert ":8266/api/local_raylet_healthz" in head[2]
    assert ":8365/api/gcs_healthz" in head[2]
    worker = ray(bench.worker())["livenessProbe"]["exec"]["command"][2]
    assert ":8266/" in worker
    assert "8365" not in worker


def test_unreadable_ports_fall_back_in_probes() -> None:
    bad = {"dashboard-agent-listen-port": "invalid-port", "dashboard-port": "invalid-port"}
    command = ray(Bench(rayVersion="", head={"rayStartParams": bad}).head())["livenessProbe"]["exec"]["command"][2]
    assert ":52365/" in command
    assert ":8265/" in command


def test_serving_workers_are_ready_when_serve_answers() -> None:
    ports = {"ports": [{"name": "serve", "containerPort": 8123}]}
    bench = Bench(labels={"ray.io/originated-from-crd": "RayService"}, worker={"template": template(ports)})
    worker = ray(bench.worker())
    assert "httpGet" in worker["livenessProbe"]
    assert worker["readinessProbe"]["exec"]["command"][2].endswith("http://localhost:8123/-/healthz | grep success")
    assert worker["readinessProbe"]["failureThreshold"] == 1
    assert "httpGet" in ray(bench.head())["readinessProbe"]


def test_users_probe_is_kept() -> None:
    probe = {"httpGet": {"path": "/mine", "port": 1}}
    assert ray(Bench(head={"template": template({"livenessProbe": probe})}).head())["livenessProbe"] == probe


@pytest.mark.parametrize(
    ("resources", "size"),
    [
        ({"limits": {"memory": "1Gi"}}, "1Gi"),
        ({"requests": {"memory": "2Gi"}}, "2Gi"),
        ({}, None),
    ],
)
def test_shared_memory(resources: Any, size: str | None) -> None:
    pod = Bench(head={"template": template({"resources": resources})}).head()
    (volume,) = pod["spec"]["volumes"]
    assert volume["name"] == "shared-mem"
    assert volume["emptyDir"].get("sizeLimit") == size
    assert ray(pod)["volumeMounts"] == [{"name": "shared-mem", "mountPath": "/dev/shm"}]


@pytest.mark.parametrize("directory", ["/dev/shm", "/dev/shm/", "/tmp/ray/plasma"])
def test_no_shared_memory_with_a_plasma_directory(directory: str) -> None:
    """RC-31."""
    pod = Bench(head={"rayStartParams": {"plasma-directory": directory}}).head()
    assert "volumes" not in pod["spec"]
    assert "volumeMounts" not in ray(pod)


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/"])
def test_no_shared_memory_where_the_user_mounts_some(path: str) -> None:
    mounts = [{"name": "own", "mountPath": path}]
    pod = Bench(head={"template": template({"volumeMounts": mounts})}).head()
    assert ray(pod)["volumeMounts"] == mounts
    assert "volumes" not in pod["spec"]


def test_users_volume_of_that_name_is_reused() -> None:
    volume = {"name": "shared-mem", "emptyDir": {}}
    pod = Bench(head={"template": template(volumes=[volume])}).head()
    assert pod["spec"]["volumes"] == [volume]
    assert ray(pod)["volumeMounts"][0]["mountPath"] == "/dev/shm"


def test_metrics_port_is_added_once() -> None:
    assert ray(Bench().head())["ports"] == [{"name": "metrics", "containerPort": 8080}]
    own = [{"name": "metrics", "containerPort": 8081}]
    assert ray(Bench(head={"template": template({"ports": own})}).head())["ports"] == own


def test_operator_sidecars_come_last() -> None:
    config = PlanConfig(head_sidecars=[{"name": "fluentbit"}], worker_sidecars=[{"name": "w"}])
    bench = Bench(config=config)
    assert [c["name"] for c in bench.head()["spec"]["containers"]] == ["ray", "fluentbit"]
    assert [c["name"] for c in bench.worker()["spec"]["containers"]] == ["ray", "w"]


# Token authentication


def test_token_from_the_clusters_secret() -> None:
    bench = Bench(authOptions={"mode": "token"}, rayVersion="2.54.0")
    for container in (ray(bench.head()), ray(bench.worker()), bench.worker()["spec"]["initContainers"][0]):
        found = env(container)
        assert found["RAY_AUTH_MODE"] == "token"
        assert found["RAY_AUTH_TOKEN"] == {"secretKeyRef": {"name": "pair", "key": "auth_token"}}


def test_token_from_the_users_secret() -> None:
    found = env(ray(Bench(authOptions={"mode": "token", "secretName": "mine"}).worker()))
    assert found["RAY_AUTH_TOKEN"]["secretKeyRef"]["name"] == "mine"


def test_kubernetes_token() -> None:
    pod = Bench(authOptions={"mode": "token", "enableK8sTokenAuth": True}).worker()
    for container in (ray(pod), pod["spec"]["initContainers"][0]):
        assert env(container)["RAY_ENABLE_K8S_TOKEN_AUTH"] == "true"
        assert "RAY_AUTH_TOKEN" not in env(container)
        mount = {"name": "ray-token", "mountPath": "/var/run/secrets/ray.io/serviceaccount", "readOnly": True}
        assert mount in container["volumeMounts"]
    assert [volume["name"] for volume in pod["spec"]["volumes"]].count("ray-token") == 1


@pytest.mark.parametrize("options", [{}, {"mode": "disabled"}])
def test_no_token(options: Any) -> None:
    assert not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"} & env(ray(Bench(authOptions=options).head())).keys()


# GCS fault tolerance


@pytest.mark.parametrize(
    ("annotations", "options", "enabled"),
    [
        ({}, None, "false"),
        ({"ray.io/ft-enabled": "TRUE"}, None, "true"),
        ({"ray.io/ft-enabled": "false"}, None, "false"),
        ({}, {}, "true"),
    ],
)
def test_fault_tolerance_annotation(annotations: Any, options: Any, enabled: str) -> None:
    spec = {} if options is None else {"gcsFaultToleranceOptions": options}
    bench = Bench(annotations=annotations, **spec)
    assert bench.head()["metadata"]["annotations"]["ray.io/ft-enabled"] == enabled
    worker = bench.worker()
    assert "annotations" not in worker["metadata"]
    timeout = env(ray(worker)).get("RAY_gcs_rpc_server_reconnect_timeout_s")
    assert timeout == ("600" if enabled == "true" else None)
    assert "RAY_gcs_rpc_server_reconnect_timeout_s" not in env(ray(bench.head()))


def test_redis_options() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    options = {"redisAddress": "redis:6379", "redisPassword": {"valueFrom": source}, "redisUsername": {"value": "me"}}
    pod = Bench(gcsFaultToleranceOptions=options).head()
    found = env(ray(pod))
    assert found["RAY_REDIS_ADDRESS"] == "redis:6379"
    assert (found["REDIS_USERNAME"], found["REDIS_PASSWORD"]) == ("me", source)
    assert "--redis-password=$REDIS_PASSWORD " in ray(pod)["args"][0]
    assert "--redis-username=$REDIS_USERNAME " in ray(pod)["args"][0]
    assert pod["metadata"]["annotations"]["ray.io/external-storage-namespace"] == "uid-1"
    assert found["RAY_external_storage_namespace"] == "uid-1"


@pytest.mark.parametrize(
    ("own", "password"), [([], "test-password"), ([{"name": "REDIS_PASSWORD", "value": "mine"}], "mine")]
)
def test_redis_password_by_annotation(own: Any, password: str) -> None:
    head = {"template": template({"env": own}), "rayStartParams": {"redis-password": "test-password"}}
    found = env(ray(Bench(head=head, annotations={"ray.io/ft-enabled": "true"}).head()))
    assert found["REDIS_PASSWORD"] == password


@pytest.mark.parametrize(
    ("storage", "claim", "sub_path"),
    [(None, "pair-gcs-pvc", None), ({"claimName": "my-pvc", "subPath": "x"}, "my-pvc", "x")],
)
def test_embedded_storage(storage: Any, claim: str, sub_path: str | None) -> None:
    options = {"backend": "rocksdb", **({"storage": storage} if storage else {})}
    pod = Bench(gcsFaultToleranceOptions=options).head()
    assert env(ray(pod)).items() >= {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": "/data/gcs"}.items()
    (volume,) = [volume for volume in pod["spec"]["volumes"] if volume["name"] == "gcs-storage"]
    assert volume["persistentVolumeClaim"] == {"claimName": claim}
    (mount,) = [mount for mount in ray(pod)["volumeMounts"] if mount["name"] == "gcs-storage"]
    assert (mount["mountPath"], mount.get("subPath")) == ("/data/gcs", sub_path)
    assert "RAY_REDIS_ADDRESS" not in env(ray(pod))
    assert "ray.io/external-storage-namespace" not in pod["metadata"]["annotations"]


# Plugins


class _Hooks(NoHooks):
    def ray_start_params(self, ctx: PodContext) -> tuple[dict[str, str], list[PluginFailure]]:
        return {"no-monitor": "true"}, [PluginFailure("p", "ray_start_params", "x")]

    def mutate_pod(self, ctx: PodContext, pod: dict[str, Any]) -> MutatedPod:
        pod["spec"]["containers"].append({"name": "plugin"})
        return MutatedPod(pod, {"q": ["/spec"]}, [PluginFailure("q", "mutate_pod", "y")])


def test_plugins_come_before_operator_sidecars_and_failures_are_told() -> None:
    bench = Bench(hooks=_Hooks(), config=PlanConfig(head_sidecars=[{"name": "fluentbit"}]))
    built = bench.built("head")
    assert [c["name"] for c in built.pod["spec"]["containers"]] == ["ray", "plugin", "fluentbit"]
    assert " --no-monitor " in ray(built.pod)["args"][0]
    assert [failure.hook for failure in built.failures] == ["ray_start_params", "mutate_pod"]
    assert built.changes == {"q": ["/spec"]}
