"""Which feature gates the core itself brings, and who serves them. Plugins add theirs through `feature_gates`.

Source: spec raycluster.md 0.5, rayjob.md 0, plugins.md 14.
"""

from __future__ import annotations

STATUS_CONDITIONS = "RayClusterStatusConditions"
DELETION_POLICY = "RayJobDeletionPolicy"
MULTI_HOST_INDEXING = "RayMultiHostIndexing"
INCREMENTAL_UPGRADE = "RayServiceIncrementalUpgrade"
CRON_JOB = "RayCronJob"
SIDECAR_SUBMITTER_RESTART = "SidecarSubmitterRestart"
NETWORK_POLICY = "RayClusterNetworkPolicy"
EMBEDDED_STORAGE = "GCSFaultToleranceEmbeddedStorage"
MTLS = "RayClusterMTLS"
HISTORY_SERVER = "RayClusterHistoryServer"
KUBERNETES_WAS = "KubernetesWAS"

CORE_GATES: tuple[tuple[str, bool, str, str], ...] = (
    (STATUS_CONDITIONS, True, "BETA", "RayCluster conditions, and suspend as a two-step state machine"),
    (DELETION_POLICY, True, "BETA", "RayJob deletionStrategy, and suspend of single worker groups"),
    (MULTI_HOST_INDEXING, True, "BETA", "replica and host index labels, and multi-host replicas handled as one"),
    (INCREMENTAL_UPGRADE, True, "BETA", "RayService upgrades that move traffic step by step"),
    (CRON_JOB, False, "ALPHA", "the RayCronJob controller"),
    (SIDECAR_SUBMITTER_RESTART, False, "ALPHA", "restarts of the submitter sidecar; needs Kubernetes 1.35"),
    (NETWORK_POLICY, False, "ALPHA", "spec.networkPolicy of RayClusters"),
    (EMBEDDED_STORAGE, False, "ALPHA", "gcsFaultToleranceOptions.backend rocksdb, on a persistent volume"),
    (MTLS, False, "ALPHA", "spec.tlsOptions of RayClusters, by cert-manager or an own authority"),
    (HISTORY_SERVER, False, "ALPHA", "historyServerOptions and the collector sidecar"),
    (KUBERNETES_WAS, False, "ALPHA", "workload-aware gang scheduling by Kubernetes itself"),
)
"""Name, default, stage (ALPHA, BETA, GA) and description."""

DEFAULT_GATES: dict[str, bool] = {name: default for name, default, _, _ in CORE_GATES}

GATE_PLUGINS: dict[str, str] = {
    INCREMENTAL_UPGRADE: "gateway-upgrade",
    NETWORK_POLICY: "networkpolicy",
    MTLS: "mtls",
    HISTORY_SERVER: "",
    KUBERNETES_WAS: "",
}
"""The plugin that serves a gate of the core; empty: nothing of this release does. All others the core serves itself."""


def how_to_switch_on(gate: str) -> str:
    """What to do about a gate that is off."""
    return f"switch the gate on with --feature-gates={gate}=true"
