"""RayClusters that users might write, and operator settings, from a seed: valid ones, with features in odd combinations."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kuberay.plan.config import PlanConfig

Manifest = dict[str, Any]

NAME, NAMESPACE = "clu", "ns"
AMOUNTS: dict[str, float] = {
    "0": 0,
    "500m": 0.5,
    "1": 1,
    "1500m": 1.5,
    "2": 2,
    "4": 4,
    "100M": 10**8,
    "512Mi": 2**29,
    "1Gi": 2**30,
    "1.5Gi": 3 * 2**29,
}
"""Every quantity that occurs, as a number."""

_DEVICES = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "foo.bar/gpu",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/gpu-mig-12g.128gb",
    "google.com/tpu",
    "aws.amazon.com/neuroncore",
    "habana.ai/gaudi",
)
_ENV = (
    "A",
    "RAY_ADDRESS",
    "RAY_PORT",
    "RAY_IP",
    "FQ_RAY_IP",
    "RAY_CLUSTER_NAME",
    "RAY_USAGE_STATS_KUBERAY_IN_USE",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN",
    "RAY_external_storage_namespace",
    "RAY_gcs_rpc_server_reconnect_timeout_s",
    "RAY_SERVE_KV_TIMEOUT_S",
    "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE",
    "KUBERAY_GEN_RAY_START_CMD",
)
_PARAMS = {
    "port": ("6380",),
    "dashboard-port": ("8266", "bad"),
    "dashboard-agent-listen-port": ("5000", " 1"),
    "num-cpus": ("0", "3"),
    "num-gpus": ("0", "5"),
    "memory": ("1000",),
    "resources": ("'{\"a\":1}'", '"{"TPU": 2}"', "{", '`{"z": 0.5}`', '{"neuron_cores":1}', '"{\\"a\\": 1}"'),
    "block": ("false", "true"),
    "some-flag": ("True", "FALSE", "two words", "", '{"json": [1]}'),
    "log-color": ("true", "False"),
    "include-dashboard": ("FALSE",),
    "address": ("elsewhere:1",),
    "plasma-directory": ("/p",),
    "no-monitor": ("false",),
    "dashboard-host": ("localhost",),
}
_PORTS = (
    {"name": "metrics", "containerPort": 8081},
    {"name": "serve", "containerPort": 8111},
    {"name": "serve-x", "containerPort": 99},
    {"name": "dashboard", "containerPort": 8299},
    {"name": "gcs-server", "containerPort": 6311},
    {"containerPort": 77},
)
_LABELS = (
    "x",
    "y",
    "ray.io/cluster",
    "ray.io/node-type",
    "ray.io/group",
    "ray.io/is-ray-node",
    "ray.io/serve",
    "app.kubernetes.io/name",
    "app.kubernetes.io/created-by",
)
_MOUNTS = (("d", "/d"), ("s", "/dev/shm"), ("l", "/tmp/ray"), ("shared-mem", "/o"))


@dataclass(slots=True)
class RandomCluster:
    """`manifest` and `config` of one seed."""

    seed: int
    manifest: Manifest = field(init=False)
    config: PlanConfig = field(init=False)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        annotations = self._annotations()
        self.manifest = {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "labels": self._some(
                    {"ray.io/originated-from-crd": ("RayService", "RayJob", "RayCluster", "Other")}, 0.4
                ),
                "annotations": annotations,
            },
            "spec": self._spec(annotations),
        }
        self.config = self._settings()

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _sample(self, of: Sequence[Any], most: int) -> list[Any]:
        return self._random.sample(list(of), self._random.randint(0, min(most, len(of))))

    def _some(self, choices: Mapping[str, Sequence[Any]], probability: float) -> Manifest:
        return {key: self._random.choice(list(of)) for key, of in choices.items() if self._chance(probability)}

    def _annotations(self) -> dict[str, str]:
        found = self._some({"ray.io/ft-enabled": ("true", "TRUE", "false")}, 0.4)
        found |= self._some({"ray.io/external-storage-namespace": ("store",)}, 0.2)
        found |= self._some({"ray.io/overwrite-container-cmd": ("true", "TRUE", "no")}, 0.15)
        found |= self._some({"ray.io/enable-serve-service": ("true", "True")}, 0.3)
        return found

    def _spec(self, annotations: dict[str, str]) -> Manifest:
        head = self._group(head=True)
        by_annotation = annotations.get("ray.io/ft-enabled", "").lower() == "true"
        if by_annotation and self._chance(0.4):
            head.setdefault("rayStartParams", {})["redis-password"] = "pw"
        head |= self._some({"serviceType": ("ClusterIP", "NodePort", "LoadBalancer")}, 0.4)
        names = self._sample(("crew", "GPU-Group", "a" * 60), 2)
        spec: Manifest = {"headGroupSpec": head, "workerGroupSpecs": [self._worker_group(name) for name in names]}
        spec |= self._some({"rayVersion": ("", "2.52.0", "2.53", "v2.54.0rc1", "nightly", "2.55.0")}, 0.8)
        spec |= self._some({"headServiceAnnotations": ({"h": "s"},)}, 0.3)
        self._add_auth(spec)
        if self._chance(0.4):
            spec["enableInTreeAutoscaling"] = True
            spec |= {"autoscalerOptions": self._autoscaler_options()} if self._chance(0.7) else {}
        if not annotations.keys() & {"ray.io/ft-enabled", "ray.io/external-storage-namespace"} and self._chance(0.4):
            source = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
            spec["gcsFaultToleranceOptions"] = self._some(
                {
                    "redisAddress": ("redis:1",),
                    "redisUsername": ({"value": "u"},),
                    "redisPassword": ({"value": "p"}, source),
                    "externalStorageNamespace": ("own",),
                },
                0.5,
            )
        return spec

    def _add_auth(self, spec: Manifest) -> None:
        version = spec.get("rayVersion", "")
        if not version.strip("v").startswith("2") or self._chance(0.5):
            return
        auth: Manifest = {"mode": self._random.choice(["token", "disabled"])}
        spec["authOptions"] = auth
        if auth["mode"] == "token" and version == "2.55.0" and self._chance(0.5):
            auth |= {"enableK8sTokenAuth": True}
        elif self._chance(0.3):
            auth |= {"secretName": "sec"}

    def _autoscaler_options(self) -> Manifest:
        own_env = [{"name": "A", "value": "o"}, {"name": "RAY_AUTH_MODE", "value": "o"}]
        mounts = [[{"name": name, "mountPath": path}] for name, path in (("d", "/d"), ("l", "/tmp/ray"))]
        return self._some({"version": ("v1", "v2")}, 0.7) | self._some(
            {
                "env": (own_env,),
                "volumeMounts": mounts,
                "args": (["x"],),
                "image": ("other:1",),
                "imagePullPolicy": ("Always",),
                "resources": ({"limits": {"cpu": "1"}}, {}),
            },
            0.25,
        )

    def _worker_group(self, name: str) -> Manifest:
        sizes = {"replicas": (0, 1, 2, 9), "minReplicas": (0, 1), "maxReplicas": (1, 3), "numOfHosts": (1, 1, 2)}
        return {"groupName": name, **self._some(sizes, 1), **self._group(head=False)}

    def _group(self, *, head: bool) -> Manifest:
        group: Manifest = {"template": self._template(head=head)}
        params = {key: self._random.choice(_PARAMS[key]) for key in self._sample(list(_PARAMS), 5)}
        if self._chance(0.6):
            group["rayStartParams"] = params
        if self._chance(0.5) and not params.keys() & {"num-cpus", "num-gpus", "memory", "resources"}:
            amounts = ("1", "2", "1500m", "500m")
            names = self._sample(("CPU", "GPU", "Memory", "TPU", "cpu2", "custom"), 3)
            group["resources"] = {name: self._random.choice(amounts) for name in names}
        if self._chance(0.3):
            names = self._sample(("x", "z/y", "ray.io/cluster", "ray.io/identifier"), 2)
            group["labels"] = {name: self._random.choice(["1", "b"]) for name in names}
        return group

    def _template(self, *, head: bool) -> Manifest:
        pod: Manifest = {"containers": [self._container("main"), *self._maybe_list(0.3, self._container("side"))]}
        if self._chance(0.3):
            pod["initContainers"] = [{"name": "ini", "image": "b", "env": self._env()}]
        if self._chance(0.5):
            names = self._sample(("d", "s", "l", "shared-mem", "ray-logs"), 3)
            pod["volumes"] = [{"name": name, "emptyDir": {}} for name in names]
        pod |= self._some({"nodeSelector": ({"a": "b"},)}, 0.2)
        template: Manifest = {"spec": pod}
        if self._chance(0.6):
            keys = ("ray.io/overwrite-container-cmd", "a", "ray.io/ft-enabled")
            template["metadata"] = {
                "labels": {key: self._random.choice(["v0", "v1"]) for key in self._sample(_LABELS, 4)},
                "annotations": {key: self._random.choice(["true", "True", "v"]) for key in self._sample(keys, 2)},
            }
        return template

    def _maybe_list(self, probability: float, item: Manifest) -> list[Manifest]:
        return [item] if self._chance(probability) else []

    def _env(self) -> list[Manifest]:
        return [{"name": name, "value": f"user's {name}"} for name in self._sample(_ENV, 4)]

    def _container(self, name: str) -> Manifest:
        container: Manifest = {"name": name, "image": f"img:{name}"}
        container |= self._some(
            {
                "command": (["a"], ["bash", "-c"], [], ["ray start"]),
                "args": (["b c"], [], ["x ray start y"], ["1", "2"]),
                "imagePullPolicy": ("Always", "Never"),
                "securityContext": ({"runAsUser": 5},),
                "readinessProbe": ({"exec": {"command": ["r"]}},),
                "livenessProbe": ({"tcpSocket": {"port": 3}},),
            },
            0.25,
        )
        if self._chance(0.8):
            container["resources"] = {"limits": self._resources(), "requests": self._resources()}
        if self._chance(0.6):
            container["env"] = self._env()
        if self._chance(0.4):
            container["ports"] = [dict(port) for port in self._sample(_PORTS, 4)]
        if self._chance(0.4):
            mounts = self._sample(_MOUNTS, 2)
            container["volumeMounts"] = [{"name": volume, "mountPath": path} for volume, path in mounts]
        return container

    def _resources(self) -> dict[str, str]:
        found = self._some({"cpu": ("0", "500m", "1", "1500m"), "memory": ("100M", "512Mi", "1Gi", "1.5Gi")}, 0.5)
        return found | {name: self._random.choice(["0", "1", "2", "4"]) for name in self._sample(_DEVICES, 2)}

    def _settings(self) -> PlanConfig:
        chosen: dict[str, Any] = self._some(
            {
                "login_shell": (True,),
                "head_cluster_ip_service": (True,),
                "deterministic_head_pod_name": (True,),
                "probes_injection": (False,),
                "init_container_injection": (False,),
            },
            0.15,
        )
        if self._chance(0.3):
            chosen |= {
                "default_envs": [{"name": "A", "value": "default"}, {"name": "RAY_PORT", "value": "default"}],
                "default_pod_labels": {"x": "default", "only": "default"},
                "default_pod_annotations": {"a": "default", "only": "default"},
                "head_sidecars": [{"name": "hs", "image": "hs"}],
                "worker_sidecars": [{"name": "ws", "image": "ws"}],
            }
        return PlanConfig(operator_version="1.2.3", **chosen)
