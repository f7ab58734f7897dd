"""Calls plugins, one by one in name order, and keeps their failures to themselves.

A `PluginManager` is an object passed around; there is no global one. It implements `kuberay.hooks.calls.Hooks` for the
plans, and the start-up hooks through `kuberay.plugins.startup`. Source: anchors.md section 5, items 8 to 11.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from kuberay.api.kinds import JOB, POD, SERVICE
from kuberay.hooks.calls import MutatedPod, NoHooks, PluginFailure, Resources
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep
from kuberay.hooks.types import (
    FeatureGate,
    FinishContext,
    Manifest,
    OwnerContext,
    PodContext,
    PolicyRule,
    Problem,
    UpgradeContext,
    UpgradeStrategy,
    Watch,
)
from kuberay.plugins import answers, startup
from kuberay.plugins.copies import Context, copy_json, copy_owner, owner_of, with_owner
from kuberay.plugins.diff import changed_paths
from kuberay.plugins.loader import Plugin, in_one_line

log = logging.getLogger(__name__)

CORE_CHILDREN = (POD, SERVICE, JOB)
"""Kinds of children the core watches itself; a plugin may return them without naming them in `watches`."""

_CORE_KINDS = frozenset((kind.api_version, kind.kind) for kind in CORE_CHILDREN)
_STRATEGY = "upgrade_strategy"

_REMEMBERED_FAILURES = 1000
"""How many different failures are remembered so that each is logged once."""

Answer = TypeVar("Answer")


class Observer(Protocol):
    """Is told of every call of a hook; the operator's metrics implement it."""

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None: ...


class NoObserver:
    """Nobody looks."""

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        return None


@dataclass(frozen=True, slots=True)
class _Called:
    """A function of a plugin: the hook itself, or a method of what the hook gave."""

    plugin: str
    hook: str
    name: str
    function: Callable[..., Any]


class PluginManager:
    """The enabled plugins. Raises `PluginError` when a start-up hook of one of them is wrong.

    *clock* returns seconds and only measures durations.
    """

    def __init__(
        self,
        plugins: Sequence[Plugin] = (),
        *,
        observer: Observer | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.plugins: Sequence[Plugin] = tuple(sorted(plugins, key=lambda plugin: plugin.name))
        self._observer: Observer = observer or NoObserver()
        self._clock = clock
        self._models = startup.settings_models(self.plugins)
        self._settings: Mapping[str, Any] = {name: model() for name, model in self._models.items()}
        self._watches, kinds = startup.watches(self.plugins)
        self._kinds = {name: _CORE_KINDS | own for name, own in kinds.items()}
        self._strategies: dict[str, tuple[ServiceUpgradeStrategy, str]] = {}
        """The strategies offered for RayServices last, by type, and by which plugin."""
        self._copied_for: OwnerContext | None = None
        self._copies: dict[str, OwnerContext] = {}
        self._logged: dict[tuple[str, str, str], None] = {}

    # Start-up

    def has(self, plugin: str) -> bool:
        """Whether the plugin of that entry point name is enabled."""
        return any(plugin == known.name for known in self.plugins)

    def watches(self) -> Sequence[Watch]:
        """One `Watch` per kind, over all plugins."""
        return self._watches

    def feature_gates(self) -> Mapping[str, Sequence[FeatureGate]]:
        """Gates by plugin name."""
        return startup.feature_gates(self.plugins)

    def settings_models(self) -> Mapping[str, type[Any]]:
        """The pydantic model of each plugin that has settings; they refuse unknown fields."""
        return dict(self._models)

    def configure(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        """Read the ``plugins.<name>`` sections of the configuration. Raises `PluginError` naming the field at fault."""
        self._settings = startup.read_settings(self._models, sections)

    def rbac_rules(self) -> Mapping[str, Sequence[PolicyRule]]:
        """Rules by plugin name."""
        return startup.rbac_rules(self.plugins)

    def add_commands(self, app: Any) -> None:
        """Let each plugin add its sub-commands to *app* (``typer.Typer``)."""
        startup.add_commands(self.plugins, app)

    # Each pass (kuberay.hooks.calls.Hooks)

    def validate(self, ctx: OwnerContext) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
        problems: list[Problem] = []
        failures: list[PluginFailure] = []
        for plugin in self._with("validate"):
            for answer in self._ask(plugin, "validate", ctx, partial(answers.list_of, Problem), failures):
                problems += answer
        return problems, failures

    def ray_start_params(self, ctx: PodContext) -> tuple[dict[str, str], Sequence[PluginFailure]]:
        params: dict[str, str] = {}
        failures: list[PluginFailure] = []
        for plugin in self._with("ray_start_params"):
            for answer in self._ask(plugin, "ray_start_params", ctx, answers.start_params, failures):
                params.update(answer)
        return params, failures

    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> MutatedPod:
        return self._mutate("mutate_pod", ctx, pod)

    def mutate_cluster(self, ctx: PodContext, cluster: Manifest) -> MutatedPod:
        return self._mutate("mutate_cluster", ctx, cluster)

    def pre_create_pods(self, ctx: OwnerContext) -> Resources:
        found = Resources()
        for plugin in self._with("pre_create_pods"):
            check = partial(answers.objects_and_waits, self._kinds[plugin.name])
            for manifests, waits in self._ask(plugin, "pre_create_pods", ctx, check, found.failures):
                found.manifests += manifests
                found.waits += [(plugin.name, wait) for wait in waits]
        return found

    def extra_resources(self, ctx: OwnerContext) -> Resources:
        return self._objects("extra_resources", ctx)

    def finish(self, ctx: FinishContext) -> Resources:
        return self._objects("finish", ctx)

    def upgrade_strategy(self, ctx: UpgradeContext) -> UpgradeStrategy | None:
        """The strategy offered for ``ctx.type``. Of two offers none is taken, for the choice is not the operator's."""
        return next((answer for _, answer in self._offers(ctx, partial(answers.strategy, ctx))), None)

    def service_strategy(self, ctx: UpgradeContext) -> ServiceUpgradeStrategy | None:
        """The same for a RayService."""
        for plugin, answer in self._offers(ctx, partial(answers.service_strategy, ctx)):
            self._strategies[answer.name] = (answer, plugin)
            return answer
        return None

    def service_problems(
        self, strategy: ServiceUpgradeStrategy, owner: OwnerContext
    ) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
        plugin = self._plugin_of(strategy)
        if not plugin:
            return NoHooks().service_problems(strategy, owner)
        failures: list[PluginFailure] = []
        called = _Called(plugin, _STRATEGY, "problems", strategy.problems)
        found = self._call(called, owner, partial(answers.list_of, Problem), failures)
        return [problem for problems in found for problem in problems], failures

    def service_step(
        self, strategy: ServiceUpgradeStrategy, ctx: ServiceUpgradeContext
    ) -> tuple[UpgradeStep | None, Sequence[PluginFailure]]:
        plugin = self._plugin_of(strategy)
        if not plugin:
            return NoHooks().service_step(strategy, ctx)
        failures: list[PluginFailure] = []
        called = _Called(plugin, _STRATEGY, "step", strategy.step)
        found = self._call(called, ctx, partial(answers.upgrade_step, self._kinds[plugin]), failures)
        return found[0] if found else None, failures

    def diagnose(self, ctx: OwnerContext) -> Sequence[str]:
        reasons: list[str] = []
        for plugin in self._with("diagnose"):
            for answer in self._ask(plugin, "diagnose", ctx, answers.sentences, []):
                reasons += answer
        return reasons

    # How a plugin is asked

    def _with(self, hook: str) -> Iterator[Plugin]:
        return (plugin for plugin in self.plugins if hook in plugin.hooks)

    def _ask(
        self,
        plugin: Plugin,
        hook: str,
        ctx: Context,
        check: Callable[[Any], Answer],
        failures: list[PluginFailure],
        *more: Any,
    ) -> Sequence[Answer]:
        """The checked answer of one plugin, or nothing after a failure, which is added to *failures*."""
        return self._call(_Called(plugin.name, hook, hook, plugin.hooks[hook]), ctx, check, failures, *more)

    def _call(
        self,
        called: _Called,
        ctx: Context,
        check: Callable[[Any], Answer],
        failures: list[PluginFailure],
        *more: Any,
    ) -> Sequence[Answer]:
        plugin, hook = called.plugin, called.hook
        started = self._clock()
        failed = True
        try:
            own = with_owner(ctx, self._own_owner(plugin, owner_of(ctx)))
            answer = check(called.function(own, *more))
            failed = False
        except answers.AnswerError as error:
            failures.append(PluginFailure(plugin, hook, f"{called.name}() {error}"))
            self._log_once(plugin, hook, f"{called.name}() {error}")
        except Exception as error:  # noqa: BLE001  whatever a plugin raises is its own failure, never the operator's
            failures.append(PluginFailure(plugin, hook, in_one_line(error)))
            self._log_once(plugin, hook, in_one_line(error), error)
        finally:
            self._observer.hook_called(plugin, hook, self._clock() - started, failed)
        return () if failed else (answer,)

    def _offers(self, ctx: UpgradeContext, check: Callable[[Any], Answer | None]) -> Sequence[tuple[str, Answer]]:
        """The one strategy offered for ``ctx.type``, with its plugin."""
        offers: list[tuple[str, Answer]] = []
        for plugin in self._with(_STRATEGY):
            for answer in self._ask(plugin, _STRATEGY, ctx, check, []):
                offers += [(plugin.name, answer)] if answer is not None else []
        if len(offers) > 1:
            names = " and ".join(repr(name) for name, _ in offers)
            self._log_once(offers[0][0], _STRATEGY, f"plugins {names} both offer {ctx.type!r}: disable one")
            return ()
        return offers

    def _plugin_of(self, strategy: ServiceUpgradeStrategy) -> str:
        """Who offered *strategy*; empty for the core's own."""
        offered, plugin = self._strategies.get(strategy.name, (None, ""))
        return plugin if offered is strategy else ""

    def _own_owner(self, plugin: str, owner: OwnerContext) -> OwnerContext:
        """The plugin's copy of *owner*: one per pass, since copying a spec costs more than most hooks do."""
        if self._copied_for is not owner:
            self._copied_for, self._copies = owner, {}
        copy = self._copies.get(plugin)
        if copy is None:
            copy = self._copies[plugin] = copy_owner(owner, self._settings.get(plugin))
        return copy

    def _objects(self, hook: str, ctx: OwnerContext | FinishContext) -> Resources:
        found = Resources()
        for plugin in self._with(hook):
            check = partial(answers.objects, self._kinds[plugin.name])
            for answer in self._ask(plugin, hook, ctx, check, found.failures):
                found.manifests += answer
        return found

    def _mutate(self, hook: str, ctx: PodContext, manifest: Manifest) -> MutatedPod:
        mutated = MutatedPod(manifest)
        for plugin in self._with(hook):
            given = copy_json(mutated.pod)
            check = partial(answers.changed_manifest, given, mutated.pod)
            for answer in self._ask(plugin, hook, ctx, check, mutated.failures, given):
                paths = changed_paths(mutated.pod, answer) if answer else []
                if answer and paths:
                    mutated.changes[plugin.name] = paths
                    mutated.pod = answer
        return mutated

    def _log_once(self, plugin: str, hook: str, message: str, error: Exception | None = None) -> None:
        key = (plugin, hook, message)
        if key in self._logged:
            return
        if len(self._logged) >= _REMEMBERED_FAILURES:
            self._logged.pop(next(iter(self._logged)))
        self._logged[key] = None
        log.error(
            "plugin %s failed in %s: %s", plugin, hook, message, exc_info=error, extra={"plugin": plugin, "hook": hook}
        )
