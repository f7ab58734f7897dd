"""What counts as use of a Ray cluster, told from the answers of a real dashboard (Ray 2.60) that were written down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kuberay.ray.activity import ACTORS, APPLICATIONS, COMPONENTS, JOBS, MAX_ACTORS, TASKS, Activity, ask_activity


def components(active: str = "INACTIVE", last: float | None = None, **others: str) -> dict[str, Any]:
    told = {"driver": (active, last), **{name: (state, None) for name, state in others.items()}}
    return {
        name: {
            "is_active": state,
            "reason": None if state == "INACTIVE" else "Number of active drivers: 1",
            "timestamp": 1796066015.443696,
            "last_activity_at": end,
        }
        for name, (state, end) in told.items()
    }


def job(status: str, end: int | None, type_: str = "SUBMISSION") -> dict[str, Any]:
    return {
        "type": type_,
        "job_id": None,
        "submission_id": "raysubmit_bYCE1i1Aw5aKdtF5",
        "driver_info": None,
        "status": status,
        "entrypoint": "sleep 8",
        "message": None,
        "error_type": None,
        "start_time": 1796066054918,
        "end_time": end,
        "metadata": {},
        "runtime_env": {},
        "driver_exit_code": None,
    }


def actor(class_name: str, namespace: str, state: str = "ALIVE") -> dict[str, Any]:
    return {
        "actor_id": "9fbf5c814f783ee94cb2582502000000",
        "class_name": class_name,
        "state": state,
        "job_id": "02000000",
        "name": "d",
        "node_id": "be3e2240d9c04453a919fe1f87acdad93ca0683552f14b9ff7889a5d",
        "pid": 2490,
        "ray_namespace": namespace,
    }


TASK = {
    "task_id": "3ca0590f168eaec5ffffffffffffffffffffffff05000000",
    "attempt_number": 0,
    "name": "f",
    "state": "PENDING_NODE_ASSIGNMENT",
    "job_id": "05000000",
    "actor_id": None,
    "type": "NORMAL_TASK",
    "func_or_class_name": "f",
    "node_id": None,
    "error_type": None,
}
CONTROLLER, PROXY = actor("ServeController", "serve"), actor("ProxyActor", "serve")
SUPERVISOR = actor("JobSupervisor", "SUPERVISOR_ACTOR_RAY_NAMESPACE")


def listed(*entries: dict[str, Any], filtered: int | None = None) -> dict[str, Any]:
    count = len(entries) if filtered is None else filtered
    inner = {"total": count, "num_after_truncation": count, "num_filtered": count, "result": list(entries)}
    return {
        "result": True,
        "msg": "",
        "data": {"result": {**inner, "partial_failure_warning": "", "warnings": None}},
    }


def serve(*applications: str) -> dict[str, Any]:
    return {"controller_info": {}, "proxies": {}, "applications": {name: {"name": name} for name in applications}}


class Dashboard:
    """An idle one, with other answers by path."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[str] = []
        paths = {"components": COMPONENTS, "jobs": JOBS, "actors": ACTORS, "tasks": TASKS, "serve": APPLICATIONS}
        self.answers = {COMPONENTS: components(), JOBS: [], ACTORS: listed(), TASKS: listed(), APPLICATIONS: serve()}
        self.answers |= {paths[name]: answer for name, answer in answers.items()}

    async def get(self, path: str) -> bytes:
        self.asked.append(path)
        answer = self.answers[path]
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


ACTIVE = {
    "driver": ({"components": components("ACTIVE")}, "a driver is connected", 1),
    "hook": ({"components": components(notebooks="ACTIVE")}, "notebooks is active", 1),
    "submitted": ({"jobs": [job("SUCCEEDED", 1), job("RUNNING", None)]}, "a submitted job has not ended", 2),
    "pending": ({"jobs": [job("PENDING", None)]}, "a submitted job has not ended", 2),
    "actor": ({"actors": listed(PROXY, actor("A", "7a3f3590"))}, "an actor is alive", 3),
    "actor that waits": ({"actors": listed(actor("A", "", "PENDING_CREATION"))}, "an actor is alive", 3),
    "actor named like Ray's": ({"actors": listed(actor("ServeController", "mine"))}, "an actor is alive", 3),
    "too many actors": ({"actors": listed(PROXY, filtered=MAX_ACTORS + 1)}, "an actor is alive", 3),
    "task": ({"tasks": listed(TASK)}, "a task is waiting or running", 4),
    "replica": ({"actors": listed(CONTROLLER, actor("ServeReplica:app:H", "serve"))}, "an actor is alive", 3),
    "application at zero": (
        {"actors": listed(CONTROLLER, PROXY), "serve": serve("app")},
        "Serve applications are deployed",
        5,
    ),
}


@pytest.mark.parametrize("case", ACTIVE)
async def test_in_use(case: str) -> None:
    answers, reason, questions = ACTIVE[case]
    dashboard = Dashboard(**answers)
    assert await ask_activity(dashboard.get) == Activity(True, reason)
    assert len(dashboard.asked) == questions, "no more is asked than it takes"


IDLE = {
    "never used": ({}, ""),
    "a driver ended": ({"components": components(last=1796066046.946)}, "2026-11-30T19:14:06Z"),
    "a submitted job ended": ({"jobs": [job("FAILED", 1796066065602), job("STOPPED", 0)]}, "2026-11-30T19:14:25Z"),
    "the later one counts": (
        {"components": components(last=1796066050.9), "jobs": [job("SUCCEEDED", 1796066046946, "DRIVER")]},
        "2026-11-30T19:14:10Z",
    ),
    "Ray's own actors": ({"actors": listed(CONTROLLER, PROXY, SUPERVISOR, actor("X", "_ray_internal_dashboard"))}, ""),
}


@pytest.mark.parametrize("case", IDLE)
async def test_idle(case: str) -> None:
    answers, last = IDLE[case]
    assert await ask_activity(Dashboard(**answers).get) == Activity(False, last_end=last)


async def test_serve_is_only_asked_for_where_it_runs() -> None:
    dashboard = Dashboard()
    await ask_activity(dashboard.get)
    assert dashboard.asked == [COMPONENTS, JOBS, ACTORS, TASKS]
    dashboard = Dashboard(actors=listed(CONTROLLER))
    await ask_activity(dashboard.get)
    assert dashboard.asked[-1] == APPLICATIONS


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"components": components("ERROR")}, "Ray cannot tell the activity of driver"),
        ({"components": b"<html>"}, "the answer to /api/component_activities is not as expected"),
        ({"components": []}, "the answer to /api/component_activities is not as expected"),
        ({"jobs": {"detail": "x"}}, "the answer to /api/jobs/ is not as expected"),
        ({"actors": {"result": False, "msg": "timed out", "data": None}}, "timed out"),
        ({"actors": {"result": True, "data": {}}}, "is not as expected"),
        ({"tasks": {"result": True, "msg": "", "data": None}}, "/api/v0/tasks"),
        ({"actors": listed(CONTROLLER), "serve": b"null"}, "the answer to /api/serve/applications/ is not as expected"),
    ],
    ids=str,
)
async def test_what_cannot_be_told(answers: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        await ask_activity(Dashboard(**answers).get)


def test_queries() -> None:
    assert ACTORS == "/api/v0/actors?limit=1000&filter_keys=state&filter_predicates=%21%3D&filter_values=DEAD"
    assert TASKS == (
        "/api/v0/tasks?limit=1&filter_keys=type&filter_predicates=%3D&filter_values=NORMAL_TASK"
        "&filter_keys=state&filter_predicates=%21%3D&filter_values=FINISHED"
        "&filter_keys=state&filter_predicates=%21%3D&filter_values=FAILED"
    )


@pytest.mark.parametrize(
    ("activity", "plain"),
    [
        (Activity(True, "an actor is alive"), {"active": True, "reason": "an actor is alive"}),
        (Activity(False, last_end="x"), {"active": False, "lastEnd": "x"}),
    ],
    ids=["active", "idle"],
)
def test_plain(activity: Activity, plain: dict[str, Any]) -> None:
    assert activity.as_dict() == plain
