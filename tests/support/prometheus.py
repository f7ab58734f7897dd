"""A real Prometheus in tests: configured from our monitors as Prometheus' operator would do it, started, asked, and stopped."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from dev.demo.kubectl import Kubectl

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config" / "prometheus"
RULES = sorted((CONFIG / "rules").glob("*.yaml"))
INTERVAL = "5s"


@cache
def commands() -> Path:
    """The folder with prometheus and promtool; fetched when it is not there yet."""
    found = subprocess.run([ROOT / "dev" / "cluster", "prometheus"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(found.stdout.strip())


def promtool(*words: str | Path) -> str:
    """What promtool says; fails with that when it is not content."""
    done = subprocess.run([str(commands() / "promtool"), *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def monitors() -> list[dict[str, Any]]:
    """ServiceMonitor and PodMonitors of ``config/prometheus``."""
    files = ("serviceMonitor.yaml", "podMonitor.yaml")
    found = [each for name in files for each in yaml.safe_load_all((CONFIG / name).read_text())]
    return [each for each in found if each["kind"].endswith("Monitor")]


def scrape_configs(monitor: dict[str, Any], found: Path) -> Iterator[dict[str, Any]]:
    """What Prometheus' operator makes of a monitor: one job per endpoint, with its labels for namespace, pod and container.

    Debian's Prometheus cannot ask Kubernetes, so what there is comes from the file *found*, which `discover` writes."""
    spec, name = monitor["spec"], monitor["metadata"]["name"]
    owner = "pod" if monitor["kind"] == "PodMonitor" else "service"
    chosen = spec["namespaceSelector"]
    wanted = {f"{owner}_label_{_label(key)}": value for key, value in spec["selector"]["matchLabels"].items()}
    if not chosen.get("any"):
        (wanted["namespace"],) = chosen["matchNames"]
    for number, endpoint in enumerate(spec["podMetricsEndpoints" if owner == "pod" else "endpoints"]):
        keep = wanted | {"role": owner, "port_name": endpoint["port"]}
        yield {
            "job_name": f"{monitor['kind']}/{name}/{number}",
            "file_sd_configs": [{"files": [str(found)], "refresh_interval": "1s"}],
            "metrics_path": endpoint.get("path", "/metrics"),
            "honor_labels": endpoint.get("honorLabels", False),
            "relabel_configs": [
                *(
                    {"action": "keep", "source_labels": [f"__meta_kubernetes_{label}"], "regex": re.escape(value)}
                    for label, value in keep.items()
                ),
                *(
                    {"source_labels": [f"__meta_kubernetes_{meta}"], "target_label": label}
                    for meta, label in _TARGET_LABELS
                ),
                *(
                    {
                        "source_labels": each["sourceLabels"],
                        "target_label": each["targetLabel"],
                        "action": each["action"],
                    }
                    for each in endpoint.get("relabelings", ())
                ),
            ],
        }


def discover(kubectl: Kubectl, file: Path) -> None:
    """Write what Prometheus would find in Kubernetes: every named port of every pod, and of each pod behind a service of ours."""
    pods = [
        pod for pod in kubectl.list("pods", "") if pod["status"].get("podIP") and pod["status"]["phase"] == "Running"
    ]
    targets = []
    for pod in pods:
        for role, labels in [
            ("pod", pod["metadata"]["labels"]),
            *(("service", labels) for labels in _services(kubectl, pod)),
        ]:
            for container in pod["spec"]["containers"]:
                for port in container.get("ports", ()):
                    meta = {
                        "role": role,
                        "namespace": pod["metadata"]["namespace"],
                        "pod_name": pod["metadata"]["name"],
                    }
                    meta |= {"pod_container_name": container["name"], "port_name": port.get("name", "")}
                    meta |= {f"{role}_label_{_label(key)}": value for key, value in labels.items()}
                    address = f"{pod['status']['podIP']}:{port['containerPort']}"
                    named = {f"__meta_kubernetes_{key}": value for key, value in meta.items()}
                    targets.append({"targets": [address], "labels": named})
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(targets))
    draft.replace(file)


def _services(kubectl: Kubectl, pod: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Labels of the services of the pod's namespace that select it."""
    for service in kubectl.list("services", pod["metadata"]["namespace"]):
        selector = service["spec"].get("selector")
        if selector and selector.items() <= pod["metadata"]["labels"].items():
            yield service["metadata"].get("labels", {})


_TARGET_LABELS = (
    ("namespace", "namespace"),
    ("pod_name", "pod"),
    ("pod_container_name", "container"),
)


def _label(key: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", key)


def configuration(found: Path) -> dict[str, Any]:
    """*found* is the file that `discover` writes."""
    jobs = [job for monitor in monitors() for job in scrape_configs(monitor, found)]
    return {
        "global": {"evaluation_interval": INTERVAL, "scrape_interval": INTERVAL},
        "rule_files": [str(path) for path in RULES],
        "scrape_configs": jobs,
    }


class Prometheus:
    """Its HTTP API."""

    def __init__(self, url: str, log: Path) -> None:
        self._url = url
        self._log = log

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Series with their present value. An error of the query is an AssertionError that names it."""
        data = self._get("query", query=expr)
        found = data["result"] if data["resultType"] == "vector" else [data["result"]]
        assert isinstance(found, list)
        return found

    def range(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Series with their values at each *step* seconds."""
        found: list[dict[str, Any]] = self._get("query_range", query=expr, start=start, end=end, step=step)["result"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with their health and alerts."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """What is scraped."""
        found: list[dict[str, Any]] = self._get("targets", state="active")["activeTargets"]
        return found

    def ready(self) -> bool:
        try:
            with urlopen(f"{self._url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str, **parameters: Any) -> Any:
        url = f"{self._url}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urlopen(url, timeout=30) as answer:
                body = json.load(answer)
        except HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
        assert body["status"] == "success", body
        return body["data"]

    def last_words(self) -> str:
        return self._log.read_text()[-3000:]


@contextmanager
def running(folder: Path, config: dict[str, Any], port: int = 9090, flags: Sequence[str] = ()) -> Iterator[Prometheus]:
    """A Prometheus with its data in *folder*, which listens on loopback."""
    file, log = folder / "prometheus.yaml", folder / "prometheus.log"
    file.write_text(yaml.safe_dump(config))
    promtool("check", "config", file)
    address = f"127.0.0.1:{port}"
    argv = [
        str(commands() / "prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        *flags,
    ]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT)
    server = Prometheus(f"http://{address}", log)
    try:
        deadline = time.monotonic() + 60
        while not server.ready():
            assert process.poll() is None, server.last_words()
            assert time.monotonic() < deadline, server.last_words()
            time.sleep(0.2)
        yield server
    finally:
        process.terminate()
        process.wait(30)
