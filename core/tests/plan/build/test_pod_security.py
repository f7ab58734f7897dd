"""What "restricted" asks for is filled in where nothing was said, and nothing that was said is changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kuberay.plan.build.pod_security import add_restricted_defaults

CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD = {"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": True}


def filled(**spec: Any) -> dict[str, Any]:
    spec.setdefault("containers", [{"name": "a"}])
    add_restricted_defaults(spec)
    return spec


def test_all_containers_of_a_pod_that_says_nothing() -> None:
    made = filled(initContainers=[{"name": "i"}], containers=[{"name": "a"}, {"name": "b", "securityContext": None}])
    assert made["securityContext"] == POD
    assert [c["securityContext"] for c in (*made["initContainers"], *made["containers"])] == [CONTAINER] * 3


def test_what_is_said_stays() -> None:
    context = {"allowPrivilegeEscalation": True, "capabilities": {"drop": ["NET_RAW"]}, "runAsUser": 7}
    made = filled(
        securityContext={"seccompProfile": {"type": "Unconfined"}, "fsGroup": 1},
        containers=[{"name": "a", "securityContext": context}],
    )
    assert made["securityContext"] == {"seccompProfile": {"type": "Unconfined"}, "fsGroup": 1, "runAsNonRoot": True}
    assert made["containers"][0]["securityContext"] == context


@pytest.mark.parametrize(
    ("pod", "context"),
    [
        ({}, {"runAsUser": 0}),
        ({}, {"runAsNonRoot": False}),
        ({"runAsUser": 0}, {}),
    ],
)
def test_who_wants_to_be_root_is_not_kept_from_starting(pod: dict[str, Any], context: dict[str, Any]) -> None:
    """The kubelet starts no container that is root and must not be."""
    other = {"name": "b", "securityContext": {"runAsUser": 5}}
    made = filled(securityContext=dict(pod), containers=[{"name": "a", "securityContext": dict(context)}, other])
    assert "runAsNonRoot" not in made["securityContext"]
    first, second = (c["securityContext"] for c in made["containers"])
    assert first == CONTAINER | context
    assert second == CONTAINER | {"runAsUser": 5, "runAsNonRoot": True}


@pytest.mark.parametrize("context", [{"privileged": True}, {"capabilities": {"add": ["SYS_PTRACE"]}}])
def test_containers_that_are_meant_to_have_more_are_left_alone(context: dict[str, Any]) -> None:
    """The API server refuses privileged containers without escalation; and a dropped capability would be missing."""
    made = filled(containers=[{"name": "a", "securityContext": deepcopy(context)}])
    assert made["containers"][0]["securityContext"] == context


def test_the_one_capability_that_may_be_added() -> None:
    made = filled(containers=[{"name": "a", "securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}}])
    capabilities = {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}
    assert made["containers"][0]["securityContext"] == {**CONTAINER, "capabilities": capabilities}


def test_windows_has_none_of_this() -> None:
    spec = {"os": {"name": "windows"}, "containers": [{"name": "a"}]}
    made = deepcopy(spec)
    add_restricted_defaults(made)
    assert made == spec


contexts = st.fixed_dictionaries(
    {},
    optional={
        "runAsUser": st.sampled_from([0, 1000]),
        "runAsNonRoot": st.booleans(),
        "privileged": st.booleans(),
        "allowPrivilegeEscalation": st.booleans(),
        "seccompProfile": st.just({"type": "Unconfined"}),
        "capabilities": st.fixed_dictionaries({}, optional={"drop": st.just(["X"]), "add": st.just(["SYS_ADMIN"])}),
    },
)


@given(st.lists(st.none() | contexts, min_size=1, max_size=3), st.none() | contexts)
def test_nothing_is_overridden_and_a_second_time_changes_nothing(
    containers: list[dict[str, Any] | None], pod: dict[str, Any] | None
) -> None:
    spec = {"containers": [{"name": "c", "securityContext": c} for c in containers], "securityContext": pod}
    made = deepcopy(spec)
    add_restricted_defaults(made)
    for before, after in zip((spec, *spec["containers"]), (made, *made["containers"]), strict=True):
        said, now = before["securityContext"] or {}, after["securityContext"]
        for key, value in said.items():
            assert now[key] == value or (key == "capabilities" and value.items() <= now[key].items())
    again = deepcopy(made)
    add_restricted_defaults(again)
    assert again == made
