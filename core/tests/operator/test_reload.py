"""A configuration file that changes while the operator runs: taken, told or refused; and never anything of it by halves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from kuberay.kube.clock import SystemClock
from kuberay.operator.metrics import Metrics
from kuberay.operator.reload import ConfigFile, Reloader, ReloadState
from kuberay.operator.reload_metrics import ReloadMetrics
from kuberay.operator.settings import Settings, SettingsError, load_settings

HEAD = "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\n"


class Mount:
    """A ConfigMap as the kubelet mounts it: the folder of the file is a symlink that is swapped."""

    def __init__(self, root: Path) -> None:
        self._root, self._number = root, 0
        self.file = root / "config.yaml"

    def write(self, text: str) -> None:
        self._number += 1
        folder = self._root / f"..{self._number}"
        folder.mkdir()
        (folder / "config.yaml").write_text(text)
        link = self._root / "..data.new"
        link.symlink_to(folder.name)
        link.rename(self._root / "..data")
        if not self.file.is_symlink():
            self.file.symlink_to("..data/config.yaml")


class Operator:
    """What a reload does to it."""

    def __init__(self, path: Path, flags: dict[str, Any], *, every: float) -> None:
        self.taken: list[Settings] = []
        self.told: list[tuple[bool, str, str]] = []
        self.refuses = ""
        settings = load_settings(str(path), flags)
        self.state = ReloadState(settings)
        self.reloader = Reloader(
            ConfigFile(str(path), flags),
            self.state,
            clock=SystemClock(),
            of_plugins={},
            apply=self._apply,
            tell=lambda *news: self.told.append(news),
            every=every,
            first=path.read_bytes(),
        )

    async def _apply(self, settings: Settings) -> None:
        if self.refuses:
            raise SettingsError(self.refuses)
        self.taken.append(settings)


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    found = Mount(tmp_path)
    found.write(HEAD + "qps: 1\n")
    return found


@pytest.fixture
def start(mount: Mount) -> Callable[..., Operator]:
    def _start(every: float = 10.0, **flags: Any) -> Operator:
        return Operator(mount.file, flags, every=every)

    return _start


Start = Callable[..., Operator]


async def test_a_file_that_is_the_same_is_not_taken(mount: Mount, start: Start) -> None:
    operator = start()
    await operator.reloader.look()
    mount.write(HEAD + "qps: 1\n")
    await operator.reloader.look()
    mount.write(HEAD + "qps: 1.0 # the same in other words\n")
    await operator.reloader.look()
    assert (operator.taken, operator.told) == ([], [])


async def test_what_may_change_is_taken_and_the_rest_told_once(mount: Mount, start: Start, caplog: Any) -> None:
    operator = start()
    mount.write(HEAD + "qps: 2\nwatchNamespace: a\n")
    with caplog.at_level(logging.INFO):
        await operator.reloader.look()
        await operator.reloader.look()
    (taken,) = operator.taken
    assert (taken.qps, taken.watch_namespace) == (2, "")
    assert operator.state.in_force == taken
    sentences = [
        f"taken from {mount.file}: qps",
        "watchNamespace changed: restart the operator (other objects would have to be listed and others forgotten)",
    ]
    assert [record.getMessage() for record in caplog.records] == sentences
    assert operator.told == [
        (False, "ConfigurationReloaded", sentences[0]),
        (True, "RestartNeeded", sentences[1]),
    ]
    assert operator.state.page()["needsRestart"] == [sentences[1]]
    mount.write(HEAD + "qps: 3\nwatchNamespace: a\n")
    await operator.reloader.look()
    assert [news[1] for news in operator.told[2:]] == ["ConfigurationReloaded"]
    mount.write(HEAD + "qps: 3\n")
    await operator.reloader.look()
    assert operator.state.needs_restart == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEAD + "qps: many\n", "qps: Input should be a valid number"),
        ("a: [", "is not YAML (line 1)"),
        ("", "must hold a mapping with apiVersion and kind"),
    ],
)
async def test_a_file_that_is_wrong_changes_nothing_and_is_told_once(
    mount: Mount, start: Start, text: str, sentence: str, caplog: Any
) -> None:
    operator = start()
    mount.write(text)
    for _ in range(3):
        await operator.reloader.look()
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith("the settings stay as they are: ")
    assert sentence in record.getMessage()
    ((warning, reason, note),) = operator.told
    assert (warning, reason) == (True, "ConfigurationRefused")
    assert sentence in note
    assert sentence in operator.state.page()["lastReload"]["error"]
    assert operator.taken == []
    mount.write(HEAD + "qps: 1\n")
    await operator.reloader.look()
    assert operator.state.error == ""


async def test_a_file_that_is_gone_for_a_while(mount: Mount, start: Start) -> None:
    operator = start()
    mount.file.unlink()
    await operator.reloader.look()
    assert operator.state.error == f"Cannot read the configuration file {mount.file}: No such file or directory."
    mount.file.symlink_to("..data/config.yaml")
    await operator.reloader.look()
    assert (operator.state.error, operator.taken) == ("", [])


async def test_settings_that_a_plugin_refuses_are_not_in_force(mount: Mount, start: Start) -> None:
    operator = start()
    operator.refuses = "plugins.x.y: no."
    mount.write(HEAD + "qps: 2\n")
    await operator.reloader.look()
    assert (operator.state.in_force.qps, operator.state.error) == (1, "plugins.x.y: no.")


async def test_flags_that_count_beside_the_file_go_on_counting(mount: Mount, start: Start) -> None:
    operator = start(log_level="warning")
    mount.write(HEAD + "qps: 1\nlogLevel: debug\n")
    await operator.reloader.look()
    assert (operator.taken, operator.state.in_force.log_level) == ([], "warning")


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("signal", [True, False])
async def test_it_is_read_now_and_then_and_on_a_signal(mount: Mount, start: Start, signal: bool) -> None:
    operator = start(every=3600 if signal else 0.01)
    task = asyncio.create_task(operator.reloader.run())
    try:
        await asyncio.sleep(0)
        mount.write(HEAD + "qps: 2\n")
        if signal:
            await until(lambda: operator.reloader._read is not None)
            operator.reloader.soon()
        await until(lambda: bool(operator.taken))
    finally:
        task.cancel()


async def test_a_fault_of_ours_does_not_end_the_reading(mount: Mount, start: Start, caplog: Any) -> None:
    operator = start(every=0.01)
    original: Callable[[Settings], Awaitable[None]] = operator.reloader._apply
    calls = []

    async def broken(settings: Settings) -> None:
        calls.append(settings)
        if len(calls) == 1:
            raise RuntimeError("a bug")
        await original(settings)

    operator.reloader._apply = broken
    task = asyncio.create_task(operator.reloader.run())
    try:
        mount.write(HEAD + "qps: 2\n")
        await until(lambda: bool(calls))
        mount.write(HEAD + "qps: 3\n")
        await until(lambda: bool(operator.taken))
    finally:
        task.cancel()
    assert "a bug" in caplog.text


async def test_metrics_say_how_it_went(mount: Mount, start: Start) -> None:
    operator = start()
    metrics = Metrics()
    metrics.registry.register(ReloadMetrics(operator.state))

    def values() -> list[float | None]:
        names = ("last_reload_successful", "restart_needed", "last_reload_success_timestamp_seconds")
        return [metrics.registry.get_sample_value(f"kuberay_config_{name}") for name in names]

    began = values()[2]
    assert values() == [1, 0, began]
    mount.write(HEAD + "qps: many\n")
    await operator.reloader.look()
    assert values() == [0, 0, began]
    mount.write(HEAD + "metricsAddr: ':1'\nprobeAddr: ':2'\n")
    await operator.reloader.look()
    successful, restart, at = values()
    assert (successful, restart) == (1, 2)
    assert at is not None
    assert began is not None
    assert at > began
