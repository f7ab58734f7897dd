"""However far a start comes: one sentence says what is missing, and whatever was opened by then is closed."""

from __future__ import annotations

import asyncio
import gc
import socket
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kuberay.operator import on_cluster
from kuberay.operator.environment import read_environment
from kuberay.operator.metrics import Metrics
from kuberay.operator.preflight import StartError
from kuberay.operator.settings import Settings
from kuberay.operator.start import PLANS, assemble
from kuberay_testkit.apiserver import ApiServer, kubeconfig
from ports import free_port

CLIENT = "operator"


def chosen(values: Mapping[str, Any]) -> on_cluster.Chosen:
    settings = Settings(**values)
    manager, gates = assemble(settings)
    return on_cluster.Chosen(
        settings=settings,
        environment=read_environment({"POD_NAMESPACE": ""}),
        version="1.0.0",
        plugins=manager,
        gates=dict(gates),
        plans=PLANS,
        metrics=Metrics(),
    )


def tasks() -> set[str]:
    """What goes on, by the names of coroutines; the API server's own connections are its own."""
    names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]
    return names - {"RequestHandler.start"}


@pytest.mark.parametrize(
    ("taken", "settings", "sentence"),
    [
        ("", {"leaderElectionNamespace": ""}, "Leader election needs a namespace for its Lease"),
        ("probes", {}, "Cannot listen on 0 or 127.0.0.1:{probes}: "),
        ("profiling", {"profilingAddr": "127.0.0.1:{profiling}"}, "Cannot listen on 127.0.0.1:{profiling}: "),
        ("", {"enableWebhooks": True, "webhookCertificates": "self"}, "webhookCertificates: self needs a namespace"),
        (
            "webhooks",
            {
                "profilingAddr": "127.0.0.1:{profiling}",
                "enableWebhooks": True,
                "webhookPort": "{webhooks}",
                "webhookCertificates": "files",
            },
            "The webhooks cannot listen on port {webhooks}: ",
        ),
    ],
    ids=["no namespace", "probes", "profiling", "no secret", "webhooks"],
)
async def test_what_was_opened_is_closed(
    tmp_path: Path, taken: str, settings: Mapping[str, Any], sentence: str
) -> None:
    ports = {name: free_port() for name in ("probes", "profiling", "webhooks")}
    base = {"metricsAddr": "0", "probeAddr": "127.0.0.1:{probes}", "leaderElectionNamespace": "default"}
    values = {**base, **settings}
    values = {key: each.format(**ports) if isinstance(each, str) else each for key, each in values.items()}
    api = ApiServer()
    async with api.running():
        (tmp_path / "kubeconfig").write_text(kubeconfig(api.url, client=CLIENT, namespace=""))
        before = tasks()
        with socket.socket() as other, warnings.catch_warnings(record=True) as leaks:
            warnings.simplefilter("always")
            if taken:
                other.bind(("", ports[taken]))
                other.listen()
            with pytest.raises(StartError) as told:
                async with asyncio.timeout(30):
                    await on_cluster.run(chosen(values), str(tmp_path / "kubeconfig"), None)
            gc.collect()
        assert str(told.value).startswith(sentence.format(**ports))
        assert tasks() == before
        assert api.server.count(client=CLIENT) > 0
        for port in set(ports.values()) - {ports.get(taken)}:
            with socket.socket() as again:
                again.bind(("127.0.0.1", port))
    assert [str(each.message) for each in leaks] == []
