"""How decisions call plugins: a typed method per hook, with failures as values. The manager in `kuberay.plugins` is one.

Plan code never sees pluggy, so it stays a function of its input; tests pass `NoHooks` or a stand-in of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from kuberay.hooks.service_upgrade import ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep
from kuberay.hooks.types import (
    FinishContext,
    Manifest,
    OwnerContext,
    PodAnnotations,
    PodContext,
    Problem,
    RandomSecret,
    UpgradeContext,
    UpgradeStrategy,
    Wait,
    Watch,
)


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A plugin that raised: its name, the hook, and the error in one line."""

    plugin: str
    hook: str
    error: str


@dataclass(frozen=True, slots=True)
class PluginWarning:
    """What a plugin warns of."""

    plugin: str
    problem: Problem


@dataclass(frozen=True, slots=True)
class SlowCall:
    """A hook that took too long when it was asked last."""

    plugin: str
    hook: str


class Lane(Enum):
    """Where a plan is made, and so how long a plugin may take in it."""

    LOOP = "loop"
    """On the operator's event loop, where everything waits: hooks of a slow plugin are not called."""
    BESIDE = "beside"
    """In one of many threads: hooks of a plugin that was slow for this very object are not called."""
    LAST = "last"
    """In one of few threads, where objects with a slow plugin wait for each other."""
    ANY = "any"
    """Where nobody waits, as on the command line."""


class SlowPluginError(BaseException):
    """Ends a plan that would call a slow plugin; it is made again in another lane. A plan is only thought, so nothing is lost.

    No `Exception`, so that nothing takes it for a failure of the plugin's."""


@dataclass(slots=True)
class Resources:
    """Answers of `pre_create_pods`, `extra_resources` or `finish`, in plugin name order."""

    manifests: list[Manifest] = field(default_factory=list)
    waits: list[tuple[str, Wait]] = field(default_factory=list)
    secrets: list[tuple[str, RandomSecret]] = field(default_factory=list)
    annotations: list[PodAnnotations] = field(default_factory=list)
    failures: list[PluginFailure] = field(default_factory=list)


@dataclass(slots=True)
class MutatedPod:
    """A pod after all plugins, which paths each changed (JSON pointers), and who failed."""

    pod: Manifest
    changes: dict[str, list[str]] = field(default_factory=dict)
    failures: list[PluginFailure] = field(default_factory=list)


class Hooks(Protocol):
    """One typed method per hook that plans call. No method raises, except in a lane where a slow plugin is not called."""

    def validate(self, ctx: OwnerContext) -> tuple[Sequence[Problem], Sequence[PluginFailure]]: ...
    def warn(self, ctx: OwnerContext) -> tuple[Sequence[PluginWarning], Sequence[PluginFailure]]: ...
    def ray_start_params(self, ctx: PodContext) -> tuple[dict[str, str], Sequence[PluginFailure]]: ...
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> MutatedPod: ...
    def mutate_cluster(self, ctx: PodContext, cluster: Manifest) -> MutatedPod: ...
    def pre_create_pods(self, ctx: OwnerContext) -> Resources: ...
    def extra_resources(self, ctx: OwnerContext) -> Resources: ...
    def upgrade_strategy(
        self, ctx: UpgradeContext, failures: list[PluginFailure] | None = None
    ) -> UpgradeStrategy | None:
        """The strategy that a plugin offers for a RayCluster. What goes wrong is added to *failures*."""
        ...

    def recreate_all(self, strategy: UpgradeStrategy, ctx: UpgradeContext) -> tuple[bool, Sequence[PluginFailure]]:
        """What *strategy*, of a plugin, says about all pods; False when it fails."""
        ...

    def service_strategy(
        self, ctx: UpgradeContext, failures: list[PluginFailure] | None = None
    ) -> ServiceUpgradeStrategy | None:
        """The strategy that a plugin offers for a RayService (hook `upgrade_strategy`)."""
        ...

    def cluster_strategy(
        self, strategy: ServiceUpgradeStrategy, owner: OwnerContext
    ) -> tuple[Mapping[str, Any] | None, Sequence[PluginFailure]]:
        """``spec.upgradeStrategy`` that *strategy*, of the core or of a plugin, wants its RayClusters to have."""
        ...

    def service_problems(
        self, strategy: ServiceUpgradeStrategy, owner: OwnerContext
    ) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
        """What *strategy*, of the core or of a plugin, finds wrong with its options."""
        ...

    def service_step(
        self, strategy: ServiceUpgradeStrategy, ctx: ServiceUpgradeContext
    ) -> tuple[UpgradeStep | None, Sequence[PluginFailure]]:
        """What *strategy*, of the core or of a plugin, decides; None when it fails."""
        ...

    def finish(self, ctx: FinishContext) -> Resources: ...
    def diagnose(self, ctx: OwnerContext) -> Sequence[str]: ...
    def watches(self) -> Sequence[Watch]: ...
    def has(self, plugin: str) -> bool:
        """Whether the plugin of that entry point name is enabled."""
        ...

    def in_lane(self, lane: Lane) -> AbstractContextManager[None]:
        """Within it, this thread's plan is made in *lane*, and ends with `SlowPluginError` when it has to go to the next."""
        ...

    def slow_calls(self, uid: str) -> Sequence[SlowCall]:
        """What took too long for the owner with that UID when it was asked last."""
        ...


class NoHooks:
    """No plugin at all."""

    def validate(self, ctx: OwnerContext) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
        return (), ()

    def warn(self, ctx: OwnerContext) -> tuple[Sequence[PluginWarning], Sequence[PluginFailure]]:
        return (), ()

    def ray_start_params(self, ctx: PodContext) -> tuple[dict[str, str], Sequence[PluginFailure]]:
        return {}, ()

    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> MutatedPod:
        return MutatedPod(pod)

    def mutate_cluster(self, ctx: PodContext, cluster: Manifest) -> MutatedPod:
        return MutatedPod(cluster)

    def pre_create_pods(self, ctx: OwnerContext) -> Resources:
        return Resources()

    def extra_resources(self, ctx: OwnerContext) -> Resources:
        return Resources()

    def upgrade_strategy(
        self, ctx: UpgradeContext, failures: list[PluginFailure] | None = None
    ) -> UpgradeStrategy | None:
        return None

    def recreate_all(self, strategy: UpgradeStrategy, ctx: UpgradeContext) -> tuple[bool, Sequence[PluginFailure]]:
        try:
            return bool(strategy.recreate_all(ctx)), ()
        except Exception as error:  # noqa: BLE001  a strategy's failure is a value, as with plugins
            return False, [_failure_of(strategy, error)]

    def service_strategy(
        self, ctx: UpgradeContext, failures: list[PluginFailure] | None = None
    ) -> ServiceUpgradeStrategy | None:
        return None

    def cluster_strategy(
        self, strategy: ServiceUpgradeStrategy, owner: OwnerContext
    ) -> tuple[Mapping[str, Any] | None, Sequence[PluginFailure]]:
        try:
            return strategy.cluster_strategy(owner), ()
        except Exception as error:  # noqa: BLE001
            return None, [_failure_of(strategy, error)]

    def service_problems(
        self, strategy: ServiceUpgradeStrategy, owner: OwnerContext
    ) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
        try:
            return list(strategy.problems(owner)), ()
        except Exception as error:  # noqa: BLE001  a strategy's failure is a value, as with plugins
            return (), [_failure_of(strategy, error)]

    def service_step(
        self, strategy: ServiceUpgradeStrategy, ctx: ServiceUpgradeContext
    ) -> tuple[UpgradeStep | None, Sequence[PluginFailure]]:
        try:
            return strategy.step(ctx), ()
        except Exception as error:  # noqa: BLE001
            return None, [_failure_of(strategy, error)]

    def finish(self, ctx: FinishContext) -> Resources:
        return Resources()

    def diagnose(self, ctx: OwnerContext) -> Sequence[str]:
        return ()

    def watches(self) -> Sequence[Watch]:
        return ()

    def has(self, plugin: str) -> bool:
        return False

    def in_lane(self, lane: Lane) -> AbstractContextManager[None]:
        return nullcontext()

    def slow_calls(self, uid: str) -> Sequence[SlowCall]:
        return ()


def _failure_of(strategy: UpgradeStrategy | ServiceUpgradeStrategy, error: Exception) -> PluginFailure:
    text = next(iter(str(error).splitlines()), "")
    return PluginFailure(strategy.name, "upgrade_strategy", f"{type(error).__name__}: {text}")
