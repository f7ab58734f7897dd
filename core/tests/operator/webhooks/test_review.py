"""AdmissionReviews and their answers: what the API server is told, and that nobody is kept from repairing or removing anything."""

from __future__ import annotations

import asyncio
import base64
import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, RAYSERVICE, Kind
from kuberay.hooks.calls import Lane, NoHooks, SlowPluginError
from kuberay.hooks.types import OwnerContext
from kuberay.operator.webhooks.review import LONGEST_WARNING, Reviewer, ReviewError
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob, build_rayservice

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TWICE = [build_group("group1"), build_group("group1")]


def reviewer(**more: Any) -> Reviewer:
    return Reviewer(**{"now": lambda: NOW, "gates": DEFAULT_GATES, **more})


def review(
    after: dict[str, Any] | None, before: dict[str, Any] | None = None, operation: str = "", **more: Any
) -> dict[str, Any]:
    request = {
        "uid": "u-1",
        "operation": operation or ("UPDATE" if before else "CREATE"),
        "namespace": "team",
        "object": after,
        "oldObject": before,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def answer(kind: Kind, asked: dict[str, Any], by: Reviewer | None = None) -> dict[str, Any]:
    told = asyncio.run((by or reviewer()).validate(kind, asked))
    assert (told["apiVersion"], told["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert told["response"]["uid"] == "u-1"
    found: dict[str, Any] = orjson.loads(orjson.dumps(told["response"]))
    return found


def bad(**metadata: Any) -> dict[str, Any]:
    body = build_raycluster("c", workerGroupSpecs=copy.deepcopy(TWICE))
    body["metadata"].update(metadata)
    return body


def good(**metadata: Any) -> dict[str, Any]:
    body = build_raycluster("c")
    body["metadata"].update(metadata)
    return body


def test_what_is_right_is_let_through_without_a_word() -> None:
    assert answer(RAYCLUSTER, review(good())) == {"uid": "u-1", "allowed": True}


def test_a_refusal_is_what_the_api_servers_own_validation_would_say() -> None:
    """O14, as the 422 of KubeRay's webhook."""
    told = answer(RAYCLUSTER, review(bad()))
    assert told["allowed"] is False
    status = told["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    sentence = "worker group names must be unique"
    assert status["message"] == f'RayCluster.ray.io "c" is invalid: spec.workerGroupSpecs[1].groupName: {sentence}'
    assert status["details"] == {
        "name": "c",
        "group": "ray.io",
        "kind": "RayCluster",
        "causes": [
            {"reason": "FieldValueInvalid", "field": "spec.workerGroupSpecs[1].groupName", "message": sentence},
        ],
    }


def test_all_problems_are_told_and_none_says_its_place_twice() -> None:
    body = build_rayjob("j" * 50, backoffLimit=-1)
    body["spec"]["ttlSecondsAfterFinished"] = "soon"
    causes = answer(RAYJOB, review(body))["status"]["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["metadata.name", "spec.ttlSecondsAfterFinished"]
    assert causes[1]["message"] == "Input should be a valid integer"
    assert "no more than 47 characters" in causes[0]["message"]


class TestEdits:
    """Of an object that was wrong before: deletable, un-finalizable, repairable."""

    @pytest.mark.parametrize(
        "metadata",
        [{"finalizers": []}, {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {"ownerReferences": []}],
        ids=str,
    )
    def test_its_metadata_can_be_edited(self, metadata: dict[str, Any]) -> None:
        assert answer(RAYCLUSTER, review(bad(**metadata), bad(finalizers=["x"])))["allowed"]

    def test_a_deleted_one_can_be_edited_in_any_way(self) -> None:
        going = bad(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[])
        going["spec"]["workerGroupSpecs"][0]["minReplicas"] = -5
        assert answer(RAYCLUSTER, review(going, bad(finalizers=["x"]))) == {"uid": "u-1", "allowed": True}

    def test_it_can_be_repaired_bit_by_bit(self) -> None:
        worse = bad()
        worse["spec"]["workerGroupSpecs"] = [*TWICE, build_group("other", minReplicas=-1)]
        told = answer(RAYCLUSTER, review(bad(), worse))
        assert told["allowed"]
        assert told["warnings"] == [
            "spec.workerGroupSpecs[1].groupName: worker group names must be unique (as before this edit, which is therefore "
            "let through)"
        ]
        assert answer(RAYCLUSTER, review(good(), bad())) == {"uid": "u-1", "allowed": True}

    def test_what_a_queue_writes_into_it_is_let_through(self) -> None:
        suspended = bad()
        suspended["spec"]["suspend"] = True
        assert answer(RAYCLUSTER, review(bad(), suspended))["allowed"]

    def test_what_it_makes_wrong_is_refused(self) -> None:
        worse = bad()
        worse["spec"]["upgradeStrategy"] = {"type": "Later"}
        told = answer(RAYCLUSTER, review(worse, bad()))
        assert [cause["field"] for cause in told["status"]["details"]["causes"]] == ["spec.upgradeStrategy.type"]
        assert not answer(RAYCLUSTER, review(bad(), good()))["allowed"]

    def test_an_annotation_that_is_wrong_is_refused_and_can_be_taken_off(self) -> None:
        wrong = build_rayservice("s")
        wrong["metadata"]["annotations"] = {"ray.io/initializing-timeout": "soon"}
        assert not answer(RAYSERVICE, review(wrong, build_rayservice("s")))["allowed"]
        assert answer(RAYSERVICE, review(build_rayservice("s"), wrong))["allowed"]


@pytest.mark.parametrize(
    "asked",
    [
        review(None, bad(), operation="DELETE"),
        review(bad(), operation="CONNECT"),
        review(bad(), good(), subResource="status"),
        review(build_raycluster("c", workerGroupSpecs=TWICE, managedBy="kueue.x-k8s.io/multikueue")),
    ],
    ids=["delete", "connect", "status", "another controller's"],
)
def test_what_is_not_looked_at(asked: dict[str, Any]) -> None:
    assert answer(RAYCLUSTER, asked) == {"uid": "u-1", "allowed": True}


def test_other_namespaces_are_somebody_elses() -> None:
    assert answer(RAYCLUSTER, review(bad()), reviewer(namespaces=["mine"]))["allowed"]
    assert not answer(RAYCLUSTER, review(bad(namespace=None)), reviewer(namespaces=["team"]))["allowed"]
    assert not answer(RAYCLUSTER, review(bad(namespace="mine")), reviewer(namespaces=["mine"]))["allowed"]


@pytest.mark.parametrize(
    ("metadata", "allowed"),
    [
        ({"generateName": "x" * 48}, True),
        ({"generateName": "x" * 49}, False),
        ({"generateName": "x-", "name": None}, True),
    ],
)
def test_a_name_that_is_still_to_be_made_counts_with_its_five_letters(metadata: dict[str, Any], allowed: bool) -> None:
    body = good()
    body["metadata"] = metadata
    assert answer(RAYCLUSTER, review(body))["allowed"] is allowed


@pytest.mark.parametrize("asked", [{}, {"request": None}, {"request": {"uid": 3}}, []])
def test_what_is_no_review(asked: Any) -> None:
    with pytest.raises(ReviewError):
        asyncio.run(reviewer().validate(RAYCLUSTER, asked))
    with pytest.raises(ReviewError):
        reviewer().default(RAYCLUSTER, asked)


@pytest.mark.parametrize(
    "body", [{}, {"metadata": 3}, {"metadata": {"name": 5}}, {"metadata": {"name": "c"}, "spec": []}]
)
def test_what_cannot_be_read_is_let_through_with_a_warning(body: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A fault of ours, or of whoever sent it: every pass looks at the object all the same."""
    told = answer(RAYCLUSTER, review(body))
    assert told["allowed"]
    assert "could not check" in told["warnings"][0]
    assert "cannot review RayCluster" in caplog.text


def test_warnings_are_one_line_each_and_not_too_long() -> None:
    class Warns(NoHooks):
        def has(self, plugin: str) -> bool:
            return True

        def warn(self, ctx: OwnerContext) -> Any:
            from kuberay.hooks.calls import PluginWarning
            from kuberay.hooks.types import Problem

            return [
                PluginWarning("p", Problem("spec.a", "one\n  two")),
                PluginWarning("p", Problem("spec.b", "x" * 999)),
            ], ()

    short, long = answer(RAYCLUSTER, review(good()), reviewer(hooks=Warns()))["warnings"]
    assert short == "spec.a: one two"
    assert len(long) == LONGEST_WARNING
    assert long.endswith("…")


class Slow(NoHooks):
    """A plugin that is not called on the loop, and takes *seconds* elsewhere."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.on_loop = False

    @contextmanager
    def in_lane(self, lane: Lane) -> Iterator[None]:
        self.on_loop = lane is Lane.LOOP
        try:
            yield
        finally:
            self.on_loop = False

    def has(self, plugin: str) -> bool:
        return True

    def validate(self, ctx: OwnerContext) -> Any:
        from kuberay.hooks.types import Problem

        if self.on_loop:
            raise SlowPluginError("sloth")
        time.sleep(self.seconds)
        return [Problem("spec", "the sloth says no")], ()

    def service_strategy(self, ctx: Any, failures: Any = None) -> Any:
        if self.on_loop:
            raise SlowPluginError("sloth")
        time.sleep(self.seconds)
        return None


class TestSlowPlugins:
    """They are asked beside the event loop, and do not make the API server wait in vain."""

    def test_one_that_answers_in_time_counts(self) -> None:
        told = answer(RAYCLUSTER, review(good()), reviewer(hooks=Slow(0)))
        assert told["status"]["details"]["causes"][0]["message"] == "the sloth says no"

    def test_one_that_does_not_is_left_out(self) -> None:
        by = reviewer(hooks=Slow(0.4))
        told = asyncio.run(by.validate(RAYCLUSTER, review(good()), patience=0.1))["response"]
        assert told["allowed"]
        assert told["warnings"] == [
            "plugin sloth takes too long, so plugins were not asked; what they find is told later, as a condition"
        ]
        by.close()

    def test_what_the_core_finds_counts_all_the_same(self) -> None:
        by = reviewer(hooks=Slow(0.4))
        told = asyncio.run(by.validate(RAYCLUSTER, review(bad()), patience=0.1))["response"]
        assert not told["allowed"]
        by.close()

    def test_a_strategy_that_may_be_its_own_is_not_called_unknown(self) -> None:
        by = reviewer(hooks=Slow(0.4))
        body = build_rayservice("s", upgradeStrategy={"type": "OfAPlugin"})
        told = asyncio.run(by.validate(RAYSERVICE, review(body), patience=0.1))["response"]
        assert told["allowed"]
        by.close()


class TestDefaults:
    def patch(self, kind: Kind, asked: dict[str, Any]) -> list[dict[str, Any]] | None:
        told = reviewer().default(kind, asked)["response"]
        assert told["allowed"] is True
        if "patch" not in told:
            return None
        assert told["patchType"] == "JSONPatch"
        found: list[dict[str, Any]] = orjson.loads(base64.b64decode(told["patch"]))
        return found

    def test_of_a_new_object(self) -> None:
        operations = self.patch(RAYJOB, review(build_rayjob("j")))
        assert {"op": "add", "path": "/spec/suspend", "value": False} in (operations or [])

    def test_of_one_whose_name_is_still_to_be_made(self) -> None:
        body = build_rayjob("j")
        body["metadata"] = {"generateName": "j-"}
        assert self.patch(RAYJOB, review(body))

    def test_of_an_edited_spec_but_not_because_of_anything_else(self) -> None:
        """An object from before the webhook is not changed by whoever takes its finalizer off."""
        edited = build_rayjob("j", entrypoint="other")
        assert self.patch(RAYJOB, review(edited, build_rayjob("j")))
        labelled = build_rayjob("j")
        labelled["metadata"]["labels"] = {"a": "b"}
        assert self.patch(RAYJOB, review(labelled, build_rayjob("j"))) is None

    def test_not_of_what_goes_or_is_somebody_elses(self) -> None:
        going = build_rayjob("j", entrypoint="other")
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert self.patch(RAYJOB, review(going, build_rayjob("j"))) is None
        assert self.patch(RAYJOB, review(build_rayjob("j", managedBy="kueue.x-k8s.io/multikueue"))) is None

    def test_what_cannot_be_read_stays(self) -> None:
        assert self.patch(RAYJOB, review({"metadata": {"name": 5}, "spec": {}})) is None
