"""What plugins want for a RayCluster in a pass, and what keeps pods waiting because of them.

Source: hooks/spec.py, spec plugins.md 2 and 10, cases.md VO-04 and VO-06.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import JOB, POD, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT, Kind
from kuberay.api.shipped import PACKAGES
from kuberay.hooks.calls import Hooks, PluginFailure
from kuberay.hooks.types import FinishContext, OwnerContext, Wait
from kuberay.plan.cluster.plugin_events import apply_events, deletion_events
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.model import Apply, Delete, Write
from kuberay.plan.plugin_secrets import pod_annotations, random_secrets
from kuberay.plan.secret_access import may_use_secrets

_PROVIDERS: tuple[tuple[str, Callable[[RayClusterSpec], bool], str], ...] = (
    ("enableInTreeAutoscaling", lambda spec: spec.autoscaling, "autoscaler-v2"),
    ("networkPolicy", lambda spec: spec.network_policy is not None, "networkpolicy"),
    ("tlsOptions", lambda spec: spec.tls, "mtls"),
    ("historyServerOptions", lambda spec: spec.history_server_options is not None, "history-collector"),
)
"""Fields that only a plugin can honour: name, whether it is asked for, and the plugin."""

_NO_SECRETS = "a Secret is needed, and the operator's setting secretNamespaces does not name the namespace "

_CORE_KINDS = (SERVICE, SECRET, SERVICE_ACCOUNT, ROLE, ROLE_BINDING, JOB)


@dataclass(slots=True)
class PluginWishes:
    """Answers of all plugins for this pass."""

    required: list[Write] = field(default_factory=list)
    """Must exist before any pod."""
    wanted: list[Write] = field(default_factory=list)
    """Beside the pods; their failure holds nothing up."""
    waits: list[tuple[str, Wait]] = field(default_factory=list)
    failures: list[PluginFailure] = field(default_factory=list)
    holds_pods: bool = False
    """Whether a plugin whose answer is needed before pods failed."""


def missing_plugin(cluster: ClusterPass) -> str:
    """What the spec asks for and no enabled plugin provides, and how to get it; empty when nothing is missing."""
    return missing_plugin_of(cluster.form.spec, cluster.observed.hooks)


def missing_plugin_of(spec: RayClusterSpec, hooks: Hooks, path: str = "spec") -> str:
    """The same of a *spec* found at *path*."""
    for field_name, asked, plugin in _PROVIDERS:
        if asked(spec) and not hooks.has(plugin):
            if plugin not in PACKAGES:
                return f"{path}.{field_name} needs a plugin called {plugin}, and no package of this release has it"
            return (
                f"{path}.{field_name} needs the plugin {plugin}, which is not enabled: "
                f"pip install {PACKAGES[plugin]} and add {plugin} to plugins.enabled"
            )
    return ""


def ask_plugins(cluster: ClusterPass, owner: OwnerContext, *, suspended: bool) -> PluginWishes:
    """What must exist before pods and beside them; for a suspended cluster, what is left of it."""
    hooks = cluster.observed.hooks
    wishes = PluginWishes()
    if suspended:
        context = FinishContext(owner=owner, reason="Suspended", cluster_alive=True, cluster_groups=owner.groups)
        finished = hooks.finish(context)
        wishes.wanted = _writes(cluster, owner, finished.manifests, optional=True)
        wishes.failures = list(finished.failures)
        return wishes
    before = hooks.pre_create_pods(owner)
    no_secrets = [] if may_use_secrets(cluster.observed.config, cluster.namespace) else list(before.secrets)
    wishes.required = [
        *([] if no_secrets else random_secrets(cluster.observed, owner.owner_reference, before.secrets)),
        *_writes(cluster, owner, before.manifests, optional=False),
    ]
    wishes.waits = [*before.waits, *((plugin, Wait(_NO_SECRETS + cluster.namespace)) for plugin, _ in no_secrets[:1])]
    wishes.holds_pods = bool(before.failures)
    beside = hooks.extra_resources(owner)
    wishes.wanted = _writes(cluster, owner, beside.manifests, optional=True)
    wishes.failures = [*before.failures, *beside.failures]
    wishes.wanted += pod_annotations(cluster.observed, before.annotations)
    if not wishes.failures and not wishes.waits:
        wishes.wanted += _prune(cluster, [*wishes.required, *wishes.wanted])
    return wishes


def _writes(
    cluster: ClusterPass, owner: OwnerContext, manifests: Iterable[dict[str, Any]], *, optional: bool
) -> list[Write]:
    kinds = {(kind.api_version, kind.kind): kind for kind in _CORE_KINDS}
    create_only = set()
    for watch in cluster.observed.hooks.watches():
        kinds[watch.kind.api_version, watch.kind.kind] = watch.kind
        if watch.create_only:
            create_only.add(watch.kind)
    writes: list[Write] = []
    for manifest in manifests:
        kind = kinds.get((manifest["apiVersion"], manifest["kind"]))
        if kind is None:
            kind = _guess_kind(manifest)
        metadata = {"namespace": cluster.namespace, **manifest["metadata"]}
        metadata.setdefault("ownerReferences", [dict(owner.owner_reference)])
        name = metadata["name"]
        exists = cluster.observed.view.get(kind, metadata["namespace"], name) is not None
        events = apply_events(kind, f"{metadata['namespace']}/{name}", exists=exists)
        writes.append(
            Apply(
                kind=kind,
                namespace=metadata["namespace"],
                name=name,
                body={**manifest, "metadata": metadata},
                done=events.done,
                updated=events.updated,
                failed=events.failed,
                taken=events.taken,
                create_only=kind in create_only,
                optional=optional,
            )
        )
    return writes


def _guess_kind(manifest: dict[str, Any]) -> Kind:
    """For kinds no plugin watches, which the plugin manager refuses but a stand-in may let through."""
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    return Kind(group, version, f"{str(manifest['kind']).lower()}s", manifest["kind"])


def _prune(cluster: ClusterPass, wanted: Iterable[Write]) -> list[Write]:
    """Deletes owned objects of kinds watched for that, when no plugin wants them any more."""
    kept = {(write.kind, write.name) for write in wanted}
    writes: list[Write] = []
    for watch in cluster.observed.hooks.watches():
        if not watch.prune or watch.kind in (POD, SERVICE):
            continue
        for child in cluster.observed.view.owned(cluster.observed.obj.uid, watch.kind):
            if (watch.kind, child.name) not in kept and not child.deleting:
                done, failed = deletion_events(watch.kind, f"{child.namespace}/{child.name}")
                writes.append(
                    Delete(
                        kind=watch.kind,
                        namespace=child.namespace,
                        name=child.name,
                        uid=child.uid,
                        done=done,
                        failed=failed,
                        optional=True,
                    )
                )
    return writes
