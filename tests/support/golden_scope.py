"""Which recorded cases this version answers for, and where it differs on purpose (docs/differences.md).

The rest concern kinds and features that are not there yet; they are listed with the change that brings them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kuberay_testkit.scenarios.record import SERVICE_CONDITIONS

PLUGINS = Path(__file__).parents[2] / "plugins"
DATA = Path(__file__).parents[2] / "core" / "tests" / "data" / "golden"

RAYCLUSTER = [
    "api-v1alpha1",
    "auth-mode-unset",
    "auth-token",
    "auth-token-own-secret",
    "autoscale-default",
    "autoscale-no-random-delete",
    "autoscale-own-command",
    "autoscale-own-sa",
    "autoscale-token",
    "autoscale-sa-missing",
    "autoscale-v1",
    "autoscale-v2-full",
    "container-ports",
    "devices",
    "gcsft-annotation",
    "gcsft-annotation-false",
    "gcsft-delete-job",
    "gcsft-empty-options",
    "gcsft-rocksdb",
    "gcsft-rocksdb-own-claim",
    "gcsft-value",
    "group-removed",
    "group-resources",
    "head-svc-template",
    "ingress-collision",
    "ingress-options",
    "ingress-plain",
    "managed-by-kuberay",
    "managed-by-other",
    "minimal-head",
    "multihost-indexed",
    "multihost-mixed",
    "multihost-plain",
    "name-53-chars",
    "name-cut-digit",
    "no-ray-version",
    "old-ray-probes",
    "one-group",
    "overwrite-cmd",
    "own-command",
    "params-bad-ports",
    "params-bool-flags",
    "params-own-address",
    "params-plasma-dir",
    "params-ports",
    "params-quoted-json",
    "quota-full",
    "requests-only",
    "reserved-labels",
    "scale-multihost-down",
    "scale-up-down",
    "scheduling-fields",
    "sidecars-volumes",
    "suspend-at-birth",
    "suspend-field-removed",
    "suspend-group",
    "suspend-later",
    "svc-loadbalancer",
    "svc-nodeport",
    "template-change-none",
    "template-change-recreate",
    "three-groups",
]

RAYJOB = [
    "job-all-limits",
    "job-autoscale",
    "job-deadline",
    "job-deadline-shutdown",
    "job-deletion-legacy",
    "job-deletion-rules",
    "job-gcsft",
    "job-http",
    "job-interactive",
    "job-managed-elsewhere",
    "job-minimal",
    "job-name-47-chars",
    "job-quoting",
    "job-runtime-env",
    "job-selector",
    "job-selector-missing",
    "job-sidecar",
    "job-submitter-command",
    "job-submitter-template",
    "job-suspend-resume",
    "job-suspend-running",
    "job-suspended",
    "job-token",
]

RAYCRONJOB = ["cron-gate-off", "cron-minute", "cron-suspended", "cron-yearly"]

INVALID = [
    "cron-bad-schedule",
    "cron-bad-zone",
    "autoscaler-version",
    "bad-label",
    "collector-no-region",
    "duplicate-groups",
    "netpol-rules-mode",
    "netpol-unknown-group",
    "rocksdb-redis-address",
    "tls-own-env",
    "pod-refused",
    "worker-pod-refused",
    "ft-both",
    "ft-env-without",
    "ft-redis-user-param",
    "group-no-name",
    "idle-without-v2",
    "labels-param",
    "managed-by-changed",
    "managed-by-unknown",
    "min-over-max",
    "name-54-chars",
    "name-digits",
    "name-dot",
    "negative-min",
    "no-containers",
    "no-head",
    "no-template",
    "path-type",
    "priority-old-ray",
    "replicas-text",
    "resources-twice",
    "suspend-group-autoscale",
    "token-old-ray",
    "unknown-auth-mode",
    "upgrade-type",
    "v2-restart",
    "netpol-gate-off",
    "rocksdb-gate-off",
    "tls-gate-off",
    "backend-changed",
    "job-both-selector",
    "job-long-name",
    "job-negative-backoff",
    "job-nothing",
    "job-rules-both-styles",
    "job-rules-twice",
    "job-sidecar-template",
    "job-suspend-no-shutdown",
    "job-suspend-selector",
    "job-ttl-no-shutdown",
    "job-unknown-policy",
    "job-zero-deadline",
    "job-bad-runtime-env",
]

RAYSERVICE = [
    "svc-managed-elsewhere",
    "svc-minimal",
    "svc-multihost",
    "svc-no-head-traffic",
    "svc-old-ray",
    "svc-strategy-none",
    "svc-suspended",
]

INVALID_SERVICES = ["svc-bad-serve-config", "svc-cluster-upgrade", "svc-long-name", "svc-unknown-strategy"]

VOLCANO = ["volcano-autoscale", "volcano-cluster", "volcano-job", "volcano-legacy-flag", "volcano-scale"]

NETWORKPOLICY = ["netpol-default", "netpol-egress-only", "netpol-ingress-only", "netpol-rayjob", "netpol-removed"]

SCHEDULER_PLUGINS = ["schedplugins-gang", "schedplugins-job", "schedplugins-plain"]

YUNIKORN = ["yunikorn-cluster", "yunikorn-job"]

KAI = ["kai-cluster", "kai-job", "kai-job-http", "kai-no-queue"]

SERVICE_CASES = [*(f"rayservice/{name}" for name in RAYSERVICE), *(f"invalid/{name}" for name in INVALID_SERVICES)]

CASES = [
    *(f"raycluster/{name}" for name in RAYCLUSTER),
    *(f"rayjob/{name}" for name in RAYJOB),
    *(f"raycronjob/{name}" for name in RAYCRONJOB),
    *(f"invalid/{name}" for name in INVALID),
    *(f"volcano/{name}" for name in VOLCANO),
    *(f"scheduler_plugins/{name}" for name in SCHEDULER_PLUGINS),
    *(f"networkpolicy/{name}" for name in NETWORKPOLICY),
    *(f"yunikorn/{name}" for name in YUNIKORN),
    *(f"kai/{name}" for name in KAI),
    *SERVICE_CASES,
]

SERVICES_DIFFERENT: dict[str, str] = {
    "invalid/svc-bad-serve-config": "refused, and no cluster is started",
    "invalid/svc-cluster-upgrade": "refused, and no cluster is started",
}
"""Those of `DIFFERENT` that are about RayServices."""


def folder(case: str) -> Path:
    """Where the case's files are; those of a plugin lie beside the plugin."""
    area, _, name = case.partition("/")
    of_plugin = PLUGINS / area / "tests" / "data"
    return of_plugin / name if of_plugin.is_dir() else DATA / case


def operator_words(case: str) -> str:
    """Flags and variables that the operator is given for a case besides the recorded ones, where its defaults are other
    ones than KubeRay's on purpose."""
    if case.startswith("networkpolicy/"):
        return f" --config={PLUGINS / 'networkpolicy' / 'tests' / 'data' / 'presets-off.yaml'}"
    return ""


OUR_CONDITIONS = frozenset(
    {
        "RayClusterSpecValid",
        "Accepted",
        "ClusterReady",
        "Submitted",
        "Running",
        "Finished",
        "Suspended",
        "StartDelayed",
        "RayClusterSpecEditIgnored",
        "PodsWaiting",
        "PluginFailed",
        "PluginWarning",
        "IngressConflict",
        "GcsStorageProblem",
    }
)


def without_ours(kind: str, conditions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of an object's *conditions* that KubeRay has, too."""
    if kind == "RayService":
        return [condition for condition in conditions if condition["type"] in SERVICE_CONDITIONS]
    return [condition for condition in conditions if condition["type"] not in OUR_CONDITIONS]


OBSERVED_GENERATION = {"raycluster/gcsft-delete-job": 1}
"""Cases where KubeRay's own write raised the generation (it adds defaults when it adds its finalizer); ours does not."""

DIFFERENT: dict[str, str] = {
    **SERVICES_DIFFERENT,
    "raycluster/autoscale-sa-missing": "the head service is there, and a condition says what is missing",
    "raycluster/group-removed": "the pods of the removed group are deleted",
    "raycluster/reserved-labels": "the head service selects the label that the head pod really carries",
    "raycluster/suspend-field-removed": "the cluster resumes",
    "invalid/duplicate-groups": "refused",
    "invalid/pod-refused": "HeadPodReady says HeadPodCreating, since no head was there yet",
    "invalid/netpol-rules-mode": "no NetworkPolicy is made from a spec that is refused",
    "invalid/netpol-unknown-group": "no NetworkPolicy is made from a spec that is refused",
    "invalid/tls-own-env": "no certificates are made from a spec that is refused",
    "rayjob/job-gcsft": "adding the finalizer adds no empty rayStartParams to the cluster's spec",
    "rayjob/job-autoscale": "a headService without a spec is copied as it was given, without 'spec: {}'",
    "raycluster/params-ports": "the head service's default ports and the metrics port of pods follow the ports given to ray start",
    **dict.fromkeys(
        (f"networkpolicy/{name}" for name in NETWORKPOLICY), "the head service offers the dashboard at dashboard-port"
    ),
    "volcano/volcano-cluster": "no event tells of pods deleted when there were none",
    "scheduler_plugins/schedplugins-gang": "the PodGroup has its RayCluster as controller, so that it comes back when deleted",
    "scheduler_plugins/schedplugins-job": "the RayJob starts",
    "yunikorn/yunikorn-job": "a group without minReplicas is no task group, for YuniKorn refuses the whole list; a warning tells",
    "kai/kai-job": "the RayJob runs",
    "kai/kai-no-queue": "a warning tells of the missing queue",
    "raycluster/suspend-group": "no event tells of pods deleted when there were none",
    "rayjob/job-minimal": "labels and annotations of the RayJob reach its submitter",
    "rayjob/job-quoting": "operators and quotes of a compound entrypoint reach Ray, not the submitter's shell",
    "rayjob/job-runtime-env": "a dollar sign in the runtime environment is not expanded by the submitter's shell",
    "raycronjob/cron-minute": "labels and annotations are passed on, and an event tells of the RayJob that was made",
    "invalid/job-bad-runtime-env": "the decoding error is told in plain words, not in Go types",
}
"""Case to the reason why our answer is another one on purpose."""
