"""What a whole operator process exports, against the table of metrics and what dashboards and rules ask for; and promtool's opinion."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import aiohttp
import exposition
import prometheus
import pytest
import yaml
from kuberay.operator.metric_table import DEFINITIONS
from kuberay_testkit.apiserver import ApiServer, kubeconfig
from kuberay_testkit.builders import build_raycluster
from ports import free_port

from dev.dashboards import promql
from dev.dashboards.files import DASHBOARDS

SECONDS = 60.0
FLAGS = (
    "--enable-leader-election=false",
    "--health-probe-bind-address=0",
    "--enable-metrics",
    "--feature-gates=RayCronJob=true",
)
ELSEWHERE = re.compile(r"kuberay_config_.*|controller_runtime_webhook_.*|rest_client_request_retries_total")
"""What has no series here: of a configuration file, of webhooks, of a server that throttles."""


async def _scrape(folder: Path) -> str:
    """``/metrics`` of ``kuberay run`` once a RayCluster is ready."""
    api, port = ApiServer(), free_port()
    file, log = folder / "kubeconfig", folder / "log"
    async with api.running():
        api.server.create(build_raycluster("small", namespace="default"))
        file.write_text(kubeconfig(api.url))
        argv = ["-m", "kuberay.cli.main", "run", f"--kubeconfig={file}", f"--metrics-addr=127.0.0.1:{port}", *FLAGS]
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=out, stderr=out)
        try:
            deadline, text = time.monotonic() + SECONDS, ""
            while 'state="ready"' not in text:
                assert process.returncode is None, log.read_text()
                assert time.monotonic() < deadline, f"{text}\n{log.read_text()}"
                await asyncio.sleep(0.2)
                with suppress(aiohttp.ClientError):
                    async with (
                        aiohttp.ClientSession() as session,
                        session.get(f"http://127.0.0.1:{port}/metrics") as page,
                    ):
                        text = await page.text()
            return text
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return asyncio.run(_scrape(tmp_path_factory.mktemp("operator")))


def test_it_has_what_the_table_says(page: str) -> None:
    table = {each.name: each for each in DEFINITIONS}
    for name, metric in exposition.parse(page).items():
        assert metric.type == table[name].type, name
        if metric.series:
            assert metric.labels == set(table[name].labels), name


def test_promtool_finds_nothing_wrong_with_it(page: str) -> None:
    argv = [str(prometheus.commands() / "promtool"), "check", "metrics"]
    done = subprocess.run(argv, input=page, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_what_dashboards_and_rules_ask_for_is_there(page: str) -> None:
    """Series of ours at least by name, and those of metrics without series before something happens by their table entry."""
    found = exposition.parse(page)
    asked = [
        dashboard.chosen(query.expr)
        for dashboard in DASHBOARDS
        for panel in dashboard.panels()
        for query in panel.queries
    ]
    for path in prometheus.RULES:
        asked += [rule["expr"] for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]
    ours = {each.name for each in DEFINITIONS}
    for use in (use for expr in asked for use in promql.uses(expr)):
        name = next(
            (use.name.removesuffix(s) for s in exposition.SUFFIXES if use.name.removesuffix(s) in ours), use.name
        )
        if name in ours and not ELSEWHERE.fullmatch(name):
            assert name in found, name
            if found[name].series:
                assert use.labels - promql.TARGET <= found[name].labels | {"le"}, name


def test_every_query_of_every_panel_is_promql(tmp_path: Path) -> None:
    """For promtool, with what Grafana puts in for its variables."""
    rules = [
        {
            "record": "panel:query:check",
            "expr": dashboard.chosen(query.expr),
            "labels": {"board": dashboard.uid, "panel": panel.title, "query": str(n)},
        }
        for dashboard in DASHBOARDS
        for panel in dashboard.panels()
        for n, query in enumerate(panel.queries)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in prometheus.promtool("check", "rules", file)


def test_prometheus_can_be_configured_from_the_monitors(tmp_path: Path) -> None:
    config = tmp_path / "prometheus.yaml"
    made = prometheus.configuration(tmp_path / "found.json")
    assert len({job["job_name"] for job in made["scrape_configs"]}) == 5
    config.write_text(yaml.safe_dump(made))
    prometheus.promtool("check", "config", config)
