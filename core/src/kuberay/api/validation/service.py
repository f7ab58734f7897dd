"""Whether a RayService is refused: its name, its annotations, its spec.

Source: spec rayservice.md 6.1; cases.md GW-04. Pinned messages are KubeRay's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from kuberay.api.cluster import UpgradeStrategy, parse_problems
from kuberay.api.names import ANNOTATION_INITIALIZING_TIMEOUT, HEAD_GROUP, head_service_name
from kuberay.api.problems import Problem
from kuberay.api.serve_config import serve_config_problems
from kuberay.api.service import RayServiceSpec, UpgradeType, read_initializing_timeout
from kuberay.api.syntax import dns1035_errors
from kuberay.api.validation.cluster import name_problems, spec_problems
from kuberay.api.validation.job import event_note as event_note
from kuberay.api.validation.lifecycle import ownership_problems
from kuberay.api.validation.rolling import rolling_problems

INVALID_METADATA = "InvalidRayServiceMetadata"
INVALID_SPEC = "InvalidRayServiceSpec"

MAX_NAME = 47

Found = tuple[str, str]

_METADATA = "The RayService metadata is invalid: "
_INVALID = "The RayService spec is invalid: "


def validate_service(
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    spec: RayServiceSpec | Mapping[str, Any],
    gates: Mapping[str, bool],
    status: Mapping[str, Any] | None = None,
    *,
    strategy_problems: Sequence[Problem] = (),
    offered_type: str = "",
) -> list[Problem]:
    """All problems, KubeRay's first one first; ``reason`` is the event reason. Empty means accepted.

    *strategy_problems* is what the upgrade strategy says of its options, and *offered_type* the type for which a plugin
    offers one. The message of the first problem is what KubeRay writes to condition ``Ready``.

    A ``serveConfigV2`` that Serve would refuse counts only until *status* names an active RayCluster: whoever serves goes on
    with what it has, and it is for the plan to say that the new text is not sent (`serve_config_problems`).
    """
    problems = list(name_problems("RayService", name, MAX_NAME, INVALID_METADATA, _METADATA))
    problems += _annotation_problems(annotations)
    if not isinstance(spec, RayServiceSpec):
        try:
            spec = RayServiceSpec.parse(spec)
        except ValidationError as error:
            return problems + parse_problems(error, "spec", INVALID_SPEC)
    problems += service_spec_problems(
        name, annotations, spec, gates, strategy_problems=strategy_problems, offered_type=offered_type
    )
    if not ((status or {}).get("activeServiceStatus") or {}).get("rayClusterName"):
        for problem in serve_config_problems(spec.serve_config_v2):
            problems.append(Problem(problem.path, f"{_INVALID}{problem}", INVALID_SPEC))
    return problems


def service_spec_problems(
    name: str,
    annotations: Mapping[str, str],
    spec: RayServiceSpec,
    gates: Mapping[str, bool],
    *,
    strategy_problems: Sequence[Problem] = (),
    offered_type: str = "",
) -> list[Problem]:
    """The rules for the spec in KubeRay's order, then our own; ``serveConfigV2`` is not looked at."""
    cluster, where = spec.ray_cluster_config, "spec.rayClusterConfig"
    problems = []
    if cluster.auth_options is not None and cluster.auth_options.enable_k8s_token_auth:
        message = f"{_INVALID}K8s token auth mode is currently not supported for RayService"
        problems.append(Problem(f"{where}.authOptions.enableK8sTokenAuth", message, INVALID_SPEC))
    problems += _prefixed(spec_problems(cluster, annotations, gates, where, INVALID_SPEC))
    problems += _told(_head_service_problems(spec))
    problems += _told(_type_problems(spec, offered_type))
    problems += _told(_delay_problems(spec))
    problems += _prefixed(strategy_problems)
    problems += _told(_rolling_problems(spec))
    problems += _told(_inner_strategy_problems(spec))
    problems += _prefixed(ownership_problems(cluster, "RayService", where, INVALID_SPEC))
    problems += _told(_serve_service_problems(name, spec))
    return problems


def _prefixed(found: Iterable[Problem]) -> list[Problem]:
    return [Problem(each.path, f"{_INVALID}{each.message}", each.reason or INVALID_SPEC) for each in found]


def _told(found: Iterator[Found]) -> list[Problem]:
    return [Problem(f"spec.{where}", f"{_INVALID}{message}", INVALID_SPEC) for where, message in found]


def _annotation_problems(annotations: Mapping[str, str]) -> Iterator[Problem]:
    text = annotations.get(ANNOTATION_INITIALIZING_TIMEOUT, "")
    if not text:
        return
    try:
        read_initializing_timeout(text)
    except ValueError as error:
        message = f"{_METADATA}RayService annotations is invalid: {ANNOTATION_INITIALIZING_TIMEOUT} {error}"
        yield Problem(f"metadata.annotations[{ANNOTATION_INITIALIZING_TIMEOUT}]", message, INVALID_METADATA)


def _head_service_problems(spec: RayServiceSpec) -> Iterator[Found]:
    service = spec.ray_cluster_config.head_group_spec.head_service
    if service is not None and (service.get("metadata") or {}).get("name"):
        where = "rayClusterConfig.headGroupSpec.headService.metadata.name"
        yield where, f"spec.{where} should not be set"


def _type_problems(spec: RayServiceSpec, offered: str) -> Iterator[Found]:
    wanted = spec.upgrade_type
    if wanted is None or wanted in tuple(UpgradeType) or (offered and wanted == offered):
        return
    yield (
        "upgradeStrategy.type",
        # KubeRay's words; the operator's own types are on the page about differences.
        f"Spec.UpgradeStrategy.Type value {wanted} is invalid, valid options are NewClusterWithIncrementalUpgrade,"
        " NewCluster, or None",
    )


def _delay_problems(spec: RayServiceSpec) -> Iterator[Found]:
    seconds = spec.ray_cluster_deletion_delay_seconds
    if seconds is not None and seconds < 0:
        yield (
            "rayClusterDeletionDelaySeconds",
            f"Spec.RayClusterDeletionDelaySeconds should be a non-negative integer, got {seconds}",
        )


def _rolling_problems(spec: RayServiceSpec) -> Iterator[Found]:
    strategy = spec.upgrade_strategy
    if strategy is None or strategy.type != UpgradeType.ROLLING:
        return
    steps = UpgradeStrategy(max_unavailable=strategy.max_unavailable, max_surge=strategy.max_surge)
    for name, what in rolling_problems(steps):
        yield f"upgradeStrategy.{name}", f"upgradeStrategy.{what}"
    if spec.ray_cluster_config.group(HEAD_GROUP) is not None:
        # Pods say by this name which group they were made from.
        yield (
            "upgradeStrategy.type",
            f"Rolling cannot be used with a worker group named {HEAD_GROUP}: the head is called so",
        )


def _inner_strategy_problems(spec: RayServiceSpec) -> Iterator[Found]:
    inner = spec.ray_cluster_config.upgrade_strategy
    if inner is not None and inner.type is not None:
        yield (
            "rayClusterConfig.upgradeStrategy.type",
            "upgradeStrategy cannot be set when RayCluster is created by RayService: the strategy is set in"
            " spec.upgradeStrategy",
        )


def _serve_service_problems(name: str, spec: RayServiceSpec) -> Iterator[Found]:
    wanted, where = spec.serve_service_name, "serveService.metadata.name"
    if not wanted:
        return
    errors = dns1035_errors(wanted)
    if errors:
        yield where, f"spec.{where} should be a valid DNS1035 label: [{' '.join(errors)}]"
    elif wanted == head_service_name(name):
        yield where, f"spec.{where} should not be {wanted}, which is the name of the head service"
