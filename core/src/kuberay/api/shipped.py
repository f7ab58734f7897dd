"""Which plugins this project ships, and in which packages, so that messages can say what to install.

Only names: whether one is installed or on is decided elsewhere, and no plugin of others is treated differently.
"""

from __future__ import annotations

from collections.abc import Mapping

PACKAGES: Mapping[str, str] = {
    "autoscaler-v2": "kuberay-autoscaler-v2",
    "gateway-upgrade": "kuberay-gateway-upgrade",
    "kai-scheduler": "kuberay-kai",
    "mtls": "kuberay-mtls",
    "networkpolicy": "kuberay-networkpolicy",
    "scheduler-plugins": "kuberay-scheduler-plugins",
    "tracing": "kuberay-tracing",
    "volcano": "kuberay-volcano",
    "yunikorn": "kuberay-yunikorn",
}
"""Entry point name to distribution."""

SCHEDULERS = ("volcano", "yunikorn", "scheduler-plugins", "kai-scheduler")
"""KubeRay's values of ``batchScheduler`` (spec plugins.md 3)."""
