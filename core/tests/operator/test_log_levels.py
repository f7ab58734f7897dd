"""Which logger is heard from which level on, and that it changes while the operator runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from kuberay.operator.log_levels import QUIET, LogLevels


@pytest.fixture
def levels() -> Iterator[LogLevels]:
    root = logging.getLogger()
    before = root.level
    found = LogLevels()
    yield found
    found.use("info", {})
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.NOTSET)
    root.setLevel(before)


def heard(logger: str) -> str:
    return logging.getLevelName(logging.getLogger(logger).getEffectiveLevel()).lower()


def test_one_level_for_all_but_those_that_are_named(levels: LogLevels) -> None:
    levels.use("warning", {"kuberay.kube": "debug"})
    assert [heard(name) for name in ("x", "kuberay.kube", "kuberay.kube.informer", "kuberay.operator")] == [
        "warning",
        "debug",
        "debug",
        "warning",
    ]
    levels.use("info", {"kuberay.operator": "error"})
    assert [heard(name) for name in ("x", "kuberay.kube.informer", "kuberay.operator.app")] == ["info", "info", "error"]


def test_libraries_are_quiet_until_they_are_named(levels: LogLevels) -> None:
    levels.use("debug", {})
    assert [heard(name) for name in ("kopf.anything", "kopf._core.reactor.running", "aiohttp.access")] == [
        "warning",
        "error",
        "warning",
    ]
    levels.use("info", {"kopf": "debug"})
    assert heard("kopf.anything") == "debug"


def test_debug_is_turned_on_and_off_again(levels: LogLevels) -> None:
    levels.use("warning", {})
    assert levels.toggle_debug() == "debug"
    assert (heard("x"), heard("kopf")) == ("debug", "warning")
    assert levels.toggle_debug() == "warning"
    assert heard("x") == "warning"


def test_an_override_holds_until_the_settings_change(levels: LogLevels) -> None:
    levels.use("info", {})
    levels.override("kuberay.kube", "debug")
    assert heard("kuberay.kube.lease") == "debug"
    assert levels.in_force() | {"": "info", "kuberay.kube": "debug"} == levels.in_force()
    levels.use("info", {})
    assert heard("kuberay.kube.lease") == "info"
    levels.override("", "error")
    assert levels.in_force()[""] == "error"
    with pytest.raises(ValueError, match="'loud' is no level: use debug, info, warning or error"):
        levels.override("x", "loud")
