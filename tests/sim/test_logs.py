"""What a running operator logs: each pass under one id with its object's name, and never what is in a Secret."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from kuberay.api.kinds import SECRET
from kuberay.operator.logs import JsonFormatter
from kuberay_testkit.builders import build_cluster_spec, build_group, build_raycluster, build_rayjob
from kuberay_testkit.drain import FakeDrain
from kuberay_testkit.lab import Lab, Setup, play
from kuberay_testkit.sim.faults import Faults


class Lines(logging.Handler):
    """All that is logged, as lines and, for what a filter of the formatter would hide, as it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []
        self.raw: list[str] = []
        self._json = JsonFormatter()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self._json.format(record)))
        self.raw.append(record.getMessage() + (self._json.formatException(record.exc_info) if record.exc_info else ""))


@pytest.fixture
def log() -> Iterator[Lines]:
    root = logging.getLogger()
    handler, level = Lines(), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def troubles() -> Faults:
    return (
        Faults()
        .add("error_before", verb="create", chance=0.5)
        .add("error_after", verb="patch", chance=0.3)
        .add("timeout_after", verb="create", chance=0.1)
    )


def test_lines_of_a_pass_have_its_id_and_its_object(log: Lines) -> None:
    async def story(lab: Lab) -> None:
        for number in range(6):
            lab.create(build_raycluster(f"rc{number}", groups=2))
        lab.create(build_raycluster("rc", groups=2))
        lab.create(build_rayjob("job"))
        await lab.world.pass_time(60)
        lab.server.faults.stop()
        await lab.until_ready("rc")
        await lab.until_job("job")

    play(story, Setup(faults=troubles()))
    of_passes = [line for line in log.lines if "reconcileID" in line]
    assert len(of_passes) > 10
    by_id: dict[str, set[str]] = {}
    for line in of_passes:
        kind = line["logger"].removeprefix("controllers.")
        assert line[kind].keys() == {"name", "namespace"}
        assert line["component"].startswith("kuberay.")
        by_id.setdefault(line["reconcileID"], set()).add(f"{kind} {line[kind]['name']}")
    assert {len(objects) for objects in by_id.values()} == {1}
    assert {"RayCluster rc", "RayJob job"} <= set().union(*by_id.values())
    # The write that failed and the retry that follows from it are lines of one pass.
    components: dict[str, set[str]] = {}
    for line in of_passes:
        components.setdefault(line["reconcileID"], set()).add(line["component"])
    assert {"kuberay.operator.executor", "kuberay.operator.controller"} in components.values()


def test_probes_are_lines_of_their_object_and_of_no_pass(log: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_arguments: Any) -> Any:
        raise RuntimeError("an answer nobody thought of")

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("rc", groups=[build_group("g", 2)]))
        await lab.until_ready("rc")
        lab.edit_group("rc", "g", replicas=1)
        await lab.until(lambda: len(lab.pods("rc", group="g")) == 1, "one pod less")

    monkeypatch.setattr(FakeDrain, "drain", broken)
    play(story, Setup())
    of_probes = [line for line in log.lines if line.get("component") == "kuberay.operator.prober"]
    assert any("an answer nobody thought of" in line.get("stacktrace", "") for line in of_probes)
    for line in of_probes:
        assert (line["logger"], line["RayCluster"]["name"]) == ("controllers.RayCluster", "rc")
        assert "reconcileID" not in line


def test_no_secret_is_logged_whatever_goes_wrong(log: Lines) -> None:
    """Not even where the formatter would hide it."""
    secrets: set[str] = set()

    async def story(lab: Lab) -> None:
        auth: dict[str, Any] = {"authOptions": {"mode": "token"}, "rayVersion": "2.52.0"}
        lab.create(build_raycluster("rc", **auth))
        lab.create(build_rayjob("job", rayClusterSpec=build_cluster_spec(1, **auth), submissionMode="HTTPMode"))
        await lab.world.pass_time(120)
        lab.server.faults.stop()
        await lab.until_ready("rc")
        for secret in lab.all(SECRET):
            for value in (secret.get("data") or {}).values():
                secrets.update((value, base64.b64decode(value).decode()))

    play(story, Setup(faults=troubles()))
    assert len(secrets) >= 4, "the tokens of two RayClusters"
    text = "\n".join([*log.raw, *map(json.dumps, log.lines)])
    assert "failed" in text
    assert {secret for secret in secrets if secret in text} == set()
