"""``kuberay render`` of RayServices: all that a healthy cluster would get, and what Serve is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from kuberay.cli.main import app
from kuberay_testkit.builders import build_group, build_rayservice
from typer.testing import CliRunner

Manifest = dict[str, Any]

OPTIONS = {"gatewayClassName": "c", "stepSizePercent": 50, "intervalSeconds": 1}
INCREMENTAL: Manifest = {
    "upgradeStrategy": {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": OPTIONS},
    "cluster": {"enableInTreeAutoscaling": True},
}


@pytest.fixture
def render(tmp_path: Path) -> Any:
    def _render(body: Manifest, *more: str) -> tuple[list[str], Result]:
        """Kinds and names (random parts as ``x``) in the order of creation, and the whole answer."""
        (tmp_path / "f").write_text(yaml.safe_dump(body))
        result = CliRunner().invoke(app, ["render", "-f", str(tmp_path / "f"), *more])
        children = [each for each in yaml.safe_load_all(result.stdout) if each]
        return [f"{each['kind']} {each['metadata']['name']}" for each in children], result

    return _render


def named(found: list[str]) -> list[str]:
    """Names with the RayCluster's as C and without the random part of pods."""
    cluster = next(each.split()[1] for each in found if each.startswith("RayCluster "))
    short = [each.replace(cluster, "C") for each in found]
    return [each.rsplit("-", 1)[0] if each.startswith("Pod ") else each for each in short]


@pytest.mark.parametrize("strategy", ["", "NewCluster", "None", "Rolling", "Recreate"])
def test_what_is_made(render: Any, strategy: str) -> None:
    spec = {"upgradeStrategy": {"type": strategy}} if strategy else {}
    found, result = render(build_rayservice("s", groups=[build_group("g", 2)], **spec))
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(named(found)) == [
        "Pod C-g-worker",
        "Pod C-g-worker",
        "Pod C-head",
        "RayCluster C",
        "Service C-head-svc",
        "Service s-head-svc",
        "Service s-serve-svc",
    ]
    cluster = next(each for each in yaml.safe_load_all(result.stdout) if each and each["kind"] == "RayCluster")
    own = {"type": strategy} if strategy in ("Rolling", "Recreate") else None
    assert cluster["spec"].get("upgradeStrategy") == own


def test_what_serve_is_given_is_a_comment(render: Any) -> None:
    _, result = render(build_rayservice("s"))
    (note,) = [line for line in result.stdout.splitlines() if line.startswith("#")]
    assert note.startswith("# then: PUT http://s-")
    assert note.endswith(
        '8265/api/serve/applications/ {"applications":[{"name":"app","import_path":"app:v1","route_prefix":"/"}]}'
    )


def test_gateways_with_the_plugin(render: Any) -> None:
    """GW-03: gateway, route and the services that it leads to."""
    gate = "--feature-gates=RayServiceIncrementalUpgrade=true"
    found, result = render(build_rayservice("s", **INCREMENTAL), gate, "--plugins=gateway-upgrade,autoscaler-v2")
    assert (result.exit_code, result.stderr) == (0, "")
    beside = [each for each in named(found) if each.split()[0] in ("Gateway", "HTTPRoute", "Service")]
    assert beside == [
        "Gateway s-gateway",
        "Service C-head-svc",
        "Service C-serve-svc",
        "Service s-head-svc",
        "HTTPRoute s-httproute",
    ]


def test_a_plugin_that_is_missing_is_a_problem(render: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuberay.plugins.loader._entry_points", list)
    found, result = render(build_rayservice("s", **INCREMENTAL), "--feature-gates=RayServiceIncrementalUpgrade=true")
    assert (result.exit_code, found) == (1, [])
    assert "pip install kuberay-gateway-upgrade" in result.stderr
    assert "#" not in result.stdout, "it is told once"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"upgradeStrategy": {"type": "Bogus"}}, "spec.upgradeStrategy.type: The RayService spec is invalid"),
        ({"serveConfigV2": "applications: 5"}, "spec.serveConfigV2: The RayService spec is invalid"),
        ({"rayClusterConfig": {}}, "spec.rayClusterConfig.headGroupSpec: is required"),
    ],
)
def test_refused(render: Any, spec: Manifest, words: str) -> None:
    """What the API server or the operator would refuse, with its field; nothing is printed."""
    found, result = render(build_rayservice("s", **spec) if "rayClusterConfig" not in spec else _empty(spec))
    assert (result.exit_code, found) == (1, [])
    assert f"kuberay: RayService default/s: {words}" in result.stderr


def _empty(spec: Manifest) -> Manifest:
    body = build_rayservice("s")
    body["spec"] |= spec
    return body


def test_suspended(render: Any) -> None:
    found, result = render(build_rayservice("s", suspend=True))
    assert (result.exit_code, found) == (0, [])
    assert result.stdout == "# then: RayService s: the RayService is suspended\n"
