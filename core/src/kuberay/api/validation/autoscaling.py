"""Whether suspended groups and autoscaler settings are refused.

Source: spec raycluster.md 1.8 rules 21-27. Problems are pairs of field path below the spec and message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kuberay.api.cluster import ENV_AUTOSCALER_V2, AutoscalerOptions, RayClusterSpec
from kuberay.api.gates import DELETION_POLICY
from kuberay.api.podtemplate import env_value

Found = tuple[str, str]

ENV_AUTOSCALER_COMMAND = "KUBERAY_GEN_AUTOSCALER_START_CMD"
_HEAD_POD = "headGroupSpec.template.spec"


def autoscaling_problems(spec: RayClusterSpec, gates: Mapping[str, bool]) -> Iterator[Found]:
    """Rules 21-27."""
    suspended = [(index, group) for index, group in enumerate(spec.worker_group_specs) if group.suspend]
    if not gates.get(DELETION_POLICY, False):
        for index, group in suspended:
            yield (
                f"workerGroupSpecs[{index}].suspend",
                f"worker group {group.group_name} can be suspended only when the RayJobDeletionPolicy feature gate is"
                " enabled",
            )
    options = spec.autoscaler_options or AutoscalerOptions()
    switch = env_value(spec.head_group_spec.ray_container, ENV_AUTOSCALER_V2)
    if not spec.autoscaling:
        if switch in ("1", "true"):
            yield (
                f"{_HEAD_POD}.containers[0].env",
                f"environment variable RAY_enable_autoscaler_v2 cannot be set to '{switch}' when"
                " enableInTreeAutoscaling is false. Please set enableInTreeAutoscaling: true to use autoscaler v2",
            )
    else:
        for index, group in suspended:
            yield (
                f"workerGroupSpecs[{index}].suspend",
                f"worker group {group.group_name} cannot be suspended with Autoscaler enabled",
            )
        if options.version is not None and switch is not None:
            yield (
                "autoscalerOptions.version",
                "both .spec.autoscalerOptions.version and head Pod env var RAY_enable_autoscaler_v2 are set, please"
                " only use the former",
            )
        if spec.autoscaler_v2:
            yield from _restart_problems(spec)
    seconds = options.idle_timeout_seconds
    if seconds is not None and seconds < 0:
        yield (
            "autoscalerOptions.idleTimeoutSeconds",
            f"autoscalerOptions.idleTimeoutSeconds must be non-negative, got {seconds}",
        )
    for index, entry in enumerate(options.env):
        if entry.get("name") == ENV_AUTOSCALER_COMMAND:
            yield (
                f"autoscalerOptions.env[{index}]",
                f"autoscalerOptions.env must not contain {ENV_AUTOSCALER_COMMAND}: it is managed by KubeRay and"
                " injected automatically into the autoscaler container",
            )


def _restart_problems(spec: RayClusterSpec) -> Iterator[Found]:
    rule = "should be Never or unset when using autoscaler V2"
    if spec.head_group_spec.pod_spec.get("restartPolicy") not in (None, "", "Never"):
        yield f"{_HEAD_POD}.restartPolicy", f"restartPolicy for head Pod {rule}"
    for index, group in enumerate(spec.worker_group_specs):
        if group.pod_spec.get("restartPolicy") not in (None, "", "Never"):
            yield (
                f"workerGroupSpecs[{index}].template.spec.restartPolicy",
                f"restartPolicy for worker group {group.group_name} {rule}",
            )


def restart_policy_warning(spec: RayClusterSpec) -> str:
    """The warning about groups with another restart policy under autoscaler v1 (2.1 step 6); empty when none."""
    if not spec.autoscaling or spec.autoscaler_options is None or spec.autoscaler_options.version != "v1":
        return ""
    names = [
        group.group_name
        for group in spec.worker_group_specs
        if group.pod_spec.get("restartPolicy") not in (None, "", "Never")
    ]
    if not names:
        return ""
    return f"restartPolicy for worker groups [{', '.join(names)}] should be Never or unset when using autoscaler V1"
