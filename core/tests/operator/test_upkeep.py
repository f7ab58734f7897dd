"""A whole operator process, on an API server in memory, that is looked after while it runs: its file, its levels, its profiles."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER
from kuberay_testkit.apiserver import ApiServer, kubeconfig
from kuberay_testkit.builders import build_raycluster
from ports import free_port

TOKEN = "a-token-that-nobody-may-read"
HEAD = "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\nleaderElectionNamespace: default\n"


class Operator:
    """The process, and what may be asked of it."""

    def __init__(self, folder: Path, api: ApiServer) -> None:
        self.api = api
        self.log = folder / "log"
        self.config = folder / "config.yaml"
        self.metrics, self.probes, self.profiling = free_port(), free_port(), free_port()
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(kubeconfig(api.url, client=TOKEN))
        self.process: asyncio.subprocess.Process | None = None

    def configure(self, text: str = "") -> None:
        addresses = f"metricsAddr: 127.0.0.1:{self.metrics}\nprobeAddr: 127.0.0.1:{self.probes}\n"
        self.config.write_text(HEAD + addresses + text)

    async def start(self, *flags: str) -> None:
        told = flags or (f"--config={self.config}",)
        command = ("-m", "kuberay.cli.main", "run", f"--kubeconfig={self._kubeconfig}", *told)
        with self.log.open("wb") as out:
            self.process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=out, stderr=out)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def get(self, port: int, path: str) -> tuple[int, str]:
        with suppress(aiohttp.ClientConnectorError):
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
                return answer.status, await answer.text()
        return 0, ""

    async def page(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((await self.get(self.probes, "/configz"))[1])
        return found

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def says(self, words: str) -> bool:
        return any(words in line["msg"] for line in self.lines())

    def events(self) -> list[tuple[str, str, str]]:
        found = self.api.server.objects(EVENT, "default")
        return [
            (each["reason"], each["type"], each["note"])
            for each in found
            if each["regarding"]["kind"] == "Lease" and each["reportingController"] == "kuberay-operator"
        ]

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        for _ in range(1200):
            result = holds()
            if asyncio.iscoroutine(result):
                result = await result
            if result:
                return
            assert self.process is not None
            assert self.process.returncode is None, self.log.read_text()
            await asyncio.sleep(0.05)
        pytest.fail(f"never {what}\n{self.log.read_text()[-3000:]}")


@pytest.fixture
async def operator(tmp_path: Path) -> AsyncIterator[Operator]:
    api = ApiServer()
    async with api.running():
        found = Operator(tmp_path, api)
        yield found
        if found.process is not None and found.process.returncode is None:
            found.process.kill()
            await found.process.wait()


async def test_a_day_in_its_life(operator: Operator) -> None:
    operator.configure()
    await operator.start()

    async def ready() -> bool:
        return (await operator.get(operator.probes, "/readyz"))[0] == 200

    await operator.until(ready, "ready")
    operator.api.server.create(build_raycluster("rc", namespace="default"))

    def cluster_is_ready() -> bool:
        body = operator.api.server.peek(RAYCLUSTER, "default", "rc") or {}
        return (body.get("status") or {}).get("state") == "ready"

    await operator.until(cluster_is_ready, "a RayCluster")

    # What it says of its health.
    assert await operator.get(operator.probes, "/readyz?verbose") == (
        200,
        "[+]ping ok\n[+]first-lists ok\nreadyz check passed\n",
    )
    assert (await operator.get(operator.probes, "/livez/event-loop"))[1] == "ok"
    page = await operator.page()
    assert page["inForce"]["leaderElectionNamespace"] == "default"
    assert page["lastReload"] | {"lastSuccess": ""} == {"successful": True, "error": "", "lastSuccess": ""}

    # Its file changes: what may be taken is taken, the rest told; pods stay as they are.
    pods = {pod["metadata"]["uid"] for pod in operator.api.server.objects(POD, "default")}
    operator.configure(
        f"drainTimeoutSeconds: 7\nqps: 500\nprofilingAddr: 127.0.0.1:{operator.profiling}\nwatchNamespace: default\n"
        "logLevels: {kuberay.kube: debug}\ndefaultPodLabels: {example.com/newer: yes}\n"
        "plugins: {autoscaler-v2: {least_privilege: true}}\n".replace("yes", "'yes'")
    )
    operator.send(signal.SIGHUP)
    await operator.until(lambda: operator.says("watchNamespace changed: restart the operator"), "read again")
    page = await operator.page()
    assert page["inForce"]["drainTimeoutSeconds"] == 7
    assert page["needsRestart"] == [
        "watchNamespace changed: restart the operator (other objects would have to be listed and others forgotten)",
        "plugins.autoscaler-v2.least_privilege changed: restart the operator",
    ]
    metrics = (await operator.get(operator.metrics, "/metrics"))[1]
    assert "kuberay_config_last_reload_successful 1.0\n" in metrics
    assert "kuberay_config_restart_needed 2.0\n" in metrics
    await operator.until(lambda: len(operator.events()) == 3, "events about the Lease, for there is no pod")
    assert {(reason, type_) for reason, type_, _ in operator.events()} == {
        ("ConfigurationReloaded", "Normal"),
        ("RestartNeeded", "Warning"),
    }
    assert {pod["metadata"]["uid"] for pod in operator.api.server.objects(POD, "default")} == pods

    # Profiles, from inside the pod only.
    status, text = await operator.get(operator.profiling, "/debug/profile?seconds=0.2")
    assert (status, text.startswith("MainThread;")) == (200, True)
    summary = json.loads((await operator.get(operator.profiling, "/debug/summary"))[1])
    assert (summary["leading"], summary["store"]["rayclusters.ray.io"], summary["queue"]["failing"]) == (True, 1, 0)
    assert "worker 0" in (await operator.get(operator.profiling, "/debug/tasks"))[1]

    # A file that is wrong changes nothing.
    for text, words in {
        "qps: many\n": "the settings stay as they are: configuration file",
        "defaultContainerEnvs: ['TOKEN=hush']\n": "defaultContainerEnvs.0: Input should be a valid dictionary.",
        "plugins: {someone: {password: hush}}\n": "plugins.someone: no enabled plugin of that name has settings",
        "plugins: {autoscaler-v2: {password: hush}}\n": "plugins.autoscaler-v2.password: ",
        "featureGates: {NoSuchGate: true}\n": "NoSuchGate",
    }.items():
        operator.configure(text)
        operator.send(signal.SIGHUP)
        await operator.until(partial(operator.says, words), words)
    assert "kuberay_config_last_reload_successful 0.0\n" in (await operator.get(operator.metrics, "/metrics"))[1]
    assert (await operator.page())["inForce"]["qps"] == 500

    # More is logged, and less again.
    operator.send(signal.SIGUSR1)
    await operator.until(lambda: operator.says("logging from level debug on"), "debug")
    operator.api.server.create(build_raycluster("more", namespace="default"))
    await operator.until(lambda: len(operator.api.server.objects(POD, "default")) == 4, "pods")
    operator.send(signal.SIGUSR1)
    await operator.until(lambda: operator.says("logging from level info on"), "info")

    assert operator.process is not None
    operator.send(signal.SIGTERM)
    async with asyncio.timeout(15):
        assert await operator.process.wait() == 0
    lines = operator.lines()
    assert all({"level", "ts", "logger", "msg"} <= line.keys() for line in lines)
    assert {"setup", "kuberay.operator"} <= {line["logger"] for line in lines}
    text = operator.log.read_text()
    assert TOKEN not in text
    assert "hush" not in text


async def test_an_address_that_is_taken_is_told_at_start(operator: Operator) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", operator.profiling))
        taken.listen()
        operator.configure(f"profilingAddr: 127.0.0.1:{operator.profiling}\n")
        await operator.start()
        assert operator.process is not None
        async with asyncio.timeout(60):
            assert await operator.process.wait() == 1
    assert f"kuberay: Cannot listen on 127.0.0.1:{operator.profiling}: " in operator.log.read_text().splitlines()[-1]


async def test_without_a_file_there_is_nothing_to_be_read_again(operator: Operator) -> None:
    await operator.start(
        "--metrics-addr=0", "--enable-leader-election=false", f"--health-probe-bind-address=127.0.0.1:{operator.probes}"
    )
    await operator.until(lambda: operator.says("serving"), "serving")
    operator.send(signal.SIGHUP)
    await operator.until(lambda: operator.says("there is no configuration file to be read again"), "told")
    page = await operator.page()
    assert (page["file"], page["lastReload"]["successful"], page["needsRestart"]) == ("", True, [])
    assert page["inForce"]["metricsAddr"] == "0"
