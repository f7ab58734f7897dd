"""How much memory a simulated operator itself holds: what can be reached from its runtime and its tasks, and what its modules
keep; the simulator's own objects are left out.

Deterministic, unlike the size of the process: two states with the same contents weigh the same. Also tells which texts of a
given set are still held, and where.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import types
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import _lru_cache_wrapper
from typing import Any

OURS = ("kuberay", "kuberay_")
"""Packages of the operator and its plugins, but not `SIMULATOR`."""
SIMULATOR = "kuberay_testkit"

_STOP = (types.ModuleType, types.BuiltinFunctionType, types.CodeType, type, asyncio.AbstractEventLoop)
"""What lives as long as the process or belongs to all of it."""


@dataclass(slots=True)
class Footprint:
    """One measurement, in bytes and objects."""

    state: int = 0
    """Bytes reached from the runtime and its tasks."""
    caches: int = 0
    """Bytes in caches of functions and in containers of modules."""
    objects: int = 0
    by_type: Counter[str] = field(default_factory=Counter)
    """How many objects of each type the runtime reaches."""

    @property
    def total(self) -> int:
        return self.state + self.caches


def measure(roots: Iterable[object]) -> Footprint:
    """Weigh what *roots* reach, and the modules' caches. Garbage is collected first."""
    gc.collect()
    found = Footprint()
    seen: set[int] = set()
    for obj in _reach(roots, seen):
        found.state += sys.getsizeof(obj)
        found.objects += 1
        found.by_type[type(obj).__qualname__] += 1
    for obj in _reach(caches().values(), seen):
        found.caches += sys.getsizeof(obj)
        found.objects += 1
    return found


def caches() -> Mapping[str, object]:
    """What modules of the operator and its plugins keep besides code, by its name: caches of functions, and containers."""
    kept: dict[str, object] = {}
    for name, module in sorted(sys.modules.items()):
        if not _is_ours(name):
            continue
        for key, value in vars(module).items():
            if isinstance(value, _lru_cache_wrapper | dict | list | set) and not key.startswith("__"):
                kept[f"{name}.{key}"] = value
    return kept


def holders(roots: Iterable[object], texts: Collection[str], *, most: int = 10) -> list[str]:
    """Where a text of *texts* is reached: the text, and the types on the way to it; at most *most* of them."""
    wanted = frozenset(texts)
    parents: dict[int, object] = {}
    found = []
    for obj in _reach(roots, set(), parents):
        if isinstance(obj, str) and obj in wanted:
            found.append(f"{obj} held by {_path(obj, parents)}")
            if len(found) >= most:
                break
    return found


def _path(obj: object, parents: Mapping[int, object]) -> str:
    words: list[str] = []
    while (parent := parents.get(id(obj))) is not None and len(words) < 12:
        words.append(_describe(parent))
        obj = parent
    return " < ".join(words)


def _describe(obj: object) -> str:
    name = type(obj).__qualname__
    if isinstance(obj, dict) and obj and all(isinstance(key, str) for key in list(obj)[:3]):
        return f"{name}({', '.join(list(obj)[:3])})"
    return f"{name} {obj.get_name()}" if isinstance(obj, asyncio.Task) else name


def _reach(roots: Iterable[object], seen: set[int], parents: dict[int, object] | None = None) -> Iterator[object]:
    """Every object reached from *roots*, once; *seen* ones are not gone into again."""
    ready = list(roots)
    kept: list[object] = []  # Ids stay taken while we look.
    seen.update((id(ready), id(kept), id(seen), id(parents)))
    while ready:
        obj = ready.pop()
        if id(obj) in seen or _is_foreign(obj):
            continue
        seen.add(id(obj))
        kept.append(obj)
        yield obj
        for child in _children(obj):
            if id(child) not in seen:
                if parents is not None:
                    parents.setdefault(id(child), obj)
                ready.append(child)


def _children(obj: object) -> Iterable[Any]:
    if isinstance(obj, types.FunctionType):
        # Its globals are its module's; what it closes over may be state.
        return [*(obj.__closure__ or ()), *(obj.__defaults__ or ())]
    return gc.get_referents(obj)


def _is_foreign(obj: object) -> bool:
    """What belongs to the simulator, or to the whole process."""
    if isinstance(obj, _STOP) or obj is None:
        return True
    if isinstance(obj, types.CoroutineType):
        return _is_simulator(obj.cr_code)
    if isinstance(obj, types.AsyncGeneratorType):
        return _is_simulator(obj.ag_code)
    if isinstance(obj, types.GeneratorType):
        return _is_simulator(obj.gi_code)
    if isinstance(obj, types.FrameType):
        return _is_simulator(obj.f_code)
    module = type(obj).__module__
    if isinstance(obj, types.FunctionType):
        module = obj.__module__ or ""
    return isinstance(module, str) and module.partition(".")[0] in (SIMULATOR, "__main__")


def _is_simulator(code: types.CodeType) -> bool:
    return f"/{SIMULATOR}/" in code.co_filename


def _is_ours(module: str) -> bool:
    package = module.partition(".")[0]
    return package != SIMULATOR and (package == OURS[0] or package.startswith(OURS[1]))


def lru_sizes() -> Mapping[str, tuple[int, int | None]]:
    """Present and greatest number of entries of each cache of a function."""
    return {
        name: (info.currsize, info.maxsize)
        for name, cache in caches().items()
        if isinstance(cache, _lru_cache_wrapper) and (info := cache.cache_info())
    }


def process_bytes() -> int:
    """What the whole process has in memory, the simulator included."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
