"""Log lines: one JSON object each with KubeRay's keys, the object and the reconcile, or tab-separated for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kuberay.operator.logs import log_context, set_up_logging


@pytest.fixture(autouse=True)
def _keep_logging() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in before:
            handler.close()
    root.handlers[:] = before
    root.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_is_a_json_object_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level="info", encoder="json")
    with log_context(object="RayCluster ns/rc", reconcileID="1"), log_context(more="x"):
        logging.getLogger("kuberay.x").warning("look at %s", "this", extra={"plugin": "volcano"})
    logging.getLogger("kuberay.x").debug("not at this level")
    (line,) = lines(capsys)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "kuberay.x",
        "msg": "look at this",
        "object": "RayCluster ns/rc",
        "reconcileID": "1",
        "more": "x",
        "plugin": "volcano",
    }


def test_the_context_ends_with_its_block(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level="info", encoder="json")
    with log_context(object="a"):
        pass
    logging.getLogger("x").error("after")
    assert "object" not in lines(capsys)[0]


def test_exceptions_bring_their_stack_in_the_same_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level="info", encoder="json")
    try:
        raise RuntimeError("a bug")
    except RuntimeError:
        logging.getLogger("x").exception("failed")
    (line,) = lines(capsys)
    assert "RuntimeError: a bug" in line["stacktrace"]


def test_the_console_form(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level="debug", encoder="console")
    with log_context(object="a"):
        logging.getLogger("x").debug("hello")
    stamp, *rest = capsys.readouterr().err.rstrip("\n").split("\t")
    assert stamp.endswith("Z")
    assert rest == ["DEBUG", "x", "hello", "object=a"]


def test_a_file_gets_the_same_in_its_own_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "operator.log"
    set_up_logging(level="info", encoder="console", log_file=str(path), file_encoder="json")
    logging.getLogger("x").info("hello")
    assert json.loads(path.read_text())["msg"] == "hello"
    assert "\thello" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        set_up_logging(level="info", encoder="json", log_file=str(tmp_path / "none" / "x.log"))
