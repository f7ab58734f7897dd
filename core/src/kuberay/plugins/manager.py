"""Calls plugins, one by one in name order, and keeps their failures to themselves.

A `PluginManager` is an object passed around; there is no global one. It implements `kuberay.hooks.calls.Hooks` for the
plans, and the start-up hooks through `kuberay.plugins.startup`. Source: anchors.md section 5, items 8 to 11.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from kuberay.api.kinds import JOB, POD, SERVICE
from kuberay.hooks.calls import Lane, MutatedPod, NoHooks, PluginFailure, PluginWarning, Resources, SlowCall
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep
from kuberay.hooks.tracing import Tracer
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
from kuberay.plugins import checks, startup
from kuberay.plugins.answers import AnswerError
from kuberay.plugins.copies import Context, copy_and_text, copy_owner, owner_of, with_owner
from kuberay.plugins.diff import changed_paths
from kuberay.plugins.loader import Plugin, in_one_line
from kuberay.plugins.pace import Pace
from kuberay.plugins.schedulers import BatchScheduler, find_scheduler

log = logging.getLogger(__name__)

CORE_CHILDREN = (POD, SERVICE, JOB)
"""Kinds of children the core watches itself; a plugin may return them without naming them in `watches`."""

_CORE_KINDS = frozenset((kind.api_version, kind.kind) for kind in CORE_CHILDREN)
_STRATEGY = "upgrade_strategy"

_REMEMBERED_FAILURES = 1000
"""How many different failures are remembered so that each is logged once."""
_LOGGED_AGAIN = 3600.0
"""Seconds after which a failure that goes on is logged again, and one that does not is forgotten."""

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


class _OfThread(threading.local):
    """What belongs to the pass that this thread makes: copies of its owner, and strategies that were offered for it."""

    def __init__(self) -> None:
        self.owner: OwnerContext | None = None
        self.by_plugin: dict[str, OwnerContext] = {}
        self.strategies: dict[str, tuple[Any, str]] = {}
        """Those offered last, by type, and by which plugin."""


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
        self.scheduler: BatchScheduler | None = find_scheduler(self.plugins)
        """The enabled plugin that is the batch scheduler."""
        self._pace = Pace(clock)
        self._own = _OfThread()
        self._hooks: dict[str, tuple[_Called, ...]] = {}
        """Who implements a hook, in name order of the plugins: looked up for each call otherwise."""
        for plugin in self.plugins:
            for hook, function in plugin.hooks.items():
                self._hooks[hook] = (*self._hooks.get(hook, ()), _Called(plugin.name, hook, hook, function))
        self._logged: dict[tuple[str, str, str], float] = {}
        """Failures that were logged, and when. Oldest first."""

    # Start-up

    def has(self, plugin: str) -> bool:
        """Whether the plugin of that entry point name is enabled."""
        return any(plugin == known.name for known in self.plugins)

    def watches(self) -> Sequence[Watch]:
        """One `Watch` per kind, over all plugins."""
        return self._watches

    def in_lane(self, lane: Lane) -> AbstractContextManager[None]:
        """Within it, this thread's hooks are called in *lane*; `SlowPluginError` ends what should be in another."""
        return self._pace.in_lane(lane)

    def slow_calls(self, uid: str) -> Sequence[SlowCall]:
        """Hooks that took too long for the owner with that UID when they were asked last."""
        return self._pace.slow_calls(uid)

    def slow_plugins(self) -> Sequence[str]:
        """Plugins that are called beside the event loop now."""
        return [plugin.name for plugin in self.plugins if self._pace.is_slow(plugin.name)]

    def feature_gates(self) -> Mapping[str, Sequence[FeatureGate]]:
        """Gates by plugin name."""
        return startup.feature_gates(self.plugins)

    def choose_scheduler(self, name: str) -> None:
        """Raises `PluginError` unless *name*, when it is not empty, is the enabled batch scheduler."""
        self.scheduler = find_scheduler(self.plugins, name)

    def settings_models(self) -> Mapping[str, type[Any]]:
        """The pydantic model of each plugin that has settings; they refuse unknown fields."""
        return dict(self._models)

    def configure(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        """Read the ``plugins.<name>`` sections of the configuration. Raises `PluginError` naming the field at fault."""
        self._settings = startup.read_settings(self._models, sections)

    def tracer(self) -> Tracer | None:
        """Where spans go, if a plugin says so; asked with its settings, so after `configure`."""
        return startup.tracer(self.plugins, self._settings)

    def observe(self, observer: Observer) -> None:
        """Tell *observer* of calls from now on, instead of the former one."""
        self._observer = observer

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
        for called in self._with("validate"):
            for answer in self._call(called, ctx, checks.problems, failures):
                problems += answer
        return problems, failures

    def warn(self, ctx: OwnerContext) -> tuple[Sequence[PluginWarning], Sequence[PluginFailure]]:
        warnings: list[PluginWarning] = []
        failures: list[PluginFailure] = []
        for called in self._with("warn"):
            for answer in self._call(called, ctx, checks.problems, failures):
                warnings += [PluginWarning(called.plugin, problem) for problem in answer]
        return warnings, failures

    def ray_start_params(self, ctx: PodContext) -> tuple[dict[str, str], Sequence[PluginFailure]]:
        params: dict[str, str] = {}
        failures: list[PluginFailure] = []
        for called in self._with("ray_start_params"):
            for answer in self._call(called, ctx, checks.parameters, failures):
                params.update(answer)
        return params, failures

    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> MutatedPod:
        return self._mutate("mutate_pod", ctx, pod)

    def mutate_cluster(self, ctx: PodContext, cluster: Manifest) -> MutatedPod:
        return self._mutate("mutate_cluster", ctx, cluster)

    def pre_create_pods(self, ctx: OwnerContext) -> Resources:
        found = Resources()
        for called in self._with("pre_create_pods"):
            check = partial(checks.before_pods, self._kinds[called.plugin], ctx.namespace)
            for answer in self._call(called, ctx, check, found.failures):
                found.manifests += answer.manifests
                found.waits += [(called.plugin, wait) for wait in answer.waits]
                found.secrets += [(called.plugin, secret) for secret in answer.secrets]
                found.annotations += answer.annotations
        return found

    def extra_resources(self, ctx: OwnerContext) -> Resources:
        return self._objects("extra_resources", ctx)

    def finish(self, ctx: FinishContext) -> Resources:
        return self._objects("finish", ctx)

    def upgrade_strategy(
        self, ctx: UpgradeContext, failures: list[PluginFailure] | None = None
    ) -> UpgradeStrategy | None:
        """The strategy offered for ``ctx.type``. Of two offers none is taken, for the choice is not the operator's."""
        return self._offered(ctx, partial(checks.strategy, ctx), failures)

    def recreate_all(self, strategy: UpgradeStrategy, ctx: UpgradeContext) -> tuple[bool, Sequence[PluginFailure]]:
        failures: list[PluginFailure] = []
        called = _Called(self._plugin_of(strategy), _STRATEGY, "recreate_all", strategy.recreate_all)
        found = self._call(called, ctx, checks.yes_or_no, failures)
        return bool(found and found[0]), failures

    def service_strategy(
        self, ctx: UpgradeContext, failures: list[PluginFailure] | None = None
    ) -> ServiceUpgradeStrategy | None:
        """The same for a RayService."""
        return self._offered(ctx, partial(checks.service_strategy, ctx), failures)

    def cluster_strategy(
        self, strategy: ServiceUpgradeStrategy, owner: OwnerContext
    ) -> tuple[Mapping[str, Any] | None, Sequence[PluginFailure]]:
        plugin = self._plugin_of(strategy)
        if not plugin:
            return NoHooks().cluster_strategy(strategy, owner)
        failures: list[PluginFailure] = []
        called = _Called(plugin, _STRATEGY, "cluster_strategy", strategy.cluster_strategy)
        found = self._call(called, owner, checks.mapping, failures)
        return found[0] if found else None, failures

    def service_problems(
        self, strategy: ServiceUpgradeStrategy, owner: OwnerContext
    ) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
        plugin = self._plugin_of(strategy)
        if not plugin:
            return NoHooks().service_problems(strategy, owner)
        failures: list[PluginFailure] = []
        called = _Called(plugin, _STRATEGY, "problems", strategy.problems)
        found = self._call(called, owner, checks.problems, failures)
        return [problem for problems in found for problem in problems], failures

    def service_step(
        self, strategy: ServiceUpgradeStrategy, ctx: ServiceUpgradeContext
    ) -> tuple[UpgradeStep | None, Sequence[PluginFailure]]:
        plugin = self._plugin_of(strategy)
        if not plugin:
            return NoHooks().service_step(strategy, ctx)
        failures: list[PluginFailure] = []
        called = _Called(plugin, _STRATEGY, "step", strategy.step)
        found = self._call(called, ctx, partial(checks.step, self._kinds[plugin], ctx.owner.namespace), failures)
        return found[0] if found else None, failures

    def diagnose(self, ctx: OwnerContext) -> Sequence[str]:
        reasons: list[str] = []
        for called in self._with("diagnose"):
            failures: list[PluginFailure] = []
            for answer in self._call(called, ctx, checks.sentences, failures):
                reasons += answer
            # What is wrong with it is a reason, too, that nobody knows more.
            reasons += [f"plugin {failed.plugin} failed in diagnose: {failed.error}" for failed in failures]
        return reasons

    # How a plugin is asked

    def _with(self, hook: str) -> Sequence[_Called]:
        return self._hooks.get(hook, ())

    def _call(
        self,
        called: _Called,
        ctx: Context,
        check: Callable[[Any], Answer],
        failures: list[PluginFailure],
        *more: Any,
    ) -> Sequence[Answer]:
        """The checked answer of one plugin, or nothing after a failure, which is added to *failures*."""
        plugin, hook = called.plugin, called.hook
        owner = owner_of(ctx)
        self._pace.check(plugin, owner.uid)
        started = self._clock()
        failed = True
        try:
            own = with_owner(ctx, self._own_owner(plugin, owner))
            answer = check(called.function(own, *more))
            failed = False
        except AnswerError as error:
            failures.append(PluginFailure(plugin, hook, f"{called.name}() {error}"))
            self._log_once(plugin, hook, f"{called.name}() {error}", started)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  whatever a plugin raises, sys.exit() included, is its own failure
            failures.append(PluginFailure(plugin, hook, in_one_line(error)))
            self._log_once(plugin, hook, in_one_line(error), started, error)
        finally:
            ended = self._clock()
            seconds = ended - started
            self._pace.note(plugin, hook, owner.uid, seconds, ended)
            self._observer.hook_called(plugin, hook, seconds, failed)
        return () if failed else (answer,)

    def _offered(
        self, ctx: UpgradeContext, check: Callable[[Any], Answer | None], failures: list[PluginFailure] | None
    ) -> Answer | None:
        """The one strategy offered for ``ctx.type``; this thread remembers whose it is."""
        failed: list[PluginFailure] = [] if failures is None else failures
        offers: list[tuple[str, Answer]] = []
        for called in self._with(_STRATEGY):
            for answer in self._call(called, ctx, check, failed):
                offers += [(called.plugin, answer)] if answer is not None else []
        if len(offers) > 1:
            names = " and ".join(repr(name) for name, _ in offers)
            error = f"plugins {names} both offer {ctx.type!r}: disable one"
            failed.append(PluginFailure(offers[0][0], _STRATEGY, error))
            self._log_once(offers[0][0], _STRATEGY, error, self._clock())
            return None
        for name, answer in offers:
            self._own.strategies[ctx.type] = (answer, name)
            return answer
        return None

    def _plugin_of(self, strategy: UpgradeStrategy | ServiceUpgradeStrategy) -> str:
        """Who offered *strategy*; empty for the core's own."""
        offered, plugin = self._own.strategies.get(strategy.name, (None, ""))
        return plugin if offered is strategy else ""

    def _own_owner(self, plugin: str, owner: OwnerContext) -> OwnerContext:
        """The plugin's copy of *owner*: one per pass, since copying a spec costs more than most hooks do."""
        copied = self._own
        if copied.owner is not owner:
            copied.owner, copied.by_plugin = owner, {}
        copy = copied.by_plugin.get(plugin)
        if copy is None:
            copy = copied.by_plugin[plugin] = copy_owner(owner, self._settings.get(plugin))
        return copy

    def _objects(self, hook: str, ctx: OwnerContext | FinishContext) -> Resources:
        found = Resources()
        for called in self._with(hook):
            check = partial(checks.objects, self._kinds[called.plugin], owner_of(ctx).namespace)
            for answer in self._call(called, ctx, check, found.failures):
                found.manifests += answer
        return found

    def _mutate(self, hook: str, ctx: PodContext, manifest: Manifest) -> MutatedPod:
        mutated = MutatedPod(manifest)
        text = b""
        for called in self._with(hook):
            # As long as nobody changes it, each further plugin costs one reading of the same text.
            given, text = copy_and_text(mutated.pod, text)
            check = partial(checks.changed, given, text, mutated.pod)
            for answer in self._call(called, ctx, check, mutated.failures, given):
                paths = changed_paths(mutated.pod, answer) if answer else []
                if answer and paths:
                    mutated.changes[called.plugin] = paths
                    mutated.pod, text = answer, b""
        return mutated

    def _log_once(self, plugin: str, hook: str, message: str, now: float, error: BaseException | None = None) -> None:
        key = (plugin, hook, message)
        for known, at in list(self._logged.items()):
            if now - at < _LOGGED_AGAIN and len(self._logged) < _REMEMBERED_FAILURES:
                break
            self._logged.pop(known, None)
        if key in self._logged:
            return
        self._logged[key] = now
        log.error(
            "plugin %s failed in %s: %s", plugin, hook, message, exc_info=error, extra={"plugin": plugin, "hook": hook}
        )
