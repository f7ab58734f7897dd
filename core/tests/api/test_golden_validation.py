"""Recorded cases: what the operator of reference refuses is refused with the same words, the rest is accepted."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.problems import Problem
from kuberay.api.validation import cluster, cronjob, job, service

GOLDEN = Path(__file__).parents[1] / "data/golden"
REASONS = {
    "RayCluster": "InvalidRayCluster",
    "RayJob": "InvalidRayJob",
    "RayService": "InvalidRayService",
    "RayCronJob": "InvalidRayCronJob",
}
OURS = {
    "invalid/duplicate-groups": "worker group names must be unique",
    "invalid/job-unknown-mode": "submissionMode",
    "invalid/svc-bad-serve-config": "spec.serveConfigV2: line 1, column 1: ",
    "invalid/svc-cluster-upgrade": "upgradeStrategy cannot be set when RayCluster is created by RayService",
}
"""Accepted by the reference although they can never work; refused here (docs/differences)."""
OWN_WORDS = {"invalid/job-bad-runtime-env": "failed to unmarshal RuntimeEnvYAML: - a\n- b\n: "}


def read(case: Path) -> tuple[list[dict[str, Any]], dict[str, bool], dict[str, Any]]:
    text = (case / "input.yaml").read_text()
    gates = dict(DEFAULT_GATES)
    for line in text.splitlines():
        if line.startswith("# operator:") and "--feature-gates=" in line:
            for pair in line.split("--feature-gates=")[1].split()[0].split(","):
                name, value = pair.split("=")
                gates[name] = value == "true"
    documents = [
        document
        for document in yaml.load_all(text, Loader=yaml.CSafeLoader)
        if document and document["kind"] in REASONS
    ]
    return documents, gates, yaml.load((case / "expected.yaml").read_text(), Loader=yaml.CSafeLoader)


def validate(document: dict[str, Any], gates: dict[str, bool]) -> list[Problem]:
    metadata = document["metadata"]
    if document["kind"] == "RayCronJob":
        return cronjob.validate_cronjob(metadata["name"], {}, document["spec"], gates)
    check: Any = {
        "RayCluster": cluster.validate_cluster,
        "RayJob": job.validate_job,
        "RayService": service.validate_service,
    }[document["kind"]]
    found: list[Problem] = check(
        metadata["name"], metadata.get("labels", {}), metadata.get("annotations", {}), document["spec"], gates
    )
    return found


def cases(*areas: str) -> list[Any]:
    """Cases that the API server lets through; what it refuses itself is tried on a real one (tests/kube)."""
    found = [case.parent for area in areas for case in sorted((GOLDEN / area).glob("*/input.yaml"))]
    assert found, "the recorded cases are missing"
    return [
        pytest.param(case, id=f"{case.parent.name}/{case.name}")
        for case in found
        if not (case / "expected.yaml").read_text().startswith("rejected:")
    ]


@pytest.mark.parametrize("case", cases("invalid"))
def test_invalid(case: Path) -> None:
    documents, gates, expected = read(case)
    name = f"invalid/{case.name}"
    document = documents[-1]
    problems = validate(document, gates)
    kind = document["kind"]
    told = [event for event in expected["events"] if event["reason"].startswith(REASONS[kind])]
    if not told:
        wanted = OURS.get(name)
        assert [problem.message for problem in problems if not wanted or wanted not in problem.message] == []
        assert bool(problems) == (wanted is not None)
        return
    note = cluster.event_note if kind == "RayCluster" else job.event_note
    got = note(problems[0], f"g-{case.name}", document["metadata"]["name"])
    assert problems[0].reason == told[0]["reason"]
    assert problems[0].path
    if name in OWN_WORDS:
        assert problems[0].message.startswith(OWN_WORDS[name])
    else:
        assert got == told[0]["message"]


@pytest.mark.parametrize("case", cases("raycluster", "rayjob", "rayservice", "raycronjob"))
def test_accepted(case: Path) -> None:
    documents, gates, _ = read(case)
    assert documents
    for document in documents:
        assert validate(document, gates) == []
