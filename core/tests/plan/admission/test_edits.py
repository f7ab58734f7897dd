"""An edit answers for what it makes wrong, and for nothing that was wrong before."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.problems import Problem
from kuberay.plan.admission.edits import is_judged, new_problems


def cluster(spec: dict[str, Any] | None = None, **metadata: Any) -> RayObject:
    obj = from_dict(RAYCLUSTER, {"metadata": {"name": "c", **metadata}, "spec": spec or {"a": 1}, "status": {}})
    assert isinstance(obj, RayObject)
    return obj


@pytest.mark.parametrize(
    ("after", "judged"),
    [
        (cluster(), False),
        (cluster(finalizers=["x"], ownerReferences=[], resourceVersion="9"), False),
        (cluster(labels={"a": "b"}), True),
        (cluster(annotations={"a": "b"}), True),
        (cluster({"a": 2}), True),
        (cluster({"a": 2}, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"]), False),
    ],
)
def test_what_is_judged(after: RayObject, judged: bool) -> None:
    assert is_judged(cluster(), after) is judged


A = Problem("spec.workerGroupSpecs[0].minReplicas", "worker group a has negative minReplicas -1")
B = Problem("spec.workerGroupSpecs[1].minReplicas", "worker group b has negative minReplicas -1")
B_MOVED = Problem("spec.workerGroupSpecs[0].minReplicas", B.message)
NAMELESS = Problem("spec.workerGroupSpecs[0].groupName", "worker group name must not be empty")
NAMELESS_TOO = Problem("spec.workerGroupSpecs[1].groupName", NAMELESS.message)


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ([], [A], [A]),
        ([A], [A], []),
        ([A], [], []),
        ([A, B], [B], []),
        ([A, B], [B_MOVED], []),
        ([A], [A, B], [B]),
        ([A], [Problem(A.path, "worker group a has negative minReplicas -2")], None),
        ([NAMELESS], [NAMELESS, NAMELESS_TOO], [NAMELESS_TOO]),
    ],
)
def test_what_an_edit_made(before: list[Problem], after: list[Problem], new: list[Problem] | None) -> None:
    assert new_problems(before, after) == (after if new is None else new)
