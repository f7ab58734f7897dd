"""Every recorded case in this version's scope, replayed on a real API server: children, status and events as KubeRay's.

All cases that want the same operator run side by side, each in its own namespace.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest
from golden_scope import CASES, DIFFERENT, OBSERVED_GENERATION, SERVICE_CASES, folder, operator_words, without_ours
from kube_world import CHILD_KINDS, RAY_KINDS, Operator, World, kind_of
from kuberay.api.names import pod_name_prefix
from kuberay.kube.client import Client
from kuberay.kube.connection import connect
from kuberay.kube.errors import ApiError
from kuberay.kube.http import HttpTransport
from kuberay_testkit.golden import GoldenCase, Outcome, differences, load_case, main_key, normalise

Result = Outcome | Exception


def _flags(case: GoldenCase) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    words = shlex.split(case.operator)
    flags = tuple(word for word in words if word.startswith("-"))
    env = tuple(tuple(word.split("=", 1)) for word in words if not word.startswith("-") and "=" in word)
    return flags, env  # type: ignore[return-value]


def _load(name: str) -> GoldenCase:
    case = load_case(folder(name))
    return replace(case, operator=case.operator + operator_words(name))


LOADED = {name: _load(name) for name in CASES}


USUAL = ((), ())
"""Flags and variables of the operator that most cases want."""


def _usual(names: Iterable[str]) -> list[str]:
    """Those that want the usual operator."""
    return sorted(name for name in names if _flags(LOADED[name]) == USUAL)


def _others(names: Iterable[str]) -> list[str]:
    """The others, those side by side that want the same."""
    found = (name for name in names if _flags(LOADED[name]) != USUAL)
    return sorted(found, key=lambda name: (_flags(LOADED[name]), name))


class Replays:
    """Results by case; a group of cases with the same operator is played when its first case is asked for."""

    def __init__(self, operators: Operator) -> None:
        self._operators = operators
        self._results: dict[str, Result] = {}
        self.conditions: dict[str, list[dict[str, Any]]] = {}

    def result(self, name: str) -> Result:
        if name not in self._results:
            wanted = _flags(LOADED[name])
            group = [other for other in CASES if _flags(LOADED[other]) == wanted]
            self._operators.ensure(wanted[0], dict(wanted[1]))
            played = asyncio.run(_play_all(group))
            self._results.update(played)
            for case, result in played.items():
                if isinstance(result, Outcome):
                    self.conditions[case] = list((result.main.get("status") or {}).get("conditions") or ())
        return self._results[name]


@pytest.fixture(scope="module")
def replays(operators: Operator) -> Replays:
    return Replays(operators)


@pytest.mark.parametrize("name", _usual(CASES))
def test_equals_the_recorded_case(replays: Replays, name: str, request: pytest.FixtureRequest) -> None:
    if name in DIFFERENT:
        request.applymarker(pytest.mark.xfail(reason=DIFFERENT[name], strict=True, raises=AssertionError))
    case, result = LOADED[name], replays.result(name)
    rejected = case.expected.get("rejected")
    if rejected is not None:
        assert isinstance(result, ApiError), f"accepted, but should be refused: {rejected['message']}"
        assert result.status == rejected["code"]
        return
    assert isinstance(result, Outcome), result
    if name in OBSERVED_GENERATION:
        case.expected["status"]["observedGeneration"] = OBSERVED_GENERATION[name]
    _drop_our_own(result.main)
    for child in result.children:
        _drop_our_own(child)
    diff = differences(case, normalise(result))
    assert not diff, f"\n{diff}"


def _drop_our_own(obj: dict[str, Any]) -> None:
    """Conditions KubeRay does not have (docs/differences.md) are not part of what was recorded."""
    status = obj.get("status") or {}
    conditions = without_ours(obj["kind"], status.get("conditions") or ())
    if "conditions" in status:
        status["conditions"] = conditions
        if not conditions:
            del status["conditions"]


PODS_REFUSED = ("invalid/pod-refused", "invalid/worker-pod-refused")
"""Here nothing is wrong with the object itself; the API server refuses its pods, which `ReplicaFailure` tells."""


REFUSED = [name for name in CASES if name.startswith("invalid/") and name not in (*PODS_REFUSED, *SERVICE_CASES)]


@pytest.mark.parametrize("name", _usual(REFUSED))
def test_a_refused_object_says_so_in_a_condition(replays: Replays, name: str) -> None:
    result = replays.result(name)
    if "rejected" in LOADED[name].expected:
        assert isinstance(result, ApiError)
        return
    assert isinstance(result, Outcome), result
    conditions = {c["type"]: c for c in replays.conditions[name]}
    found = next(c for kind, c in conditions.items() if kind in ("RayClusterSpecValid", "Accepted"))
    assert found["status"] == "False"
    # The field, then what is wrong with it; a sentence that begins with the field does not name it twice.
    assert re.match(r"(spec|metadata)\S*:? .+", found["message"])


@pytest.mark.parametrize("name", [name for name in SERVICE_CASES if name.startswith("invalid/")])
def test_a_refused_service_says_so_in_a_condition(replays: Replays, name: str) -> None:
    result = replays.result(name)
    assert isinstance(result, Outcome), result
    ready = next(c for c in replays.conditions[name] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ValidationFailed")
    assert re.match(r"The RayService (spec|metadata) is invalid: .", ready["message"])


class TestOtherOperators:
    """The same of cases that want another operator: a class, so that another worker plays them (``--dist loadscope``)."""

    @pytest.mark.parametrize("name", _others(CASES))
    def test_equals_the_recorded_case(self, replays: Replays, name: str, request: pytest.FixtureRequest) -> None:
        test_equals_the_recorded_case(replays, name, request)

    @pytest.mark.parametrize("name", _others(REFUSED))
    def test_a_refused_object_says_so_in_a_condition(self, replays: Replays, name: str) -> None:
        test_a_refused_object_says_so_in_a_condition(replays, name)


async def _play_all(names: Iterable[str]) -> dict[str, Result]:
    transport = HttpTransport(await connect(), user_agent="kuberay-tests")
    client = Client(transport, field_manager="tests")
    limit = asyncio.Semaphore(24)

    async def one(name: str) -> tuple[str, Result]:
        async with limit:
            try:
                return name, await _play(client, LOADED[name], _wait(name))
            except Exception as error:
                return name, error

    try:
        return dict(await asyncio.gather(*(one(name) for name in names)))
    finally:
        await transport.close()


async def _play(client: Client, case: GoldenCase, wait: float) -> Outcome:
    async with World.create(client, case.namespace) as world:
        given: set[tuple[str, str]] = set()
        generated: set[str] = set()
        for step in case.steps:
            for document in step:
                given.add((document["kind"], document["metadata"]["name"]))
                if "golden/delete" in document["metadata"].get("annotations", {}):
                    await world.delete(kind_of(document), document["metadata"]["name"])
                else:
                    await world.put(document)
                if document["kind"] == "ResourceQuota":
                    await world.eventually(partial(_in_force, world, document), what="the quota is in force")
            applied = time.monotonic()
            with suppress(AssertionError):  # some are nobody's to look at
                await world.eventually(partial(_looked_at, world, step), seconds=10)
            await world.settled(quiet=2.0, most=25.0)
            generated |= set(_worker_prefixes(step))
            generated |= {
                pod["metadata"]["generateName"] for pod in await world.pods() if "generateName" in pod["metadata"]
            }
        # Some cases are about what comes by itself: they were looked at so many seconds after the last step.
        if (left := wait - (time.monotonic() - applied)) > 0:
            await asyncio.sleep(left)
            await world.settled(quiet=2.0, most=25.0)
        kind, name = main_key([document for step in case.steps for document in step])
        ray_objects = [found for ray_kind in RAY_KINDS for found in await world.list(ray_kind)]
        main = next(o for o in ray_objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
        children = [
            child
            for child_kind in dict.fromkeys((*CHILD_KINDS, *RAY_KINDS))
            for child in await world.list(child_kind)
            if (child["kind"], child["metadata"]["name"]) not in given
            and child["metadata"]["name"] != "default"
            and "batch.kubernetes.io/job-name" not in child["metadata"].get("labels", {})
        ]
        return Outcome(
            main=main,
            children=[orjson.loads(orjson.dumps(child)) for child in children],
            events=[_event(event) for event in await world.events() if event["regarding"]["kind"].startswith("Ray")],
            generate_names=generated,
            any_index=case.any_index,
        )


async def _looked_at(world: World, documents: Iterable[dict[str, Any]]) -> bool:
    """Whether each Ray object has a status of its present spec: an operator that has many of them may need a while."""
    for document in documents:
        if document["kind"].startswith("Ray") and "golden/delete" not in document["metadata"].get("annotations", {}):
            live = await world.get(kind_of(document), document["metadata"]["name"])
            status, generation = live.get("status") or {}, live["metadata"]["generation"]
            if not status or status.get("observedGeneration", generation) != generation:
                return False
    return True


async def _in_force(world: World, quota: dict[str, Any]) -> bool:
    """Whether the quota's controller has looked at it; before that it limits nothing."""
    live = await world.get(kind_of(quota), quota["metadata"]["name"])
    return bool((live.get("status") or {}).get("hard"))


def _wait(name: str) -> float:
    """The seconds that the first lines of a case ask for."""
    asked = re.search(r"^# wait: (\d+)", (folder(name) / "input.yaml").read_text(), re.MULTILINE)
    return float(asked[1]) if asked else 0.0


def _worker_prefixes(documents: Iterable[dict[str, Any]]) -> Iterable[str]:
    """Name prefixes of pods that may never come to be (a quota refuses them) but are named in messages."""
    for document in documents:
        spec = document.get("spec") or {}
        for group in spec.get("workerGroupSpecs") or () if isinstance(spec, dict) else ():
            if isinstance(group, dict) and "groupName" in group:
                yield pod_name_prefix(f"{document['metadata']['name']}-{group['groupName']}", "worker")


def _event(event: dict[str, Any]) -> dict[str, Any]:
    return {
        "about": event["regarding"]["kind"],
        "type": event["type"],
        "reason": event["reason"],
        "message": event.get("note", ""),
    }


def test_the_scope_names_existing_cases() -> None:
    assert all((folder(name) / "input.yaml").is_file() for name in CASES)
    assert set(DIFFERENT) <= set(CASES)
