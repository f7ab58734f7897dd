"""Watches plugins while the operator calls them: what each hook was asked and gave, and which promises it broke.

A hook is asked twice with equal arguments, so it must be a function of them; what it does to its arguments, to files,
sockets and processes, and how long it takes, is seen at each call.
"""

from __future__ import annotations

import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import FrameType
from typing import Any

import orjson
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep
from kuberay.hooks.types import OwnerContext, UpgradeStrategy
from kuberay.plugins.copies import copy_json, copy_owner, owner_of, with_owner
from kuberay.plugins.loader import Plugin

_WITH_CONTEXT = frozenset(
    (
        "validate",
        "warn",
        "ray_start_params",
        "mutate_pod",
        "mutate_cluster",
        "pre_create_pods",
        "extra_resources",
        "upgrade_strategy",
        "finish",
        "diagnose",
    )
)

_IO = (
    "open",
    "socket.",
    "subprocess.",
    "os.",
    "shutil.",
    "urllib.",
    "http.",
    "tempfile.",
    "sqlite3.",
    "glob.",
    "pathlib.",
)
_HARMLESS = ("os.putenv", "os.unsetenv")
_listening: list[str] | None = None
_hooked = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a hook, or of a method of the strategy that a hook gave."""

    hook: str
    question: bytes
    """Its arguments as canonical JSON, and what it saw through `ctx.lookup`, `ctx.children` and the like."""
    answer: bytes
    """What it gave back, likewise; empty when it raised."""
    seconds: float


@dataclass(slots=True)
class HookWatch:
    """What was seen. `wrap` a plugin and give the result to a manager."""

    asked: list[Asked] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)
    """Another answer to the same question."""
    meddling: list[str] = field(default_factory=list)
    """Arguments that were changed."""
    outside: list[str] = field(default_factory=list)
    """Files, sockets, processes."""
    odd: list[str] = field(default_factory=list)
    """Answers that are no plain JSON."""
    raised: list[str] = field(default_factory=list)

    def wrap(self, plugin: Plugin) -> Plugin:
        """*plugin*, watched."""
        hooks: Mapping[str, Callable[..., Any]] = {
            name: self._watched(name, function) if name in _WITH_CONTEXT else function
            for name, function in plugin.hooks.items()
        }
        return replace(plugin, hooks=hooks)

    def slowest(self) -> dict[str, float]:
        """By hook, the seconds that half of its calls needed at least."""
        seconds: dict[str, list[float]] = {}
        for each in self.asked:
            seconds.setdefault(each.hook, []).append(each.seconds)
        return {hook: statistics.median(all_of) for hook, all_of in seconds.items()}

    def answers(self) -> dict[tuple[str, bytes], bytes]:
        """By hook and question."""
        return {(each.hook, each.question): each.answer for each in self.asked}

    def _watched(self, hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(ctx: Any, *more: Any) -> Any:
            again = (_copy(ctx), *(copy_json(each) for each in more))
            answer = self._ask(hook, function, (ctx, *more))
            second = self._ask(hook, function, again, quiet=True)
            if canonical(answer) != canonical(second):
                self.unsteady.append(f"{hook}() gave {_short(answer)} and then, asked the same, {_short(second)}")
            if isinstance(answer, ServiceUpgradeStrategy):
                return _WatchedStrategy(answer, self)
            return answer

        return call

    def _ask(self, hook: str, function: Callable[..., Any], given: Sequence[Any], *, quiet: bool = False) -> Any:
        before, settings, seen = canonical(given), _settings(given[0]), dict[str, Any]()
        shown = (_noting(given[0], seen), *given[1:])
        begun = time.perf_counter()
        try:
            answer, outside = _listen(function, shown)
        except Exception as error:
            if not quiet:
                self.raised.append(f"{hook}() raised {type(error).__name__}: {error}")
            raise
        seconds = time.perf_counter() - begun
        self.outside += [f"{hook}() did {each}" for each in outside]
        if canonical(given[:1]) != canonical(orjson.loads(before)[:1]) or settings != _settings(given[0]):
            self.meddling.append(f"{hook}() changed the context it was given")
        if not quiet:
            if (what := _odd(answer)) is not None:
                self.odd.append(f"{hook}() gave back {what}")
            self.asked.append(Asked(hook, before + canonical(seen), canonical(answer), seconds))
        return answer


class _WatchedStrategy(ServiceUpgradeStrategy):
    """A strategy whose methods are watched like hooks."""

    def __init__(self, inner: ServiceUpgradeStrategy, watch: HookWatch) -> None:
        self._inner = inner
        self._watch = watch
        # A strategy says these of itself, on its class; here they are those of the one that is watched.
        vars(self).update(name=inner.name, on_change=inner.on_change, own_services=inner.own_services)

    def problems(self, owner: OwnerContext) -> Any:
        return self._watch._watched("problems", self._inner.problems)(owner)

    def cluster_strategy(self, owner: OwnerContext) -> Any:
        return self._watch._watched("cluster_strategy", self._inner.cluster_strategy)(owner)

    def first_capacity(self, *, first_cluster: bool) -> int | None:
        return self._inner.first_capacity(first_cluster=first_cluster)

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        answer: UpgradeStep = self._watch._watched("step", self._inner.step)(ctx)
        return answer


def canonical(value: Any) -> bytes:
    """*value* as JSON with sorted keys: equal for equal answers. Functions are left out, objects stand as their type."""
    return orjson.dumps(_plain(value), option=orjson.OPT_SORT_KEYS)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, ServiceUpgradeStrategy | UpgradeStrategy):
        return f"strategy {value.name}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        return {name: _plain(item) for name, item in fields.items() if not callable(item) and name != "settings"}
    return f"a {type(value).__name__}"


def _noting(ctx: Any, seen: dict[str, Any]) -> Any:
    """*ctx*, of which *seen* learns what the plugin looks at."""
    owner = owner_of(ctx)
    views = {each.name: getattr(owner, each.name) for each in dataclasses.fields(owner)}
    noting: dict[str, Any] = {name: _note(name, view, seen) for name, view in views.items() if callable(view)}
    return with_owner(ctx, replace(owner, **noting))


def _note(name: str, view: Callable[..., Any], seen: dict[str, Any]) -> Callable[..., Any]:
    def look(*asked: Any) -> Any:
        found = seen[f"{name}{asked}"] = view(*asked)
        return found

    return look


def _settings(ctx: Any) -> Any:
    found = owner_of(ctx).settings
    return found.model_dump() if hasattr(found, "model_dump") else None


def _copy(ctx: Any) -> Any:
    owner = owner_of(ctx)
    return with_owner(ctx, copy_owner(owner, owner.settings))


def _odd(answer: Any) -> str | None:
    """What in an answer is neither JSON nor a type of `kuberay.hooks`; None when all is well."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            if not isinstance(key, str):
                return f"the key {key!r}, which is no string"
            if (found := _odd(value)) is not None:
                return f"{found} at {key!r}"
        return None
    if isinstance(answer, list | tuple):
        return next((found for each in answer if (found := _odd(each)) is not None), None)
    known = answer is None or isinstance(answer, str | int | float | bool)
    ours = isinstance(answer, ServiceUpgradeStrategy | UpgradeStrategy) or dataclasses.is_dataclass(answer)
    return None if known or ours else f"a {type(answer).__name__}"


def _short(value: Any) -> str:
    text = canonical(value).decode()
    return text if len(text) <= 300 else f"{text[:300]}…"


def _listen(function: Callable[..., Any], given: Sequence[Any]) -> tuple[Any, list[str]]:
    """What *function* answers, and what it did outside of its arguments meanwhile."""
    global _listening, _hooked
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True
    heard: list[str] = []
    sleep = time.sleep
    outer, _listening = _listening, heard
    time.sleep = lambda seconds: heard.append(f"time.sleep({seconds})")
    try:
        return function(*given), heard
    finally:
        _listening = outer
        time.sleep = sleep


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _listening is None or not event.startswith(_IO) or event in _HARMLESS or _imports():
        return
    _listening.append(f"{event}({', '.join(map(repr, arguments[:2]))})")


def _imports() -> bool:
    """Whether this happens because a module is imported or a traceback shown."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != __file__:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib") or name.endswith("linecache.py"):
            return True
        frame = frame.f_back
    return False
