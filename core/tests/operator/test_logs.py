"""Log lines: one JSON object each with KubeRay's keys, the object and the reconcile, or tab-separated for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kuberay.operator.log_levels import LOG_LEVELS, QUIET
from kuberay.operator.log_sampling import Sampling
from kuberay.operator.logs import log_context, object_context, set_up_logging


@pytest.fixture(autouse=True)
def _keep_logging() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in before:
            handler.close()
    root.handlers[:] = before
    LOG_LEVELS.use("info", {})
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.NOTSET)
    root.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_is_a_json_object_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level="info", encoder="json")
    with log_context(**object_context("RayCluster", "ns", "rc"), reconcileID="1"), log_context(more="x"):
        logging.getLogger("kuberay.x").warning("look at %s", "this", extra={"plugin": "volcano"})
    logging.getLogger("kuberay.x").debug("not at this level")
    (line,) = lines(capsys)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "controllers.RayCluster",
        "component": "kuberay.x",
        "msg": "look at this",
        "RayCluster": {"name": "rc", "namespace": "ns"},
        "reconcileID": "1",
        "more": "x",
        "plugin": "volcano",
    }


def test_the_context_ends_with_its_block(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level="info", encoder="json")
    with log_context(one="a", two="b"), log_context(two=None):
        logging.getLogger("x").error("inside")
    logging.getLogger("x").error("after")
    inside, after = lines(capsys)
    assert (inside["one"], inside["logger"]) == ("a", "x")
    assert not {"two", "component"} & inside.keys()
    assert not {"one", "two"} & after.keys()


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
    with log_context(key="a"):
        logging.getLogger("x").debug("hello")
    stamp, *rest = capsys.readouterr().err.rstrip("\n").split("\t")
    assert stamp.endswith("Z")
    assert rest == ["DEBUG", "x", "hello", '{"key":"a"}']


def test_a_file_gets_the_same_in_its_own_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "operator.log"
    set_up_logging(level="info", encoder="console", log_file=str(path), file_encoder="json")
    logging.getLogger("x").info("hello")
    assert json.loads(path.read_text())["msg"] == "hello"
    assert "\thello" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        set_up_logging(level="info", encoder="json", log_file=str(tmp_path / "none" / "x.log"))


def test_the_file_has_no_debug_messages_whatever_standard_error_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "operator.log"
    set_up_logging(level="debug", encoder="json", log_file=str(path))
    logging.getLogger("x").debug("detail")
    logging.getLogger("x").info("news")
    assert [json.loads(line)["msg"] for line in path.read_text().splitlines()] == ["news"]
    assert [line["msg"] for line in lines(capsys)] == ["detail", "news"]


def test_a_flood_of_one_message_is_thinned_out_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sampling.__init__, "__defaults__", (lambda: 5.0,))
    path = tmp_path / "operator.log"
    set_up_logging(level="info", encoder="json", log_file=str(path))
    for number in range(1000):
        logging.getLogger("x").warning("no answer of %s", number)
    logging.getLogger("x").warning("something else")
    told = lines(capsys)
    assert told == [json.loads(line) for line in path.read_text().splitlines()]
    assert len(told) == 100 + 9 + 1
    assert [line.get("leftOut") for line in told[99:102]] == [None, 99, 99]
    assert "leftOut" not in told[-1]


SECRETS = (
    "s3cret-token-of-nobody",
    "eyJhbGciOiJSUzI1NiIsImtpZCI6Ing.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ.c2lnbmF0dXJl",
)


@pytest.mark.parametrize("encoder", ["json", "console"])
@pytest.mark.parametrize("secret", SECRETS)
def test_tokens_do_not_reach_the_log(secret: str, encoder: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level="debug", encoder=encoder)
    log = logging.getLogger("x")
    log.debug("sent Authorization: Bearer %s", secret)
    log.error("no answer of redis://default:%s@redis:6379", secret)
    try:
        raise RuntimeError(f"refused: authorization=bearer {secret}")
    except RuntimeError:
        log.exception("failed")
    text = capsys.readouterr().err
    assert secret not in text
    assert text.count("***") >= 3
