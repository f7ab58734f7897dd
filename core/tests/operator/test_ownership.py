"""Whose an object is that has the name of a wanted one: its controller's, its only owner's, or nobody's of ours."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER, SERVICE
from kuberay.api.objects import RayObject, from_dict
from kuberay.operator.ownership import is_foreign, is_in_the_way
from kuberay.plan.model import Apply

OURS = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": "u-1"}
OTHER = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "other", "uid": "u-2"}


def controlling(reference: dict[str, Any]) -> dict[str, Any]:
    return {**reference, "controller": True}


@pytest.mark.parametrize(
    ("references", "foreign", "in_the_way"),
    [
        ([controlling(OURS)], False, False),
        ([controlling(OTHER)], True, True),
        ([controlling(OTHER), OURS], True, True),
        ([OURS], True, False),
        ([OTHER, OURS], True, False),
        ([OTHER], True, True),
        ([], True, True),
    ],
)
def test_what_nobody_controls_is_that_of_the_owner_with_which_it_is_collected(
    references: list[dict[str, Any]], foreign: bool, in_the_way: bool
) -> None:
    owner = from_dict(RAYCLUSTER, {"metadata": {"name": "rc", "namespace": "ns", "uid": "u-1"}, "spec": {}})
    assert isinstance(owner, RayObject)
    live = from_dict(SERVICE, {"metadata": {"name": "s", "namespace": "ns", "uid": "s", "ownerReferences": references}})
    body = {"metadata": {"name": "s", "ownerReferences": [controlling(OURS)]}}
    write = Apply(kind=SERVICE, namespace="ns", name="s", body=body)
    assert is_foreign(live, owner, body) is foreign
    assert is_in_the_way(live, owner, write) is in_the_way
