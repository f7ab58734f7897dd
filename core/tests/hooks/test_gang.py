"""The size of a gang: pods that are wanted or the least of them, what they request, and never the submitter's pod."""

from __future__ import annotations

import pytest
from kuberay.hooks.gang import NOTHING, GangSize, add_requests, gang_size, submitter_requests
from kuberay.hooks.types import GroupSize

HEAD = GroupSize("headgroup", 1, 1, {"cpu": "500m", "memory": "1Gi"})
WORKERS = GroupSize("small", 4, 1, {"cpu": "1", "nvidia.com/gpu": "2"}, raw_desired=9)
SUSPENDED = GroupSize("rests", 0, 0, {"memory": "9Gi"})
SUBMITTER = GroupSize("submittergroup", 1, 1, {"cpu": "250m"})


@pytest.mark.parametrize(
    ("groups", "at_minimum", "expected"),
    [
        ([], False, NOTHING),
        ([HEAD], False, GangSize(1, {"cpu": "500m", "memory": "1Gi"})),
        ([HEAD, WORKERS], False, GangSize(5, {"cpu": "4500m", "memory": "1Gi", "nvidia.com/gpu": "8"})),
        ([HEAD, WORKERS], True, GangSize(2, {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"})),
        ([HEAD, WORKERS, SUBMITTER], False, GangSize(5, {"cpu": "4500m", "memory": "1Gi", "nvidia.com/gpu": "8"})),
        ([HEAD, SUSPENDED], True, GangSize(1, {"cpu": "500m", "memory": "1Gi"})),
    ],
)
def test_sizes(groups: list[GroupSize], at_minimum: bool, expected: GangSize) -> None:
    assert gang_size(groups, at_minimum=at_minimum) == expected


def test_what_the_submitter_requests() -> None:
    assert submitter_requests([HEAD, WORKERS, SUBMITTER]) == {"cpu": "250m"}
    assert submitter_requests([HEAD, WORKERS]) == {}


def test_requests_add_up_by_name() -> None:
    assert add_requests([{"cpu": "500m"}, {}, {"memory": "1Gi", "cpu": "1500m"}]) == {"cpu": "2", "memory": "1Gi"}
    assert add_requests([]) == {}
