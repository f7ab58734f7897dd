"""The webhook configurations as objects: which webhooks they hold, what whoever does not use the chart applies, and who trusts whom.

Source: spec operator.md 10. `kuberay webhooks` prints them; the chart has its own templates, and a test compares the two.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from kuberay.api.kinds import SERVICE, Kind
from kuberay.api.names import APP_NAME, COMPONENT
from kuberay.operator.webhooks.paths import KINDS, mutating_name, mutating_path, validating_name, validating_path

Manifest = dict[str, Any]

GROUP = "admissionregistration.k8s.io"
VALIDATING = Kind(
    GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)  # fmt: skip
MUTATING = Kind(GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False)

MATCH_CONDITIONS = (
    # Whatever becomes of the operator, an object can be let go.
    ("not-being-deleted", "!has(object.metadata.deletionTimestamp)"),
    # Nothing else is looked at; the operator's own finalizers, for example, cost no call.
    (
        "something-to-check",
        "request.operation == 'CREATE' || object.spec != oldObject.spec"
        " || (has(object.metadata.labels) ? object.metadata.labels : {})"
        " != (has(oldObject.metadata.labels) ? oldObject.metadata.labels : {})"
        " || (has(object.metadata.annotations) ? object.metadata.annotations : {})"
        " != (has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {})",
    ),
)
"""When the API server calls at all (Kubernetes 1.28 and later), by name in CEL: what `kuberay.plan.admission.edits` looks at."""

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""What every namespace says its name with."""


def webhook_manifests(
    *,
    namespace: str,
    name: str,
    port: int,
    failure_policy: str = "Fail",
    timeout_seconds: int = 10,
    defaulting: bool = False,
    watch_namespaces: Sequence[str] = (),
    ca_bundle: str = "",
) -> list[Manifest]:
    """Service and configurations, for an operator in *namespace*. *ca_bundle*: PEM; empty: the operator adds its own."""
    labels = {"app.kubernetes.io/name": COMPONENT, "app.kubernetes.io/part-of": APP_NAME}
    service = {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "ports": [{"name": "webhooks", "port": 443, "targetPort": port, "protocol": "TCP"}],
            "selector": {"app.kubernetes.io/name": COMPONENT, "app.kubernetes.io/component": COMPONENT},
        },
    }

    def entry(kind: Kind, webhook: str, path: str, policy: str) -> Manifest:
        client: Manifest = {"service": {"name": name, "namespace": namespace, "path": path, "port": 443}}
        if ca_bundle:
            client["caBundle"] = base64.b64encode(ca_bundle.encode()).decode()
        found: Manifest = {
            "name": webhook,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "failurePolicy": policy,
            "sideEffects": "None",
            "timeoutSeconds": timeout_seconds,
            "rules": [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": [kind.version],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": [kind.plural],
                    "scope": "Namespaced",
                }
            ],
            "matchConditions": [{"name": title, "expression": text} for title, text in MATCH_CONDITIONS],
        }
        if watch_namespaces:
            within = {"key": NAMESPACE_LABEL, "operator": "In", "values": list(watch_namespaces)}
            found["namespaceSelector"] = {"matchExpressions": [within]}
        return found

    def configuration(of: Kind, webhooks: Sequence[Manifest]) -> Manifest:
        metadata = {"name": name, "labels": labels}
        return {"apiVersion": of.api_version, "kind": of.kind, "metadata": metadata, "webhooks": list(webhooks)}

    validating = [entry(kind, validating_name(kind), validating_path(kind), failure_policy) for kind in KINDS]
    found = [service, configuration(VALIDATING, validating)]
    if defaulting:
        # Nothing is worse for an object without them.
        mutating = [entry(kind, mutating_name(kind), mutating_path(kind), "Ignore") for kind in KINDS]
        found.append(configuration(MUTATING, mutating))
    return found


def bundles(configuration: Mapping[str, Any]) -> list[bytes]:
    """The PEM that each webhook trusts; empty where it trusts nobody yet."""
    return [_decoded((each.get("clientConfig") or {}).get("caBundle")) for each in configuration.get("webhooks") or ()]


def hosts(configurations: Iterable[Mapping[str, Any]]) -> set[str]:
    """The names by which API servers call the webhooks: those that a certificate must be for."""
    found = set()
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            client = webhook.get("clientConfig") or {}
            service, host = client.get("service"), urlsplit(client.get("url") or "").hostname
            if service:
                found.add(service_host(service["name"], service["namespace"]))
            elif host:
                found.add(host)
    return found


def service_host(name: str, namespace: str) -> str:
    """What API servers verify: they call services by this name, whatever the cluster's domain is."""
    return f"{name}.{namespace}.svc"


def trusting(of: Kind, configuration: Mapping[str, Any], bundle: bytes) -> Manifest:
    """For server-side apply: every webhook of the configuration trusts *bundle*, and nothing else is claimed."""
    told = base64.b64encode(bundle).decode()
    return {
        "apiVersion": of.api_version,
        "kind": of.kind,
        "metadata": {"name": configuration["metadata"]["name"]},
        "webhooks": [
            {"name": webhook["name"], "clientConfig": {"caBundle": told}} for webhook in configuration["webhooks"]
        ],
    }


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except ValueError:
        return b""
