"""How decisions call plugins: a typed method per hook, with failures as values. The manager in `kuberay.plugins` is one.

Plan code never sees pluggy, so it stays a function of its input; tests pass `NoHooks` or a stand-in of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kuberay.hooks.service_upgrade import ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep
from kuberay.hooks.types import (
    FinishContext,
    Manifest,
    OwnerContext,
    PodContext,
    Problem,
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


@dataclass(slots=True)
class Resources:
    """Answers of `pre_create_pods`, `extra_resources` or `finish`, in plugin name order."""

    manifests: list[Manifest] = field(default_factory=list)
    waits: list[tuple[str, Wait]] = field(default_factory=list)
    failures: list[PluginFailure] = field(default_factory=list)


@dataclass(slots=True)
class MutatedPod:
    """A pod after all plugins, which paths each changed (JSON pointers), and who failed."""

    pod: Manifest
    changes: dict[str, list[str]] = field(default_factory=dict)
    failures: list[PluginFailure] = field(default_factory=list)


class Hooks(Protocol):
    """One typed method per hook that plans call. No method raises."""

    def validate(self, ctx: OwnerContext) -> tuple[Sequence[Problem], Sequence[PluginFailure]]: ...
    def ray_start_params(self, ctx: PodContext) -> tuple[dict[str, str], Sequence[PluginFailure]]: ...
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> MutatedPod: ...
    def mutate_cluster(self, ctx: PodContext, cluster: Manifest) -> MutatedPod: ...
    def pre_create_pods(self, ctx: OwnerContext) -> Resources: ...
    def extra_resources(self, ctx: OwnerContext) -> Resources: ...
    def upgrade_strategy(self, ctx: UpgradeContext) -> UpgradeStrategy | None: ...
    def service_strategy(self, ctx: UpgradeContext) -> ServiceUpgradeStrategy | None:
        """The strategy that a plugin offers for a RayService (hook `upgrade_strategy`)."""
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


class NoHooks:
    """No plugin at all."""

    def validate(self, ctx: OwnerContext) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
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

    def upgrade_strategy(self, ctx: UpgradeContext) -> UpgradeStrategy | None:
        return None

    def service_strategy(self, ctx: UpgradeContext) -> ServiceUpgradeStrategy | None:
        return None

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


def _failure_of(strategy: ServiceUpgradeStrategy, error: Exception) -> PluginFailure:
    text = next(iter(str(error).splitlines()), "")
    return PluginFailure(strategy.name, "upgrade_strategy", f"{type(error).__name__}: {text}")
