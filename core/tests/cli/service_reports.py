"""What ``kuberay why`` says about a RayService: for the tests of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kuberay.cli.main import app
from typer.testing import CliRunner

from core.tests.plan.service.worlds import START, World

Manifest = dict[str, Any]
Told = Callable[[World], Manifest]


def why(*words: str) -> str:
    result = CliRunner().invoke(app, ["why", "rayservice/s", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def whats(report: Manifest) -> list[str]:
    return [finding["what"] for finding in report["findings"]]


def ahead(report: Manifest) -> list[tuple[int, str]]:
    """Seconds from the start of the world on."""
    return [
        (int((datetime.fromisoformat(each["at"]) - START).total_seconds()), each["what"]) for each in report["ahead"]
    ]


def chain(report: Manifest) -> dict[str, str]:
    return {step["what"]: step["state"] for step in report["chain"]}
