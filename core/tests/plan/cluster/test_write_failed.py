"""A write that is no pod's and fails still shows why pods wait, and nothing is called ready meanwhile."""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import SERVICE


def test_a_refused_service_shows_as_a_condition(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.refuse = lambda write: "services is forbidden: no permission" if write.kind == SERVICE else ""
    tiny.reconcile()
    waiting = next(c for c in tiny.status["conditions"] if c["type"] == "PodsWaiting")
    assert waiting["status"] == "True"
    assert waiting["reason"] == "WriteFailed"
    assert "no permission" in waiting["message"]
    assert not tiny.pods
    tiny.refuse = lambda _write: ""
    tiny.settle()
    assert tiny.status["state"] == "ready"
    assert "PodsWaiting" not in {c["type"] for c in tiny.status["conditions"]}
