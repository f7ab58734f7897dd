"""What of an object cannot be had because the operator may not use Secrets in its namespace (setting ``secretNamespaces``).

Without the token of a RayCluster the operator can neither make its Secret nor speak to its head.
"""

from __future__ import annotations

from kuberay.api.cluster import AuthOptions
from kuberay.api.problems import Problem
from kuberay.plan.config import PlanConfig


def may_use_secrets(config: PlanConfig, namespace: str) -> bool:
    """Whether the operator reads and makes Secrets in this namespace."""
    return config.secret_namespaces is None or namespace in config.secret_namespaces


def token_problems(config: PlanConfig, namespace: str, options: AuthOptions | None, path: str) -> list[Problem]:
    """Why ``authOptions`` at *path* cannot be honoured; empty when they can. Kubernetes' own tokens need no Secret."""
    if options is None or not options.token or options.enable_k8s_token_auth or may_use_secrets(config, namespace):
        return []
    message = (
        f"authOptions.mode token needs a Secret, and the operator may not use Secrets in namespace {namespace}: "
        f"add it to the operator's setting secretNamespaces"
    )
    return [Problem(path, message)]
