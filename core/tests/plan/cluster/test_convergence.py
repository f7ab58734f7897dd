"""Whatever users, kubelets and autoscalers do, in whatever order: the pods end up as the spec says."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kuberay.api.kinds import POD

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("scale"), st.integers(0, 1), st.integers(0, 4)),
        st.tuples(st.just("phase"), st.integers(0, 12), st.sampled_from(["Failed", "Succeeded", "Pending", "Running"])),
        st.tuples(st.just("delete"), st.integers(0, 12), st.just(None)),
        st.tuples(st.just("linger"), st.integers(0, 12), st.booleans()),
        st.tuples(st.just("suspend"), st.just(0), st.booleans()),
        st.tuples(st.just("name"), st.integers(0, 1), st.integers(0, 12)),
        st.tuples(st.just("image"), st.just(0), st.integers(0, 2)),
        st.tuples(st.just("worker image"), st.integers(0, 1), st.integers(0, 2)),
        st.tuples(st.just("drop group"), st.just(1), st.just(None)),
        st.tuples(st.just("look"), st.just(0), st.just(None)),
    ),
    max_size=12,
)

STRATEGIES: list[dict[str, Any]] = [
    {"type": "None"},
    {"type": "Recreate"},
    {"type": "Rolling", "allowHeadRestart": True},
    {"type": "Rolling", "allowHeadRestart": True, "maxUnavailable": 0, "maxSurge": 1},
    {"type": "Rolling", "maxUnavailable": "50%", "maxSurge": "50%"},
]


def act(tiny: Any, action: tuple[str, int, Any]) -> None:
    what, which, value = action
    pods = sorted(tiny.pods)
    pod = pods[which % len(pods)] if pods else ""
    groups = tiny.cluster["spec"]["workerGroupSpecs"]
    if what == "scale" and which < len(groups):
        tiny.edit(lambda spec: spec["workerGroupSpecs"][which].update(replicas=value))
    elif what == "phase" and pod:
        tiny.set_pod(pod, phase=value, ready=value == "Running")
    elif what == "delete" and pod:
        del tiny.objects[POD, pod]
    elif what == "linger":
        tiny.keep_terminating = value
    elif what == "suspend":
        tiny.edit(lambda spec: spec.update(suspend=value))
    elif what == "name" and which < len(groups):
        names = [pods[value % len(pods)]] if pods else []
        tiny.edit(lambda spec: spec["workerGroupSpecs"][which].update(scaleStrategy={"workersToDelete": names}))
    elif what == "image":
        container = {"name": "engine", "image": f"img:{value}"}
        tiny.edit(lambda spec: spec["headGroupSpec"]["template"]["spec"].update(containers=[container]))
    elif what == "worker image" and which < len(groups):
        container = {"name": "helper", "image": f"img:{value}"}
        tiny.edit(lambda spec: spec["workerGroupSpecs"][which]["template"]["spec"].update(containers=[container]))
    elif what == "drop group" and len(groups) > 1:
        tiny.edit(lambda spec: spec["workerGroupSpecs"].pop())


def forget_terminating(tiny: Any) -> None:
    tiny.keep_terminating = False
    for name, body in tiny.pods.items():
        if "deletionTimestamp" in body["metadata"]:
            del tiny.objects[POD, name]


def run_all(tiny: Any) -> None:
    for name in tiny.pods:
        if tiny.pods[name].get("status", {}).get("phase") != "Running":
            tiny.set_pod(name, phase="Running", ready=True)


@pytest.mark.parametrize("hosts", [1, 2])
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, strategy=st.sampled_from(STRATEGIES))
def test_pods_end_up_as_the_spec_says(
    kubernetes: Any, cluster: Any, group: Any, hosts: int, actions: Any, strategy: Any
) -> None:
    body = cluster(groups=[group("a", 2), group("b", 1, numOfHosts=hosts)], upgradeStrategy=strategy)
    tiny = kubernetes(body)
    tiny.settle()
    for action in actions:
        act(tiny, action)
        spec = copy.deepcopy(tiny.cluster["spec"])
        tiny.reconcile()
        assert tiny.cluster["spec"] == spec
        forgotten = [p for p in tiny.pods.values() if "deletionTimestamp" not in p["metadata"]]
        live = [p for p in forgotten if p.get("status", {}).get("phase") not in ("Failed", "Succeeded")]
        heads = [p for p in live if p["metadata"]["labels"]["ray.io/node-type"] == "head"]
        assert len(heads) <= 1
    for _ in range(3):
        forget_terminating(tiny)
        tiny.settle(passes=40)
        run_all(tiny)
    tiny.settle(passes=40)
    wanted = tiny.cluster["spec"]
    if wanted.get("suspend"):
        assert tiny.pods == {}
        assert tiny.status["state"] == "suspended"
        return
    counts = {g["groupName"]: g["replicas"] * g.get("numOfHosts", 1) for g in wanted["workerGroupSpecs"]}
    found = dict.fromkeys(counts, 0)
    places = set()
    for pod in tiny.workers.values():
        labels = pod["metadata"]["labels"]
        found[labels["ray.io/group"]] += 1
        places.add(
            (
                labels["ray.io/group"],
                labels["ray.io/worker-group-replica-index"],
                labels.get("ray.io/replica-host-index"),
            )
        )
    assert found == counts
    assert len(places) == sum(counts.values()), "no place is filled twice"
    assert tiny.head
    assert tiny.status["state"] == "ready"
    assert tiny.plan().stages[1:] == []
    if strategy["type"] == "Rolling":
        templates = {each["groupName"]: each["template"] for each in wanted["workerGroupSpecs"]}
        if strategy.get("allowHeadRestart"):
            templates["headgroup"] = wanted["headGroupSpec"]["template"]
        for pod in tiny.pods.values():
            template = templates.get(pod["metadata"]["labels"]["ray.io/group"])
            if template is not None:
                assert pod["spec"]["containers"][0]["image"] == template["spec"]["containers"][0]["image"]
        assert tiny.condition("RollingUpgrade") is None
