"""What a head or worker pod of a RayCluster looks like, from template to the pod sent to the API server.

Source: spec raycluster.md 3. Templates are copied first, so nothing built here is shared with the object (RC-18).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from kuberay.api import names
from kuberay.api.cluster import GroupSpec, RayClusterSpec
from kuberay.hooks.calls import Hooks, MutatedPod
from kuberay.hooks.types import OwnerContext, PodContext
from kuberay.plan.build import env, gcs_ft, start_params
from kuberay.plan.build.auth import add_token_auth
from kuberay.plan.build.command import ray_start, set_command
from kuberay.plan.build.pod_security import add_restricted_defaults
from kuberay.plan.build.probes import add_probes
from kuberay.plan.build.volumes import add_shared_memory
from kuberay.plan.build.wait_gcs import wait_container, wait_size
from kuberay.plan.config import PlanConfig

_PROTECTED_LABELS = (names.LABEL_NODE_TYPE, names.LABEL_GROUP, names.LABEL_CLUSTER)
_SERVE_TIMEOUTS = {
    "RAY_timeout_ms_task_wait_for_death_info": "0",
    "RAY_gcs_server_request_timeout_seconds": "5",
    "RAY_SERVE_KV_TIMEOUT_S": "5",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """Which pod of the cluster is meant. ``replica_index`` and ``host_index`` are None when they are not labelled."""

    node_type: Literal["head", "worker"]
    group: GroupSpec
    group_name: str
    name: str
    generate_name: str = ""
    """Empty for a fixed name."""
    replica_index: int | None = None
    host_index: int | None = None
    replica_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFactory:
    """Everything that the pods of one cluster have in common."""

    owner: OwnerContext
    spec: RayClusterSpec
    config: PlanConfig
    hooks: Hooks
    head_annotations: Mapping[str, str] = field(default_factory=dict)
    """Put on new head pods only: spec hash and operator version."""
    group_hashes: Mapping[str, str] = field(default_factory=dict)
    """By group name: what new pods say about the spec they were made from. Empty without rolling upgrades."""
    head_service: str = ""
    """Name of the live head service when it is not the one the spec would give."""

    @property
    def creator(self) -> str:
        return creator_crd(self.owner.labels)

    @property
    def head_fqdn(self) -> str:
        """The name under which workers find the head."""
        service = self.head_service or head_service_name(self.owner.name, self.spec)
        return names.service_fqdn(service, self.owner.namespace, self.config.cluster_domain)

    def build(self, place: PodPlace) -> MutatedPod:
        """The pod for *place* after all plugins, with their failures. Never raises for what a plugin did."""
        context = PodContext(
            owner=self.owner,
            group=place.group_name,
            node_type=place.node_type,
            replica_index=place.replica_index or 0,
            host_index=place.host_index or 0,
        )
        forced, failures = self.hooks.ray_start_params(context)
        pod = self._build_core(place, forced)
        built = self.hooks.mutate_pod(context, pod)
        sidecars = self.config.head_sidecars if place.node_type == names.HEAD else self.config.worker_sidecars
        if sidecars:
            built.pod["spec"]["containers"].extend(_copy(sidecars))
        if self.config.restricted_pods:
            # Last: plugins and configured sidecars bring containers, too.
            add_restricted_defaults(built.pod["spec"])
        built.failures[:0] = failures
        return built

    def _build_core(self, place: PodPlace, forced: Mapping[str, str]) -> dict[str, Any]:
        is_head = place.node_type == names.HEAD
        spec, owner = self.spec, self.owner
        port = start_params.gcs_port(spec.head_group_spec.ray_start_params)
        fqdn = self.head_fqdn
        gcs_address = f"{fqdn}:{port}"
        if is_head:
            forced = {**gcs_ft.forced_params(spec), **forced}
        params = start_params.complete(place.group, node_type=place.node_type, gcs_address=gcs_address, forced=forced)

        pod = _copy(dict(place.group.template))
        pod_spec = _given(pod.get("spec") or {})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": pod.get("metadata") or {}, "spec": pod_spec}
        self._fill_metadata(pod["metadata"], place)
        container = pod_spec["containers"][0] = _given(pod_spec["containers"][0])
        head_names = (env.literal("FQ_RAY_IP", fqdn), env.literal("RAY_IP", fqdn.partition(".")[0]))

        wait = None
        size = None if is_head else wait_size(self.config, owner.annotations, pod["metadata"]["annotations"])
        if size is not None:
            wait = wait_container(container, gcs_address, size, login=self.config.login_shell)
            pod_spec["initContainers"] = [*(pod_spec.get("initContainers") or ()), wait]
        if is_head:
            gcs_ft.add_to_head(spec, owner.name, owner.uid, owner.annotations, pod, container)
        else:
            gcs_ft.add_to_worker(spec, owner.annotations, container)
        for wired in (container, wait):
            if wired is not None:
                add_token_auth((owner.cluster_spec or {}).get("authOptions"), owner.name, pod_spec, wired)
        env.append_absent(container, _copy(self.config.default_envs))

        command = ray_start(place.node_type, params)
        if not is_head:
            env.append(container, *head_names)
        self._add_ray_env(container, place.node_type, command, port, gcs_address)
        for init in pod_spec.get("initContainers") or ():
            env.append(init, *head_names)

        overwrite = pod["metadata"]["annotations"].get(names.ANNOTATION_OVERWRITE_CMD, "").lower() == "true"
        set_command(container, command, overwrite=overwrite, login=self.config.login_shell)
        ports = container.get("ports") or []
        if all(port.get("name") != "metrics" for port in ports):
            container["ports"] = [
                *ports,
                {"name": "metrics", "containerPort": _metrics_port(params)},
            ]
        if self.config.probes_injection:
            add_probes(
                container,
                node_type=place.node_type,
                params=params,
                ray_version=spec.ray_version,
                serves=self.creator == "RayService",
            )
        add_shared_memory(pod_spec, container, params)
        if not pod["metadata"]["annotations"]:
            del pod["metadata"]["annotations"]
        return pod

    def _fill_metadata(self, metadata: dict[str, Any], place: PodPlace) -> None:
        owner = self.owner
        metadata["name"] = place.name
        metadata.pop("generateName", None)
        if place.generate_name:
            metadata["generateName"] = place.generate_name
        metadata["namespace"] = owner.namespace
        metadata["ownerReferences"] = [dict(owner.owner_reference)]
        metadata["labels"] = self._labels(metadata.get("labels") or {}, place)
        annotations = dict(metadata.get("annotations") or {})
        if owner.annotations.get(names.ANNOTATION_OVERWRITE_CMD, "").lower() == "true":
            annotations[names.ANNOTATION_OVERWRITE_CMD] = "true"
        if place.node_type == names.HEAD:
            annotations.update(self.head_annotations)
        if self.group_hashes:
            annotations[names.ANNOTATION_GROUP_HASH] = self.group_hashes[place.group_name]
        metadata["annotations"] = {**self.config.default_pod_annotations, **annotations}

    def _labels(self, template: Mapping[str, str], place: PodPlace) -> dict[str, str]:
        labels = pod_labels(self.owner.name, place.node_type, place.group_name, template, place.group.labels)
        if place.replica_index is not None:
            labels[names.LABEL_REPLICA_INDEX] = str(place.replica_index)
        if place.replica_name:
            labels[names.LABEL_REPLICA_NAME] = place.replica_name
            labels[names.LABEL_HOST_INDEX] = str(place.host_index or 0)
        labels = {**self.config.default_pod_labels, **labels}
        if self.creator == "RayService":
            labels[names.LABEL_SERVE] = "false" if place.node_type == names.HEAD else "true"
        return labels

    def _add_ray_env(
        self, container: dict[str, Any], node_type: str, command: str, port: str, gcs_address: str
    ) -> None:
        is_head = node_type == names.HEAD
        env.append(
            container,
            env.from_label("RAY_CLUSTER_NAME", names.LABEL_CLUSTER),
            env.from_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            env.from_field("RAY_CLOUD_INSTANCE_ID", "metadata.name"),
            env.from_label("RAY_NODE_TYPE_NAME", names.LABEL_GROUP),
            env.literal("KUBERAY_GEN_RAY_START_CMD", command),
        )
        env.append_absent(container, [env.literal("RAY_PORT", port)])
        if self.creator == "RayService":
            env.append_absent(container, [env.literal(*item) for item in _SERVE_TIMEOUTS.items()])
        address = f"127.0.0.1:{port}" if is_head else gcs_address
        env.append_absent(
            container, [env.literal("RAY_ADDRESS", address), env.literal("RAY_USAGE_STATS_KUBERAY_IN_USE", "1")]
        )
        if is_head:
            tags = f"kuberay_version={self.config.operator_version};kuberay_crd={self.creator}"
            env.append(container, env.literal("RAY_USAGE_STATS_EXTRA_TAGS", tags))
        env.append_absent(container, [env.literal("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1")])


def creator_crd(labels: Mapping[str, str]) -> str:
    """Which kind made the RayCluster: ``RayCluster``, ``RayJob`` or ``RayService``."""
    creator = labels.get(names.LABEL_ORIGIN_CRD, "")
    return creator if creator in ("RayJob", "RayService") else "RayCluster"


def head_service_name(cluster: str, spec: RayClusterSpec) -> str:
    """The head service of a cluster: named by the user or after the cluster."""
    custom = ((spec.head_group_spec.head_service or {}).get("metadata") or {}).get("name") or ""
    return names.head_service_name(cluster, custom)


def pod_labels(
    cluster: str, node_type: str, group_name: str, template: Mapping[str, str], group: Mapping[str, str]
) -> dict[str, str]:
    """The labels of a pod without indices: ours, then the template's, then the group's; three are protected."""
    labels = {
        names.LABEL_IS_RAY_NODE: "yes",
        names.LABEL_CLUSTER: cluster,
        names.LABEL_NODE_TYPE: node_type,
        names.LABEL_GROUP: group_name,
        names.LABEL_IDENTIFIER: names.identifier(cluster, node_type),
        names.LABEL_APP_NAME: names.APP_NAME,
        names.LABEL_CREATED_BY: names.COMPONENT,
    }
    for overlay in (template, group):
        labels.update((key, value) for key, value in overlay.items() if key not in _PROTECTED_LABELS)
    return labels


def _metrics_port(params: Mapping[str, str]) -> int:
    """Where Ray really serves metrics (ME-03)."""
    return start_params.port_param(params, "metrics-export-port", start_params.DEFAULT_METRICS_PORT)


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that are null, which means absent; plugins need not look for them."""
    return {key: value for key, value in fields.items() if value is not None}


def _copy(value: Any) -> Any:
    """A deep copy; the quickest one for what came as JSON."""
    return orjson.loads(orjson.dumps(value))
