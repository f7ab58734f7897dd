"""How Secrets, labels and annotations of mutual TLS are called, and the names under which a head is reached."""

from __future__ import annotations

from typing import Any

from kuberay.api import names
from kuberay.hooks import OwnerContext

PLUGIN = "mtls"
LABEL_AUTHORITY = "ray.io/tls-authority"
"""On the Secret of an authority: its number. The highest one signs."""
ANNOTATION_AUTHORITY = "ray.io/tls-authority"
"""On a RayCluster: the number that its authority should have at least. A higher one than the present makes a new one."""
ANNOTATION_READY_FOR = "ray.io/tls-ready-for"
"""On a pod: the address for which its certificate has been issued."""
ANNOTATION_EXPIRES = "ray.io/tls-expires"
"""On a Secret: when its certificate ends. On a pod: when the one ends that it started with."""
ANNOTATION_RENEW = "ray.io/tls-renew-after"
ANNOTATION_MADE_OF = "ray.io/tls-made-of"
"""On a Secret: a digest of what its certificate should say and of what the Secret holds."""


def shared_secret(cluster: str, node_type: str) -> str:
    """The Secret with the certificate of all of *node_type* (``head`` or ``worker``), where they share one. Clients outside
    the cluster mount that of the workers."""
    return f"ray-{node_type}-secret-{cluster}"


def pod_secret(pod: str) -> str:
    """The Secret with the certificate of one pod."""
    return f"{pod}-tls"


def authority_secret(ctx: OwnerContext, number: int) -> str:
    """The Secret of one authority. A former RayCluster of this name had another."""
    return f"{ctx.name}-tls-authority-{ctx.uid[:8]}-{number}"


def head_fqdn(ctx: OwnerContext) -> str:
    """The name under which the head is reached. Read from the spec as it is: parsing all of it would cost each pass."""
    spec: Any = ctx.spec
    for key in ("headGroupSpec", "headService", "metadata", "name"):
        spec = spec.get(key) if isinstance(spec, dict) else None
    service = names.head_service_name(ctx.name, spec if isinstance(spec, str) else "")
    return names.service_fqdn(service, ctx.namespace, ctx.cluster_domain)


def labels(ctx: OwnerContext, component: str) -> dict[str, str]:
    """Labels of everything that is made for TLS."""
    return {
        names.LABEL_APP_NAME: names.APP_NAME,
        names.LABEL_CREATED_BY: names.COMPONENT,
        "app.kubernetes.io/component": component,
        names.LABEL_CLUSTER: ctx.name,
    }
