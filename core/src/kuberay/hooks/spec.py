"""Every hook of the operator, typed. Plugins implement any of them with `kuberay.hooks.hookimpl`.

Hooks are synchronous, do no I/O, get copies and return data. They are called plugin by plugin in name order. A plugin
that raises, or gives back something that cannot be used, becomes a condition ``PluginFailed`` and an event on the object it
was called for and a metric, and stops nothing else, except where its answer is required for safety (`pre_create_pods`,
`mutate_pod`): then the pods of that object wait and the reason shows.

A hook has 0.2 s, some hundred times what it should take. A plugin that takes longer is told in the condition ``PluginSlow`` of
that object, and from its second slow call on no longer called on the operator's event loop: passes that ask it are made in
threads, so that only the objects it is slow for wait. A plugin's hooks may therefore run at the same time for different objects.

Hooks are called for RayClusters and RayJobs, and `validate`, `warn`, `extra_resources` and `upgrade_strategy` for RayServices.
The RayCluster of a RayJob or RayService is one like any other, with the label ``ray.io/originated-from-crd``, and that of a RayJob with
``ray.io/job-submission-mode``. A RayCronJob calls no hook; its RayJobs do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kuberay.hooks.markers import hookspec
from kuberay.hooks.service_upgrade import ServiceUpgradeStrategy
from kuberay.hooks.tracing import Tracer
from kuberay.hooks.types import (
    FeatureGate,
    FinishContext,
    Manifest,
    OwnerContext,
    PodAnnotations,
    PodContext,
    PolicyRule,
    Problem,
    RandomSecret,
    UpgradeContext,
    UpgradeStrategy,
    Wait,
    Watch,
)


@hookspec
def feature_gates() -> Sequence[FeatureGate]:  # type: ignore[empty-body]
    """Gates this plugin brings. Called once at start.

    Returns: the gates with stage, default and description. Names must be unique over core and all plugins.

    .. versionadded:: 1.0
    """


@hookspec
def settings() -> type[Any]:  # type: ignore[empty-body]
    """A pydantic model class for this plugin's settings. Called once at start.

    Returns: a model whose fields all have defaults; it is read from ``plugins.<name>`` of the configuration file and
    handed back as ``ctx.settings``. Unknown keys under ``plugins.<name>`` are an error.

    .. versionadded:: 1.0
    """


@hookspec
def rbac_rules() -> Sequence[PolicyRule]:  # type: ignore[empty-body]
    """RBAC the operator needs for this plugin. Called by ``kuberay rbac`` and at start.

    Returns: rules for the operator's ClusterRole; they are granted only when the plugin is on.

    .. versionadded:: 1.0
    """


@hookspec
def watches() -> Sequence[Watch]:  # type: ignore[empty-body]
    """Kinds of children this plugin makes or depends on. Called once at start.

    Returns: one `Watch` per kind. What a hook returns as a child object must be of a kind the core watches itself (Pod,
    Service, Job) or of one named here. Plugins that watch one kind share the watch. An absent kind is waited for, never
    fatal.

    .. versionadded:: 1.0
    """


@hookspec
def batch_scheduler() -> str:  # type: ignore[empty-body]
    """Declare that this plugin is a batch scheduler. Called once at start.

    The operator setting ``batchScheduler`` (flag ``--batch-scheduler``) then takes the plugin's entry point name and turns
    it on; that needs no change in the core. Of the plugins that are on, one may be a batch scheduler: more refuse the
    start.

    Returns: the ``schedulerName`` its pods get, for example ``volcano``.

    .. versionadded:: 1.0
    """


@hookspec
def tracer(settings: Any) -> Tracer | None:
    """Say where spans go: what the operator does, pass by pass, for whoever collects traces. Called once at start.

    *settings* are the plugin's own, None where it has no model. Of the plugins that are on, one may bring a tracer: more
    refuse the start.

    Returns: a `Tracer`, or None for no tracing.

    .. versionadded:: 1.0
    """


@hookspec
def validate(ctx: OwnerContext) -> Sequence[Problem]:  # type: ignore[empty-body]
    """Check an object at admission and at the start of each pass.

    Returns: problems with field paths; any problem stops the pass before it touches anything, and shows as a condition
    and an event. A RayJob that has its RayCluster already goes on all the same.

    .. versionadded:: 1.0
    """


@hookspec
def warn(ctx: OwnerContext) -> Sequence[Problem]:  # type: ignore[empty-body]
    """What is worth telling about an object that is accepted all the same: a label in the wrong place, an option without effect.

    Called in each pass over a RayCluster, RayJob or RayService, unless it is over, suspended or refused, and at admission. The
    warnings stand in the condition ``PluginWarning`` while they are returned, and a Warning event tells of them once. They stop
    nothing.

    What a user wrote is warned of where the user wrote it: say it of the RayJob or RayService, in whose context ``cluster_spec``
    is the RayCluster's and ``cluster_path`` where that stands. Of the RayCluster that one of these made, the same warning is
    dropped; only those with ``of_cluster=True`` are told there, which are about that RayCluster itself: what its pods
    run with, or an annotation that is put on RayClusters.

    Returns: warnings with field paths. They must stay the same while nothing changes, because each new text is a write.

    .. versionadded:: 1.0
    """


@hookspec
def ray_start_params(ctx: PodContext) -> dict[str, str]:  # type: ignore[empty-body]
    """Parameters of ``ray start`` this plugin forces for a pod, before the command line is written.

    Returns: flag names without dashes to values, as in ``rayStartParams``; they win over the user's. Called for head
    and worker pods, once per pod that is built.

    .. versionadded:: 1.0
    """


@hookspec
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest | None:
    """Change a pod that is about to be created.

    Called for each head and worker pod and for the submitter's pod template, after the core has built it and before
    the operator's configured sidecars are added; once per pod created, never for a pod that exists. *pod* is a copy. Name,
    namespace, owner references and ``ray.io/`` labels that are there must stay: by them the operator knows its own pods.
    Only K8sJobMode has a submitter's template. In SidecarMode the submitter is the container ``ray-job-submitter`` of
    the head pod.

    Returns: the changed pod, or None for no change. The core records which plugin changed which path. If the plugin
    raises, its change is dropped, the pod is not created in this pass and ``PluginFailed`` says why.

    .. versionadded:: 1.0
    """


@hookspec
def mutate_cluster(ctx: PodContext, cluster: Manifest) -> Manifest | None:
    """Change the RayCluster that a RayJob in K8sJobMode is about to create (labels, annotations).

    Not called in the other modes: there `mutate_pod` is what reaches pods. Called again when ``spec.rayClusterSpec`` is
    edited later, to tell the user's changes from the plugin's; give the same answer to the same question.

    Returns: the changed manifest, or None for no change.

    .. versionadded:: 1.0
    """


@hookspec
def pre_create_pods(
    ctx: OwnerContext,
) -> Sequence[Manifest | RandomSecret | PodAnnotations | Wait] | Wait | None:
    """What must exist before pods of this owner are created (gang groups, accounts).

    Called in each pass that may create pods of a RayCluster, and in each pass over a RayJob that is Initializing; there a
    `Wait` holds the RayCluster back until it is made.

    Returns: objects the core applies and awaits before any pod, a `Wait` that holds the pods back, a list of both (objects
    that are applied and must be ready first), or None. A `RandomSecret` among the objects is created once. `PodAnnotations`
    in the list are put on pods of a RayCluster that exist, and hold nothing up: a changed annotation makes the kubelet show a
    pod its changed Secrets at once instead of within a minute or two.
    If the plugin raises, no pod is created in this pass.

    .. versionadded:: 1.0
    """


@hookspec
def extra_resources(ctx: OwnerContext) -> Sequence[Manifest] | None:
    """Child objects this plugin wants for the owner.

    Called in each pass over a RayCluster that is not suspended, over a RayJob that is Initializing or Running, and over a
    RayService that serves: ``ctx.kind`` tells.

    Returns: manifests; the core sets the controller owner and namespace, applies them and skips unchanged ones. Those of
    a RayCluster, of kinds watched with ``prune``, are removed when they are no longer returned here or by
    `pre_create_pods`.

    .. versionadded:: 1.0
    """


@hookspec
def upgrade_strategy(ctx: UpgradeContext) -> UpgradeStrategy | ServiceUpgradeStrategy | None:
    """Offer a strategy for a spec change that needs new pods, chosen by ``spec.upgradeStrategy.type``.

    Called for a RayCluster whose pods are outdated, and in each pass over a RayService: ``ctx.owner.kind`` tells.

    Returns: the strategy when ``ctx.type`` names it, an `UpgradeStrategy` for a RayCluster and a `ServiceUpgradeStrategy`
    for a RayService, else None. When two plugins offer one, neither is used and ``PluginFailed`` names both.

    .. versionadded:: 1.0
    """


@hookspec
def finish(ctx: FinishContext) -> Sequence[Manifest] | None:
    """Clean up when a job is done, suspended or retried, or a cluster is suspended (gang sizes, external quota).

    Asked many times about the same end, so give the same answer. Not called for a deletion: what has an owner goes with it.

    Returns: manifests to apply instead of those of `pre_create_pods` and `extra_resources`. Suspended and Retrying move
    on only after they were applied; Complete and Failed do not wait.

    .. versionadded:: 1.0
    """


@hookspec
def diagnose(ctx: OwnerContext) -> Sequence[str] | None:
    """Reasons, one sentence each, why an owner is not ready, for conditions and ``kuberay why``.

    Called for a RayCluster while its pods are in trouble or held back, never in a start that goes well. Sentences show in
    the condition ``PodsNotReady``; they must stay the same while nothing changes (no counters, no durations), because each
    new text is a write.

    Returns: sentences, or None.

    .. versionadded:: 1.0
    """


@hookspec
def cli(app: Any) -> None:
    """Add sub-commands. *app* is the ``typer.Typer`` of ``kuberay``.

    Called when the command line starts with a command that the core has not, or with ``--help``, for the plugins that the
    environment variable ``KUBERAY_PLUGINS`` names (comma-separated; without it those that are on by default). A command
    of the core keeps its name.

    .. versionadded:: 1.0
    """
