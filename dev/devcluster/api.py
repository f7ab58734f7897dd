"""Decides how this program itself asks the API server: plain HTTPS with the administrator's token.

Only for processes that are inside the cluster's network (see namespaces.enter_network)."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any

from devcluster.layout import API_PORT, Cluster


def request(
    cluster: Cluster, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float = 5.0
) -> tuple[int, str]:
    """Status and text of one answer; status 0 when the server cannot be reached."""
    text = json.dumps(body) if body is not None else None
    return _ask(cluster, method, path, text, "application/json", seconds)


def apply(cluster: Cluster, path: str, manifest: str, *, seconds: float = 30.0) -> tuple[int, str]:
    """Apply a manifest, YAML or JSON, at the path of its object; answers as `request`."""
    path = f"{path}?fieldManager=dev-cluster&force=true"
    return _ask(cluster, "PATCH", path, manifest, "application/apply-patch+yaml", seconds)


def _ask(cluster: Cluster, method: str, path: str, body: str | None, content: str, seconds: float) -> tuple[int, str]:
    try:
        context = ssl.create_default_context(cafile=str(cluster.pki / "ca.crt"))
        token = json.loads(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
        connection = http.client.HTTPSConnection(cluster.node_address, API_PORT, timeout=seconds, context=context)
        headers = {"Content-Type": content, "Accept": "application/json", "Authorization": f"Bearer {token}"}
        connection.request(method, path, body.encode() if body is not None else None, headers)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
        connection.close()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    return response.status, text


def get(cluster: Cluster, path: str) -> Any:
    """The decoded object at a path, or None when it is not there or the server cannot be reached."""
    status, text = request(cluster, "GET", path)
    return json.loads(text) if status == 200 else None


def ready(cluster: Cluster) -> bool:
    return request(cluster, "GET", "/readyz", seconds=2.0)[0] == 200
