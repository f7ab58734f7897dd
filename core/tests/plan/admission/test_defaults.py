"""Defaults only make explicit what counts in any case: nothing that runs or would be made is another, and twice is once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.hooks.calls import NoHooks
from kuberay.operator.offline import render
from kuberay.operator.start import PLANS
from kuberay.plan.admission.defaults import defaults
from kuberay.plan.build.group_hash import group_hashes
from kuberay.plan.build.spec_hash import spec_hash
from kuberay.plan.config import PlanConfig
from kuberay_testkit.builders import build_raycluster, build_raycronjob, build_rayjob, build_rayservice

KINDS = {kind.kind: kind for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)}
GATES = {**DEFAULT_GATES, CRON_JOB: True}
SAMPLES = Path(__file__).parents[4] / "config" / "samples"


def samples() -> list[Any]:
    found = []
    for path in sorted(SAMPLES.glob("ray*.yaml")):
        for number, body in enumerate(yaml.safe_load_all(path.read_text())):
            if body and body["kind"] in KINDS:
                found.append(pytest.param(body, id=f"{path.stem}-{number}"))
    return found


def with_defaults(body: dict[str, Any], config: PlanConfig | None = None) -> dict[str, Any]:
    """The object after the patch, made as an API server would."""
    made = copy.deepcopy(body)
    for operation in defaults(KINDS[body["kind"]], body["spec"], config or PlanConfig()):
        assert operation["op"] == "add"
        *parts, last = operation["path"].lstrip("/").split("/")
        place: Any = made
        for part in parts:
            place = place[int(part)] if isinstance(place, list) else place[part]
        place[last] = operation["value"]
    return made


def made_of(body: dict[str, Any], kind: Kind) -> Any:
    """Everything that comes of it, but for what its own spec says."""
    rendered = render(body, plans=PLANS, hooks=NoHooks(), gates=GATES, config=PlanConfig())
    return rendered.children, rendered.events, rendered.problems


@pytest.mark.parametrize("body", samples())
def test_nothing_else_comes_of_an_object_with_defaults(body: dict[str, Any]) -> None:
    full = with_defaults(body)
    assert with_defaults(full) == full, "once more changes nothing"
    assert made_of(full, KINDS[body["kind"]]) == made_of(body, KINDS[body["kind"]])
    if body["kind"] == "RayCluster":
        before, after = body["spec"], full["spec"]
        assert spec_hash(before) == spec_hash(after)
        assert group_hashes(before, RayClusterSpec.parse(before)) == group_hashes(after, RayClusterSpec.parse(after))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            build_raycluster("c", suspend=True),
            {},
        ),
        (build_raycluster("c"), {"suspend": False}),
        (build_rayjob("j"), {"suspend": False, "shutdownAfterJobFinishes": False}),
        (build_rayjob("j", submitterConfig={}), {"submitterConfig": {"backoffLimit": 2}}),
        (build_rayservice("s"), {"upgradeStrategy": {"type": "NewCluster"}, "rayClusterDeletionDelaySeconds": 60}),
        (build_rayservice("s", upgradeStrategy={}), {"upgradeStrategy": {"type": "NewCluster"}}),
        (build_rayservice("s", upgradeStrategy={"type": "None"}), {"upgradeStrategy": {"type": "None"}}),
        (build_raycronjob("c"), {"concurrencyPolicy": "Allow", "suspend": False}),
        (build_raycronjob("c", concurrencyPolicy="Forbid"), {"concurrencyPolicy": "Forbid"}),
    ],
)
def test_what_is_said(body: dict[str, Any], said: dict[str, Any]) -> None:
    spec = with_defaults(body)["spec"]
    assert spec.items() >= said.items()
    assert spec.items() >= {key: value for key, value in body["spec"].items() if key not in said}.items()


def test_the_strategy_is_the_operators() -> None:
    spec = with_defaults(build_rayservice("s"), PlanConfig(enable_zero_downtime=False))["spec"]
    assert spec["upgradeStrategy"] == {"type": "None"}


def test_start_parameters_of_each_group() -> None:
    body = build_raycluster("c")
    for group in (body["spec"]["headGroupSpec"], *body["spec"]["workerGroupSpecs"]):
        group.pop("rayStartParams", None)
    spec = with_defaults(body)["spec"]
    assert spec["headGroupSpec"]["rayStartParams"] == {}
    assert [group["rayStartParams"] for group in spec["workerGroupSpecs"]] == [{}]


def test_no_default_keeps_a_mode_from_being_chosen_later() -> None:
    """SidecarMode refuses a submitterConfig."""
    assert "submitterConfig" not in with_defaults(build_rayjob("j"))["spec"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.kind)
@pytest.mark.parametrize(
    "spec", [{}, {"headGroupSpec": 3, "workerGroupSpecs": "x", "upgradeStrategy": [], "submitterConfig": 1}]
)
def test_a_spec_of_the_wrong_shape_is_left_to_validation(kind: Kind, spec: dict[str, Any]) -> None:
    for operation in defaults(kind, spec, PlanConfig()):
        assert operation["path"].count("/") == 2
