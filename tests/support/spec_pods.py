"""Pods and services of a RayCluster, read a second time from raycluster.md: a plain transcription without the operator's
code, to compare its outcome with. Where the operator differs on purpose (docs/differences.md), so does this.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from kuberay.plan.config import PlanConfig
from random_clusters import AMOUNTS, NAME, NAMESPACE

Manifest = dict[str, Any]

FQDN = f"{NAME}-head-svc.{NAMESPACE}.svc.cluster.local"
UID = "UID"
_OWNER = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": NAME, "controller": True, "blockOwnerDeletion": True}
_AUTOSCALER = "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
_TOKEN_MOUNT = {"name": "ray-token", "mountPath": "/var/run/secrets/ray.io/serviceaccount", "readOnly": True}
_TOKEN_VOLUME = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def _text(name: str, value: str) -> Manifest:
    return {"name": name, "value": value}


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _add_absent(env: list[Manifest], *entries: Manifest) -> None:
    env += [entry for entry in entries if all(known["name"] != entry["name"] for known in env)]


def _up(amount: str) -> int:
    return math.ceil(AMOUNTS[amount])


def is_gpu(resource: str) -> bool:
    return resource.endswith("gpu") or re.search(r"nvidia\.com/mig-\d+g\.\d+gb$", resource) is not None


def _number(text: str | None, fallback: int) -> int:
    return int(text) if text is not None and re.fullmatch("[0-9]+", text) else fallback


def _resources_param(amounts: Mapping[str, float]) -> str:
    whole = {name: int(value) if value == int(value) else value for name, value in sorted(amounts.items())}
    return f"'{json.dumps(whole, separators=(',', ':'))}'"


class Reading:
    """One cluster under one set of operator settings."""

    def __init__(self, manifest: Manifest, config: PlanConfig) -> None:
        self.spec, self.config = manifest["spec"], config
        self.annotations: dict[str, str] = manifest["metadata"]["annotations"]
        self.head: Manifest = self.spec["headGroupSpec"]
        self.options: Manifest | None = self.spec.get("gcsFaultToleranceOptions")
        self.survives = self.options is not None or self.annotations.get("ray.io/ft-enabled", "").lower() == "true"
        creator = manifest["metadata"]["labels"].get("ray.io/originated-from-crd")
        self.creator = creator if creator in ("RayJob", "RayService") else "RayCluster"
        self.port = self.head.get("rayStartParams", {}).get("port", "6379")
        self.autoscaled = self.spec.get("enableInTreeAutoscaling", False)
        self.autoscaler: Manifest = self.spec.get("autoscalerOptions", {})
        self.version = self.autoscaler.get("version") if self.autoscaled else None
        auth = self.spec.get("authOptions", {})
        self.auth = auth if auth.get("mode") == "token" else {}
        self.shell = ["/bin/bash", "-cl" if config.login_shell else "-c", "--"]

    def children(self) -> list[Manifest]:
        """2.5 to 2.7, 1.4, 3 and 4.6."""
        pods = [self.pod(self.head)]
        for group in self.spec["workerGroupSpecs"]:
            for replica in range(max(group["minReplicas"], min(group["replicas"], group["maxReplicas"]))):
                for host in range(group["numOfHosts"]):
                    pods.append(self.pod(group, replica, host))
        return [*pods, *self.services(pods[0]["metadata"]["labels"])]

    def desired(self) -> dict[str, float]:
        """5.2: totals of all that is asked for, replicas not clamped."""
        totals: dict[str, float] = {}
        for group in (self.head, *self.spec["workerGroupSpecs"]):
            count = group.get("replicas", 1) * group.get("numOfHosts", 1)
            for container in group["template"]["spec"]["containers"]:
                resources = container.get("resources", {})
                for name, amount in {**resources.get("limits", {}), **resources.get("requests", {})}.items():
                    totals[name] = totals.get(name, 0) + AMOUNTS[amount] * count
        return {
            "desiredCPU": totals.get("cpu", 0),
            "desiredMemory": totals.get("memory", 0),
            "desiredGPU": sum(amount for name, amount in totals.items() if is_gpu(name)),
            "desiredTPU": totals.get("google.com/tpu", 0),
        }

    # Services

    def services(self, pod_labels: Mapping[str, str]) -> list[Manifest]:
        app = self.head["template"].get("metadata", {}).get("labels", {}).get("app.kubernetes.io/name", "kuberay")
        labels = {
            "ray.io/cluster": NAME,
            "ray.io/node-type": "head",
            "ray.io/identifier": f"{NAME}-head",
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/created-by": "kuberay-operator",
        }
        ports = self._ports()
        kind = self.head.get("serviceType", "")
        typed = {"type": kind} if kind else {}
        body: Manifest = {
            "selector": {key: pod_labels[key] for key in labels},
            "ports": [{"name": name, "port": port, "appProtocol": "tcp"} for name, port in sorted(ports.items())],
            **typed,
        }
        headless = {"clusterIP": "None", "publishNotReadyAddresses": True}
        if kind in ("", "ClusterIP") and not self.config.head_cluster_ip_service:
            body |= headless
        found = [_service(f"{NAME}-head-svc", labels, body, self.spec.get("headServiceAnnotations", {}))]
        if any(group["numOfHosts"] > 1 for group in self.spec["workerGroupSpecs"]):
            selector = {"ray.io/cluster": NAME, "ray.io/node-type": "worker"}
            found.append(
                _service(f"{NAME}-headless", {"ray.io/headless-worker-svc": NAME}, {"selector": selector, **headless})
            )
        serving = [
            {"name": name, "port": port}
            for name, port in sorted(ports.items())
            if name == "serve" or name.startswith("serve-")
        ]
        if self.annotations.get("ray.io/enable-serve-service") == "true" and serving:
            labels = {
                "ray.io/originated-from-cr-name": NAME,
                "ray.io/originated-from-crd": "RayCluster",
                "ray.io/serve": f"{NAME}-serve",
            }
            body = {"selector": {"ray.io/cluster": NAME}, "ports": serving, **typed}
            found.append(_service(f"{NAME}-serve-svc", labels, body))
        return found

    def _ports(self) -> dict[str, int]:
        declared = self.head["template"]["spec"]["containers"][0].get("ports", [])
        ports = {port.get("name") or f"{port['containerPort']}-port": port["containerPort"] for port in declared}
        if not ports:
            dashboard = _number(self.head.get("rayStartParams", {}).get("dashboard-port"), 8265)
            ports = {"client": 10001, "gcs-server": int(self.port), "dashboard": dashboard, "serve": 8000}
        return {"metrics": 8080, **ports}

    # Pods

    def pod(self, group: Manifest, replica: int | None = None, host: int = 0) -> Manifest:
        """The head, or the worker of one place."""
        head = replica is None
        template = copy.deepcopy(group["template"])
        given, spec = template.get("metadata", {}), template["spec"]
        container = spec["containers"][0]
        user = copy.deepcopy(container)
        annotations = self._annotations(given.get("annotations", {}), head=head)
        params = self._params(group, user.get("resources", {}), head=head)
        line = _line(params, head=head)
        self._fill_env(container, line, head=head)
        own = "".join(f" {word} " for word in [*user.get("command", []), *user.get("args", [])])
        overwrite = annotations.get("ray.io/overwrite-container-cmd", "").lower() == "true"
        if not overwrite and "ray start" not in own:
            joined = f"{own} && " if own else ""
            container["command"] = list(self.shell)
            container["args"] = [f"{joined}ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {line}"]
        if self.config.probes_injection:
            self._add_probes(container, user, params, head=head)
        if all(port.get("name") != "metrics" for port in container.get("ports", [])):
            container.setdefault("ports", []).append({"name": "metrics", "containerPort": 8080})
        inits = spec.get("initContainers", [])
        if not head and self.config.init_container_injection:
            inits = [*inits, self._wait(user)]
        for init in inits:
            init.setdefault("env", []).extend([_text("FQ_RAY_IP", FQDN), _text("RAY_IP", FQDN.split(".")[0])])
        if inits:
            spec["initContainers"] = inits
        if self.auth.get("enableK8sTokenAuth"):
            _mount(spec, container, _TOKEN_MOUNT, _TOKEN_VOLUME)
        if "plasma-directory" not in params:
            resources = user.get("resources", {})
            size = resources.get("limits", {}).get("memory") or resources.get("requests", {}).get("memory")
            memory = {"medium": "Memory", **({"sizeLimit": size} if size else {})}
            _mount(spec, container, {"name": "shared-mem", "mountPath": "/dev/shm"}, {"emptyDir": memory})
        if head and self.autoscaled:
            sidecar = self._sidecar(user)
            for one in (container, sidecar):
                _mount(spec, one, {"name": "ray-logs", "mountPath": "/tmp/ray"}, {"emptyDir": {}})
            spec["containers"].append(sidecar)
            spec.setdefault("serviceAccountName", NAME)
        if self.version == "v2":
            spec["restartPolicy"] = "Never"
        spec["containers"] += copy.deepcopy(self.config.head_sidecars if head else self.config.worker_sidecars)
        metadata = {
            **self._names(group, head=head),
            "labels": self._labels(group, given.get("labels", {}), replica, host),
            "annotations": annotations,
            "ownerReferences": [_OWNER],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _names(self, group: Manifest, *, head: bool) -> Manifest:
        """0.2."""
        prefix = NAME if head else f"{NAME}-{group['groupName']}"
        name = f"{prefix[:50]}-{'head' if head else 'worker'}".lower()
        if head and self.config.deterministic_head_pod_name:
            return {"name": name}
        return {"name": f"{name}-bcdfg", "generateName": f"{name}-"}

    def _labels(self, group: Manifest, given: Mapping[str, str], replica: int | None, host: int) -> dict[str, str]:
        """3.3."""
        head = replica is None
        kind = "head" if head else "worker"
        protected = {
            "ray.io/cluster": NAME,
            "ray.io/node-type": kind,
            "ray.io/group": "headgroup" if head else group["groupName"],
        }
        labels = {
            "ray.io/is-ray-node": "yes",
            "ray.io/identifier": f"{NAME}-{kind}",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
            **given,
            **group.get("labels", {}),
            **protected,
        }
        if not head:
            labels["ray.io/worker-group-replica-index"] = str(replica)
            if group["numOfHosts"] > 1:
                labels["ray.io/worker-group-replica-name"] = f"{group['groupName'][:57]}-bcdfg"
                labels["ray.io/replica-host-index"] = str(host)
        labels = {**self.config.default_pod_labels, **labels}
        if self.creator == "RayService":
            labels["ray.io/serve"] = "false" if head else "true"
        return labels

    def _annotations(self, given: Mapping[str, str], *, head: bool) -> dict[str, str]:
        """3.4."""
        found = dict(given)
        if self.annotations.get("ray.io/overwrite-container-cmd", "").lower() == "true":
            found["ray.io/overwrite-container-cmd"] = "true"
        if head:
            found["ray.io/ft-enabled"] = "true" if self.survives else "false"
            found["ray.io/upgrade-strategy-recreate-hash"] = "H" * 32
            found["ray.io/kuberay-version"] = self.config.operator_version
            if self.survives:
                found["ray.io/external-storage-namespace"] = self._storage_namespace()
        return {**self.config.default_pod_annotations, **found}

    def _storage_namespace(self) -> str:
        """3.15."""
        by_annotation = self.annotations.get("ray.io/external-storage-namespace")
        return (self.options or {}).get("externalStorageNamespace") or by_annotation or UID

    def _params(self, group: Manifest, resources: Manifest, *, head: bool) -> dict[str, str]:
        """3.6."""
        params = dict(group.get("rayStartParams", {}))
        custom: dict[str, float] = {}
        for name, amount in group.get("resources", {}).items():
            known = {"cpu": "num-cpus", "memory": "memory"}.get(
                name.lower(), "num-gpus" if is_gpu(name.lower()) else ""
            )
            if known:
                params[known] = str(_up(amount))
            else:
                custom[name] = AMOUNTS[amount]
        if custom:
            params["resources"] = _resources_param(custom)
        if group.get("labels"):
            params["labels"] = ",".join(f"{key}={value}" for key, value in sorted(group["labels"].items()))
        defaults = {"dashboard-host": "0.0.0.0"} if head else {"address": f"{FQDN}:{self.port}"}
        defaults |= {"metrics-export-port": "8080", "dashboard-agent-listen-port": "52365"}
        params = {**defaults, **params, "block": "true"}
        if head and self.autoscaled:
            params["no-monitor"] = "true"
        for option, name in (("redisUsername", "username"), ("redisPassword", "password")):
            if head and option in (self.options or {}):
                params[f"redis-{name}"] = f"$REDIS_{name.upper()}"
        limits, requests = resources.get("limits", {}), resources.get("requests", {})
        cpus = _up(limits.get("cpu", "0")) or _up(requests.get("cpu", "0"))
        if cpus:
            params.setdefault("num-cpus", str(cpus))
        if limits.get("memory"):
            params.setdefault("memory", str(_up(limits["memory"])))
        _add_accelerators(params, limits)
        return params

    def _add_auth(self, env: list[Manifest]) -> None:
        """3.5 (8-10)."""
        if not self.auth:
            return
        if self.auth.get("enableK8sTokenAuth"):
            token = _text("RAY_ENABLE_K8S_TOKEN_AUTH", "true")
        else:
            secret = {"name": self.auth.get("secretName") or NAME, "key": "auth_token"}
            token = {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": secret}}
        _add_absent(env, _text("RAY_AUTH_MODE", "token"), token)

    def _fill_env(self, container: Manifest, line: str, *, head: bool) -> None:
        """3.5."""
        env: list[Manifest] = container.setdefault("env", [])
        if head and self.version:
            env.append(_text("RAY_enable_autoscaler_v2", "true" if self.version == "v2" else "false"))
        if self.survives and head:
            self._add_redis(env)
        elif self.survives:
            _add_absent(env, _text("RAY_gcs_rpc_server_reconnect_timeout_s", "600"))
        self._add_auth(env)
        _add_absent(env, *copy.deepcopy(self.config.default_envs))
        if not head:
            env += [_text("FQ_RAY_IP", FQDN), _text("RAY_IP", FQDN.split(".")[0])]
        env += [
            _field("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"),
            _field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            _field("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
            _field("RAY_NODE_TYPE_NAME", "metadata.labels['ray.io/group']"),
            _text("KUBERAY_GEN_RAY_START_CMD", line),
        ]
        _add_absent(env, _text("RAY_PORT", self.port))
        if self.creator == "RayService":
            _add_absent(
                env,
                _text("RAY_timeout_ms_task_wait_for_death_info", "0"),
                _text("RAY_gcs_server_request_timeout_seconds", "5"),
                _text("RAY_SERVE_KV_TIMEOUT_S", "5"),
            )
        _add_absent(env, _text("RAY_ADDRESS", f"{'127.0.0.1' if head else FQDN}:{self.port}"))
        _add_absent(env, _text("RAY_USAGE_STATS_KUBERAY_IN_USE", "1"))
        if head:
            tags = f"kuberay_version={self.config.operator_version};kuberay_crd={self.creator}"
            env.append(_text("RAY_USAGE_STATS_EXTRA_TAGS", tags))
        _add_absent(env, _text("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1"))

    def _add_redis(self, env: list[Manifest]) -> None:
        """3.5 (3-6)."""
        _add_absent(env, _text("RAY_external_storage_namespace", self._storage_namespace()))
        password = self.head.get("rayStartParams", {}).get("redis-password")
        if self.options is not None:
            env.append(_text("RAY_REDIS_ADDRESS", self.options.get("redisAddress", "")))
            for option, name in (("redisUsername", "REDIS_USERNAME"), ("redisPassword", "REDIS_PASSWORD")):
                env += [{"name": name, **self.options[option]}] if option in self.options else []
        elif password is not None:
            _add_absent(env, _text("REDIS_PASSWORD", password))

    def _add_probes(self, container: Manifest, user: Manifest, params: Mapping[str, str], *, head: bool) -> None:
        """3.8."""
        agent = _number(params["dashboard-agent-listen-port"], 52365)
        parts = re.match(r"v?(\d+)\.(\d+)", self.spec.get("rayVersion", ""))
        wget = "wget --tries 1 -T {} -q -O- http://localhost:{}/{} | grep success"
        checks = [wget.format(2, agent, "api/local_raylet_healthz")]
        if head:
            checks.append(wget.format(10, _number(params.get("dashboard-port"), 8265), "api/gcs_healthz"))
        check: Manifest = {"exec": {"command": ["bash", "-c", " && ".join(checks)]}}
        if parts is not None and (int(parts[1]), int(parts[2])) >= (2, 53):
            check = {"httpGet": {"path": "/api/healthz", "port": agent}}
        common = {"timeoutSeconds": 5 if head else 2, "periodSeconds": 5, "successThreshold": 1}
        ready = {**check, **common, "initialDelaySeconds": 10, "failureThreshold": 10}
        if self.creator == "RayService" and not head:
            ports = [port["containerPort"] for port in user.get("ports", []) if port.get("name") == "serve"]
            checks.append(wget.format(10, (ports or [8000])[0], "-/healthz"))
            command = {"command": ["bash", "-c", " && ".join(checks)]}
            ready = {"exec": command, **common, "initialDelaySeconds": 10, "failureThreshold": 1}
        container.setdefault("livenessProbe", {**check, **common, "initialDelaySeconds": 30, "failureThreshold": 120})
        container.setdefault("readinessProbe", ready)

    def _wait(self, user: Manifest) -> Manifest:
        """3.9 and 3.12."""
        keys = ("image", "imagePullPolicy", "securityContext", "env", "volumeMounts")
        copied = copy.deepcopy({key: user[key] for key in keys if key in user})
        size = {"cpu": "200m", "memory": "256Mi"}
        script = f"ray health-check --address {FQDN}:{self.port} > /dev/null"
        wait = {"name": "wait-gcs-ready", "env": [], **copied, "command": self.shell, "args": [script]}
        self._add_auth(wait["env"])
        if self.auth.get("enableK8sTokenAuth"):
            wait["volumeMounts"] = [*wait.get("volumeMounts", []), _TOKEN_MOUNT]
        return {**wait, "resources": {"limits": size, "requests": size}}

    def _sidecar(self, user: Manifest) -> Manifest:
        """3.11."""
        options, size = self.autoscaler, {"cpu": "500m", "memory": "512Mi"}
        env = [
            _field("RAY_CLUSTER_NAME", "metadata.labels['ray.io/cluster']"),
            _field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            _field("RAY_HEAD_POD_NAME", "metadata.name"),
            _text("KUBERAY_CRD_VER", "v1"),
            _text("KUBERAY_GEN_AUTOSCALER_START_CMD", _AUTOSCALER),
        ]
        self._add_auth(env)
        token = [_TOKEN_MOUNT] if self.auth.get("enableK8sTokenAuth") else []
        return {
            "name": "autoscaler",
            "image": options.get("image", user["image"]),
            "imagePullPolicy": options.get("imagePullPolicy", "IfNotPresent"),
            "command": list(self.shell),
            "args": options.get("args", [_AUTOSCALER]),
            "env": [*env, *options.get("env", [])],
            "resources": options.get("resources", {"limits": size, "requests": size}),
            "volumeMounts": [*token, *options.get("volumeMounts", [])],
        }


def _add_accelerators(params: dict[str, str], limits: Mapping[str, str]) -> None:
    """3.6 step 11."""
    try:
        custom = json.loads(params.get("resources", "{}").strip(" '\"`"))
    except ValueError:
        return
    mapped = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
    named = bool(custom.keys() & set(mapped.values()))
    for name in sorted(limits):
        if AMOUNTS[limits[name]] and is_gpu(name):
            params.setdefault("num-gpus", str(_up(limits[name])))
        elif AMOUNTS[limits[name]] and name in mapped and not named:
            named = True
            params["resources"] = _resources_param({**custom, mapped[name]: AMOUNTS[limits[name]]})


def _line(params: Mapping[str, str], *, head: bool) -> str:
    """3.7."""
    line = "ray start --head " if head else "ray start "
    for key, value in sorted(params.items()):
        if key not in ("log-color", "include-dashboard", "include-log-monitor"):
            if value.lower() == "false":
                continue
            if value.lower() == "true":
                line += f" --{key} "
                continue
        line += f" --{key}={value} "
    return line


def _mount(spec: Manifest, container: Manifest, mount: Mapping[str, Any], source: Mapping[str, Any]) -> None:
    """3.10: nothing where something is mounted; a volume of that name is reused."""
    mounts = container.setdefault("volumeMounts", [])
    if any(known["mountPath"] == mount["mountPath"] for known in mounts):
        return
    mounts.append(dict(mount))
    volumes = spec.setdefault("volumes", [])
    if all(volume["name"] != mount["name"] for volume in volumes):
        volumes.append({"name": mount["name"], **source})


def _service(name: str, labels: Manifest, spec: Manifest, annotations: Manifest | None = None) -> Manifest:
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}, "ownerReferences": [_OWNER]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
