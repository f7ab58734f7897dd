"""Whether network policy and TLS settings are refused.

Source: spec raycluster.md 1.8 rules 31-35. Problems are pairs of field path below the spec and message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kuberay.api.cluster import NetworkPolicyRules, RayClusterSpec
from kuberay.api.gates import MTLS, NETWORK_POLICY
from kuberay.api.syntax import dns1123_errors

Found = tuple[str, str]

TLS_ENV = ("RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
TLS_MOUNT = "ray-tls"
TLS_PATH = "/etc/ray/tls"
_MANAGED = "when tlsOptions is set - the operator manages TLS configuration automatically"


def network_policy_problems(spec: RayClusterSpec, gates: Mapping[str, bool]) -> Iterator[Found]:
    """Rules 31-33."""
    policy = spec.network_policy
    if policy is None:
        return
    if not gates.get(NETWORK_POLICY, False):
        yield (
            "networkPolicy",
            "spec.networkPolicy requires the RayClusterNetworkPolicy feature gate to be enabled",
        )
    sides: list[tuple[str, str, NetworkPolicyRules | None]] = [
        ("head", "head", policy.head),
        ("worker", "worker", policy.worker),
    ]
    sides += [
        (f'workerGroups["{rules.group_name}"]', f"workerGroups[{index}]", rules)
        for index, rules in enumerate(policy.worker_groups)
    ]
    for told, path, rules in sides:
        if rules is None:
            continue
        for mode, field, direction, given in (
            ("DenyAllEgress", "ingressRules", "ingress", rules.ingress_rules),
            ("DenyAllIngress", "egressRules", "egress", rules.egress_rules),
        ):
            if policy.mode == mode and given:
                yield (
                    f"networkPolicy.{path}.{field}",
                    f'networkPolicy.{told}.{field} cannot be set when mode is "{mode}" ({direction} is not restricted)',
                )
    for index, group in enumerate(spec.worker_group_specs):
        errors = dns1123_errors(group.group_name)
        if errors:
            yield (
                f"workerGroupSpecs[{index}].groupName",
                f'worker group name "{group.group_name}" must be a valid DNS1123 label when networkPolicy is enabled'
                f" ({'; '.join(errors)})",
            )
    for index, entry in enumerate(policy.worker_groups):
        if spec.group(entry.group_name) is None:
            yield (
                f"networkPolicy.workerGroups[{index}].groupName",
                f'networkPolicy.workerGroups["{entry.group_name}"] does not match any group name in workerGroupSpecs',
            )


def tls_problems(spec: RayClusterSpec, gates: Mapping[str, bool]) -> Iterator[Found]:
    """Rules 34-35."""
    if spec.tls_options is not None and not gates.get(MTLS, False):
        yield "tlsOptions", "spec.tlsOptions requires the RayClusterMTLS feature gate to be enabled"
    if not spec.tls:
        return
    pod = "template.spec.containers[0]"
    yield from _managed(f"headGroupSpec.{pod}", "head Pod", spec.head_group_spec.ray_container)
    for index, group in enumerate(spec.worker_group_specs):
        yield from _managed(
            f"workerGroupSpecs[{index}].{pod}", f"worker group {group.group_name} Pod", group.ray_container
        )
    options = spec.autoscaler_options
    if options is not None:
        container = {"env": options.env, "volumeMounts": options.volume_mounts}
        yield from _managed("autoscalerOptions", "autoscalerOptions", container)


def _managed(path: str, where: str, container: Mapping[str, Any]) -> Iterator[Found]:
    for index, entry in enumerate(container.get("env") or []):
        if entry.get("name") in TLS_ENV:
            yield f"{path}.env[{index}]", f"cannot set {entry['name']} environment variable in {where} {_MANAGED}"
    for index, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("name") == TLS_MOUNT:
            yield (
                f"{path}.volumeMounts[{index}]",
                f'cannot use volume mount named "{TLS_MOUNT}" in {where} {_MANAGED}',
            )
        if mount.get("mountPath") == TLS_PATH:
            yield (
                f"{path}.volumeMounts[{index}]",
                f'cannot use volume mount at path "{TLS_PATH}" in {where} {_MANAGED}',
            )
