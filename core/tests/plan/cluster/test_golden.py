"""Every recorded RayCluster case, planned on a tiny Kubernetes: children, status and events as KubeRay made them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import INGRESS, POD, SERVICE_ACCOUNT
from kuberay.operator.environment import read_environment
from kuberay.operator.settings import load_settings
from kuberay.plan.model import Create, Write
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.golden import GoldenCase, Outcome, differences, load_case, main_key, normalise

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "raycluster"
CASES = sorted(folder.name for folder in GOLDEN.iterdir())

ANOTHER_WAY = {
    "autoscale-sa-missing": "a condition and the head service are there while the pods wait",
    "group-removed": "pods of a removed group are deleted (RC-03)",
    "suspend-field-removed": "absent suspend means false, so the cluster resumes",
}
"""Cases whose outcome differs as a whole, on purpose (docs/differences); each has a test of its own below."""


def _follow_moved_ports(expected: dict[str, Any]) -> None:
    """RC-16 and ME-03: the head service follows moved ports, and a pod's port for metrics is the one it serves at."""
    moved = {"client": 10100, "dashboard": 8300, "gcs-server": 6390, "metrics": 8090}
    for pod in (child for child in expected["children"] if child["kind"] == "Pod"):
        (metrics,) = pod["spec"]["containers"][0]["ports"]
        metrics["containerPort"] = 8090 if pod["metadata"]["labels"]["ray.io/group"] == "headgroup" else 8091
    (service,) = [child for child in expected["children"] if child["kind"] == "Service"]
    for port in service["spec"]["ports"]:
        port["port"] = moved.get(port["name"], port["port"])
    expected["status"]["endpoints"] |= {name: str(port) for name, port in moved.items()}


def _select_the_head_that_is_there(expected: dict[str, Any]) -> None:
    """The selector carries the label that the user's template put on the head pod."""
    (service,) = [child for child in expected["children"] if child["kind"] == "Service"]
    service["spec"]["selector"]["ray.io/identifier"] = "me"


def _say_only_what_happened(expected: dict[str, Any]) -> None:
    """No event about deleted pods where none were."""
    expected["events"] = [event for event in expected["events"] if event["reason"] != "DeletedWorkerPod"]


def _show_the_conflict(expected: dict[str, Any]) -> None:
    """A condition says what the event said, for as long as it is so."""
    message = "Ingress g-ingress-collision/ingtaken-head-ingress already exists and is not owned by this RayCluster; "
    condition = {"type": "IngressConflict", "status": "True", "reason": "NotOwned", "lastTransitionTime": "<time>"}
    expected["status"]["conditions"].append({**condition, "message": f"{message}not modifying it"})


def _keep_the_generation(expected: dict[str, Any]) -> None:
    """The finalizer is patched in, which leaves the spec and its generation alone."""
    expected["status"]["observedGeneration"] = 1


ON_PURPOSE: dict[str, Callable[[dict[str, Any]], None]] = {
    "gcsft-delete-job": _keep_the_generation,
    "ingress-collision": _show_the_conflict,
    "params-ports": _follow_moved_ports,
    "reserved-labels": _select_the_head_that_is_there,
    "suspend-group": _say_only_what_happened,
}
"""What of a recorded outcome this operator does differently, as an edit of the recording."""


@pytest.mark.parametrize("name", [name for name in CASES if name not in ANOTHER_WAY])
def test_case(name: str, kubernetes: Any) -> None:
    case = load_case(GOLDEN / name)
    ON_PURPOSE.get(name, lambda expected: None)(case.expected)
    assert differences(case, run(case, kubernetes)) == ""


def test_missing_service_account_holds_pods_back_and_says_so(kubernetes: Any) -> None:
    case = load_case(GOLDEN / "autoscale-sa-missing")
    outcome = run(case, kubernetes)
    assert [child["kind"] for child in outcome["children"]] == ["Service"]
    assert [event for event in outcome["events"] if event["type"] == "Warning"] == case.expected["events"]
    conditions = {condition["type"]: condition for condition in outcome["status"]["conditions"]}
    assert "ServiceAccount ghost is not found" in conditions["PodsWaiting"]["message"]
    assert "state" not in outcome["status"]


def test_pods_of_a_removed_group_go(kubernetes: Any) -> None:
    case = load_case(GOLDEN / "group-removed")
    outcome = run(case, kubernetes)
    groups = [child["metadata"]["labels"].get("ray.io/group") for child in outcome["children"]]
    assert sorted(filter(None, groups)) == ["crew", "headgroup"]
    told = [event["message"] for event in outcome["events"] if event["reason"] == "DeletedWorkerPod"]
    assert told == [
        'Deleted worker Pod g-group-removed/drop-gone-worker-<rand>: worker group "gone" is no longer in the spec'
    ]
    assert outcome["status"]["state"] == "ready"


def test_taking_suspend_away_resumes(kubernetes: Any) -> None:
    outcome = run(load_case(GOLDEN / "suspend-field-removed"), kubernetes)
    assert outcome["status"]["state"] == "ready"
    assert [child["kind"] for child in outcome["children"]] == ["Pod", "Pod", "Service"]


def test_the_operators_configuration(kubernetes: Any) -> None:
    """Sidecars, environment, labels and annotations for all pods, from a configuration file."""
    folder = GOLDEN.parent / "operator" / "config-defaults"
    settings = load_settings(str(folder / "operator-config.yaml"), {})
    config = read_environment({}).plan_config(settings, "1.2.3")
    case = load_case(folder)
    assert differences(case, run(case, partial(kubernetes, config=config))) == ""


def _a_head_is_being_made(expected: dict[str, Any]) -> None:
    """Not found is what was there before (RC-34)."""
    (ready,) = [c for c in expected["status"]["conditions"] if c["type"] == "HeadPodReady"]
    ready.update(reason="HeadPodCreating", message="Head Pod is being created")


@pytest.mark.parametrize(
    ("name", "on_purpose"), [("pod-refused", _a_head_is_being_made), ("worker-pod-refused", lambda expected: None)]
)
def test_pods_that_the_api_server_refuses(name: str, on_purpose: Callable[[Any], None], kubernetes: Any) -> None:
    """The same events and the same condition, however often it is tried again."""
    case = load_case(GOLDEN.parent / "invalid" / name)
    on_purpose(case.expected)

    def strict(*given: Any, **fields: Any) -> Any:
        tiny = kubernetes(*given, **fields)
        tiny.refuse = known_volumes(tiny)
        return tiny

    assert differences(case, run(case, strict)) == ""


def run(case: GoldenCase, kubernetes: Any) -> dict[str, Any]:
    """Applies the case step by step and normalises what comes of it."""
    kind, _ = main_key([document for step in case.steps for document in step])
    hooks = PluginManager(load(["autoscaler-v2"]))
    tiny = None
    given = {(document["kind"], document["metadata"]["name"]) for step in case.steps for document in step}
    for step in case.steps:
        others = [document for document in step if document["kind"] != kind]
        for document in step:
            if document["kind"] != kind:
                continue
            if tiny is None:
                gates = {**DEFAULT_GATES, **case.gates}
                tiny = kubernetes(document, namespace=case.namespace, gates=gates, hooks=hooks)
            elif "golden/delete" in document["metadata"].get("annotations", {}):
                tiny.delete()
            else:
                tiny.apply(document)
            for other in others:
                if other["kind"] == "ServiceAccount":
                    tiny.others.add((SERVICE_ACCOUNT, other["metadata"]["name"]))
                if other["kind"] == "Ingress":
                    tiny.add(INGRESS, other)
                if other["kind"] == "ResourceQuota":
                    tiny.refuse = quota(tiny, int(other["spec"]["hard"]["pods"]))
        tiny.settle()
    outcome = Outcome(
        main=tiny.cluster,
        children=[body for body in tiny.objects.values() if (body["kind"], body["metadata"]["name"]) not in given],
        events=[{"about": kind, "type": e.type, "reason": e.reason, "message": e.note} for e in tiny.events],
        generate_names=tiny.generate_names,
        any_index=case.any_index,
    )
    return normalise(outcome)


def quota(tiny: Any, pods: int) -> Callable[[Write], str]:
    """What the API server answers when a ResourceQuota named ``small`` is used up."""

    def refuse(write: Write) -> str:
        if not isinstance(write, Create) or write.kind != POD or len(tiny.pods) < pods:
            return ""
        assert isinstance(write.body, dict)
        tiny.generate_names.add(write.body["metadata"]["generateName"])
        return (
            f'pods "{write.name}" is forbidden: exceeded quota: small, requested: pods=1, '
            f"used: pods={len(tiny.pods)}, limited: pods={pods}"
        )

    return refuse


def known_volumes(tiny: Any) -> Callable[[Write], str]:
    """What the API server answers when a mount names a volume that the pod does not have."""

    def refuse(write: Write) -> str:
        if not isinstance(write, Create) or write.kind != POD:
            return ""
        assert isinstance(write.body, dict)
        spec = write.body["spec"]
        known = {volume["name"] for volume in spec.get("volumes", ())}
        wrong = [
            f'spec.{field}[{index}].volumeMounts[{number}].name: Not found: "{mount["name"]}"'
            for field in ("containers", "initContainers")
            for index, container in enumerate(spec.get(field, ()))
            for number, mount in enumerate(container.get("volumeMounts", ()))
            if mount["name"] not in known
        ]
        if not wrong:
            return ""
        tiny.generate_names.add(write.body["metadata"]["generateName"])
        return f'Pod "{write.name}" is invalid: ' + (wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")

    return refuse
