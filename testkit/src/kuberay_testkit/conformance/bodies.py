"""The smallest objects conformance cases make. Their namespace is the path's."""

from __future__ import annotations

from typing import Any

from kuberay_testkit import builders


def a_config(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def a_cluster(name: str, **spec: Any) -> dict[str, Any]:
    body = builders.build_raycluster(name, **spec)
    del body["metadata"]["namespace"]
    return body


def a_pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"name": "main", "image": "busybox:1"}]}}
