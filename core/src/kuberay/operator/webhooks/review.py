"""What the API server is answered that asks about one object: an AdmissionReview in, an AdmissionReview out.

Answers are functions of the object and of the operator's settings: nothing in the cluster is looked at. Whatever goes wrong here
refuses nothing, for the same checks are made in each pass. Source: spec operator.md 10.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec
import orjson

from kuberay.api.kinds import Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.problems import Problem
from kuberay.hooks.calls import Hooks, Lane, NoHooks, PluginFailure, SlowPluginError
from kuberay.hooks.service_upgrade import ServiceUpgradeStrategy
from kuberay.hooks.types import UpgradeContext
from kuberay.operator.beside import THREAD_PREFIX
from kuberay.plan.admission.defaults import defaults
from kuberay.plan.admission.edits import is_judged, new_problems
from kuberay.plan.admission.verdict import Verdict, is_foreign, judge
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import Observed

log = logging.getLogger("kuberay.operator.webhooks")

Review = dict[str, Any]

SLOW_THREADS = 4
"""Reviews that wait for a slow plugin at once."""

PATIENCE = 0.4
"""The share of the API server's own patience that a slow plugin may take for one object; of an edit there are two."""

LONGEST_WARNING = 256
"""Letters of a warning that API servers pass on in any case."""


class ReviewError(Exception):
    """What came is no AdmissionReview; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """Answers for all four kinds. *now* is aware, UTC."""

    now: Callable[[], datetime]
    hooks: Hooks = field(default_factory=NoHooks)
    config: Callable[[], PlanConfig] = PlanConfig
    """What is in force now: settings can be changed while the operator runs."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    namespaces: Collection[str] = ()
    """Those that the operator serves; empty: all. Objects elsewhere are somebody else's."""
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(SLOW_THREADS, thread_name_prefix=f"{THREAD_PREFIX}webhooks")
    )

    async def validate(self, kind: Kind, review: Review, patience: float = 10.0) -> Review:
        """The answer to a validating webhook. *patience* is how many seconds the API server waits. Raises `ReviewError`."""
        request = _request(review)
        try:
            before, after = _objects(kind, request)
            if after is None or not self._is_ours(before, after):
                return _allowed(request)
            verdict = await self._verdict(kind, after, patience)
            problems, warnings = verdict.problems, list(verdict.warnings)
            if before is not None and problems:
                found = new_problems((await self._verdict(kind, before, patience)).problems, problems)
                if not found:
                    warnings += [
                        f"{problem} (as before this edit, which is therefore let through)" for problem in problems
                    ]
                problems = found
        except Exception:
            # Nobody may be kept from editing an object by a fault of ours.
            log.exception("cannot review %s %s", kind.kind, request.get("name"))
            return _allowed(request, ["the operator could not check this object; its log says why"])
        if problems:
            return _refused(kind, request, after.name, problems, warnings)
        return _allowed(request, warnings)

    def default(self, kind: Kind, review: Review) -> Review:
        """The answer to a mutating webhook: a patch with defaults, of an object that is new or whose spec is edited. Raises
        `ReviewError`."""
        request = _request(review)
        try:
            before, after = _objects(kind, request)
            if after is None or not self._is_ours(before, after):
                return _allowed(request)
            if before is not None and before.spec == after.spec:
                return _allowed(request)
            operations = defaults(kind, after.spec, self.config())
        except Exception:
            log.exception("cannot find the defaults of %s %s", kind.kind, request.get("name"))
            return _allowed(request)
        if not operations:
            return _allowed(request)
        patch = base64.b64encode(orjson.dumps(operations)).decode()
        return _answer(request, {"allowed": True, "patchType": "JSONPatch", "patch": patch})

    def close(self) -> None:
        """A plugin that still computes is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _is_ours(self, before: RayObject | None, after: RayObject) -> bool:
        if self.namespaces and after.namespace not in self.namespaces:
            return False
        return not is_foreign(after) and (before is None or is_judged(before, after))

    async def _verdict(self, kind: Kind, obj: RayObject, patience: float) -> Verdict:
        """What is said of *obj*. A slow plugin is waited for beside the event loop, and not for ever."""
        observed = Observed(obj=obj, now=self.now(), config=self.config(), gates=self.gates, hooks=self.hooks)
        try:
            with self.hooks.in_lane(Lane.LOOP):
                return judge(kind, observed)
        except SlowPluginError as slow:
            name = str(slow)
        # What is made of the spec is kept with the object, and the thread may go on after the answer.
        apart = replace(observed, obj=msgspec.structs.replace(obj, parsed=None))
        task = asyncio.get_running_loop().run_in_executor(self._threads, judge, kind, apart)
        done, _ = await asyncio.wait([task], timeout=patience * PATIENCE)
        if done:
            return task.result()
        task.cancel()
        verdict = judge(kind, replace(observed, hooks=_Unasked(self.hooks)))
        told = f"plugin {name} takes too long, so plugins were not asked; what they find is told later, as a condition"
        return Verdict(verdict.problems, [*verdict.warnings, told])


class _Unasked(NoHooks):
    """No plugin, but what depends on which ones there are stays as it is."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    def has(self, plugin: str) -> bool:
        return self._hooks.has(plugin)

    def service_strategy(
        self, ctx: UpgradeContext, failures: list[PluginFailure] | None = None
    ) -> ServiceUpgradeStrategy | None:
        # Of whichever type: nobody says that there is none.
        unasked: type[ServiceUpgradeStrategy] = type("Unasked", (ServiceUpgradeStrategy,), {"name": ctx.type})
        return unasked()


def _request(review: Review) -> Mapping[str, Any]:
    request = review.get("request") if isinstance(review, dict) else None
    if not isinstance(request, dict) or not isinstance(request.get("uid"), str):
        raise ReviewError("the body is no AdmissionReview with a request")
    return request


def _objects(kind: Kind, request: Mapping[str, Any]) -> tuple[RayObject | None, RayObject | None]:
    """The object before and after; the latter is None where nothing is to be looked at."""
    operation = request.get("operation")
    if operation not in ("CREATE", "UPDATE") or request.get("subResource"):
        return None, None
    before = _object(kind, request, "oldObject") if operation == "UPDATE" else None
    return before, _object(kind, request, "object")


def _object(kind: Kind, request: Mapping[str, Any], key: str) -> RayObject:
    body = request.get(key)
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise ValueError(f"request.{key} is no object with metadata")
    metadata = {name: value for name, value in body["metadata"].items() if value is not None}
    if not metadata.get("name"):
        # A name that is still to be made has five letters more.
        metadata["name"] = request.get("name") or f"{metadata.get('generateName', '')}xxxxx"
    metadata.setdefault("namespace", request.get("namespace") or "")
    parts = {name: {} if body.get(name) is None else body[name] for name in ("spec", "status")}
    obj = from_dict(kind, {**body, "metadata": metadata, **parts})
    assert isinstance(obj, RayObject)
    return obj


def _allowed(request: Mapping[str, Any], warnings: Sequence[str] = ()) -> Review:
    return _answer(request, {"allowed": True}, warnings)


def _refused(
    kind: Kind, request: Mapping[str, Any], name: str, problems: Sequence[Problem], warnings: Sequence[str]
) -> Review:
    """422 as from the API server's own validation, each problem with its field."""
    sentences = "; ".join(str(problem) for problem in problems)
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f'{kind.kind}.{kind.group} "{name}" is invalid: {sentences}',
        "details": {
            "name": name,
            "group": kind.group,
            "kind": kind.kind,
            "causes": [
                {"reason": "FieldValueInvalid", "field": problem.path, "message": _without_path(problem)}
                for problem in problems
            ],
        },
    }
    return _answer(request, {"allowed": False, "status": status}, warnings)


def _without_path(problem: Problem) -> str:
    """The sentence for a place where the field stands in front of it already."""
    return problem.told.removeprefix(f"{problem.path}: ")


def _answer(request: Mapping[str, Any], answer: Mapping[str, Any], warnings: Sequence[str] = ()) -> Review:
    response = {"uid": request["uid"], **answer}
    if warnings:
        # They travel in a header: one line each.
        told = (" ".join(sentence.split()) for sentence in warnings)
        response["warnings"] = [s if len(s) <= LONGEST_WARNING else f"{s[: LONGEST_WARNING - 1]}…" for s in told]
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
