"""The volume claim of embedded GCS fault tolerance over time (spec raycluster.md 2.8, 7 and 8.4)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import PERSISTENT_VOLUME_CLAIM as PVC
from kuberay.plan.model import ObjectProbe

GATES = {**DEFAULT_GATES, "GCSFaultToleranceEmbeddedStorage": True}
NAME = "pair-gcs-pvc"


def embedded(cluster: Any, **storage: Any) -> Any:
    options = {"backend": "rocksdb", **({"storage": storage} if storage else {})}
    return cluster(gcsFaultToleranceOptions=options)


def claim(**parts: Any) -> dict[str, Any]:
    metadata = {"name": NAME, **parts.pop("metadata", {})}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **parts}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def owners(tiny: Any) -> list[str]:
    return [owner["name"] for owner in tiny.objects[PVC, NAME]["metadata"].get("ownerReferences") or ()]


def warnings(tiny: Any) -> list[tuple[str, str, str]]:
    return [(event.reason, event.action, event.note) for event in tiny.events if event.type == "Warning"]


@pytest.fixture
def start(kubernetes: Any, cluster: Any) -> Any:
    def start(**storage: Any) -> Any:
        return kubernetes(embedded(cluster, **storage), gates=GATES)

    return start


def test_it_is_made_with_the_cluster_as_owner(start: Any) -> None:
    tiny = start(size="5Gi", accessModes=["ReadWriteMany"], storageClassName="fast")
    tiny.settle()
    live = tiny.objects[PVC, NAME]
    assert live["metadata"]["labels"] == {"ray.io/cluster": "pair"}
    assert live["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "5Gi"}},
        "storageClassName": "fast",
    }
    assert owners(tiny) == ["pair"]
    assert [event.note for event in tiny.events if event.reason == "CreatedPVC"] == [
        f"Created GCS storage PVC default/{NAME}"
    ]


def test_ownership_follows_the_policy(start: Any) -> None:
    tiny = start(deletionPolicy="Retain")
    tiny.settle()
    assert owners(tiny) == []
    storage = {"deletionPolicy": "DeleteWithCluster"}
    tiny.edit(lambda spec: spec["gcsFaultToleranceOptions"].update(storage=storage))
    tiny.settle()
    assert owners(tiny) == ["pair"]
    tiny.edit(lambda spec: spec["gcsFaultToleranceOptions"].update(storage={"deletionPolicy": "Retain"}))
    tiny.settle()
    assert owners(tiny) == []
    assert warnings(tiny) == []


def test_other_owners_stay(start: Any) -> None:
    tiny = start()
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u"}
    tiny.add(PVC, claim(metadata={"ownerReferences": [other]}))
    tiny.settle()
    assert owners(tiny) == ["other", "pair"]
    assert tiny.objects[PVC, NAME]["metadata"]["labels"] == {"ray.io/cluster": "pair"}, "watched from now on"
    tiny.edit(lambda spec: spec["gcsFaultToleranceOptions"].update(storage={"deletionPolicy": "Retain"}))
    tiny.settle()
    assert owners(tiny) == ["other"]


@pytest.mark.parametrize(
    ("storage", "live", "differences"),
    [
        ({}, {}, ""),
        ({"size": "1024Mi"}, {}, ""),
        ({}, {"storageClassName": "standard"}, ""),
        ({"accessModes": ["ReadWriteMany", "ReadWriteOnce"]}, {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]}, ""),
        ({"size": "5Gi"}, {}, "requested size 5Gi != current 1Gi"),
        (
            {"storageClassName": "fast"},
            {"storageClassName": "standard"},
            "storageClassName fast != current standard",
        ),
        (
            {"size": "5Gi", "accessModes": ["ReadWriteMany"]},
            {},
            "requested size 5Gi != current 1Gi; accessModes [ReadWriteMany] != current [ReadWriteOnce]",
        ),
    ],
)
def test_a_claim_that_differs_is_left_and_told_once(start: Any, storage: Any, live: Any, differences: str) -> None:
    tiny = start(**storage)
    tiny.add(PVC, claim(**live))
    before = dict(tiny.objects[PVC, NAME]["spec"])
    tiny.settle()
    tiny.settle()
    assert tiny.objects[PVC, NAME]["spec"] == before
    note = (
        f"GCS storage PVC default/{NAME} already exists and cannot be reconfigured in place ({differences}); "
        "delete the PVC to recreate it with the new settings"
    )
    assert warnings(tiny) == ([("FailedToCreatePVC", "Update", note)] if differences else [])
    condition = tiny.condition("GcsStorageProblem")
    assert (condition and condition["message"]) == (note if differences else None)
    assert tiny.status["state"] == "ready"


def test_a_deleted_one_is_made_anew(start: Any) -> None:
    tiny = start()
    tiny.settle()
    del tiny.objects[PVC, NAME]
    tiny.settle()
    assert owners(tiny) == ["pair"]


def test_the_claim_of_a_former_cluster_is_waited_out(start: Any) -> None:
    """Its data must not be used: it goes with its owner."""
    tiny = start()
    former = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "pair", "uid": "former", "controller": True}
    tiny.add(PVC, claim(metadata={"ownerReferences": [former]}))
    tiny.settle()
    note = f"Failed to create GCS storage PVC default/{NAME}, it exists and is owned by RayCluster pair"
    assert tiny.pods == {}
    assert warnings(tiny) == [("FailedToCreatePVC", "Create", note)]
    assert tiny.condition("PodsWaiting")["message"] == note
    del tiny.objects[PVC, NAME]
    tiny.settle()
    assert tiny.status["state"] == "ready"
    assert tiny.condition("PodsWaiting") is None
    assert tiny.condition("GcsStorageProblem") is None


def test_a_refused_claim_holds_pods_back(start: Any) -> None:
    tiny = start()
    tiny.refuse = lambda write: "exceeded quota" if write.kind == PVC else ""
    tiny.reconcile()
    assert tiny.pods == {}
    assert warnings(tiny) == [
        ("FailedToCreatePVC", "Create", f"Failed to create GCS storage PVC default/{NAME}, exceeded quota")
    ]


def test_a_users_claim_is_only_looked_for(start: Any) -> None:
    tiny = start(claimName="my-disk")
    tiny.run_pods = False
    tiny.settle()
    note = (
        'GcsFaultToleranceOptions.Storage.ClaimName "my-disk" not found in namespace default; '
        "the head Pod will not start until it exists"
    )
    assert warnings(tiny) == [("FailedToCreatePVC", "Validate", note)]
    assert tiny.condition("GcsStorageProblem")["reason"] == "ClaimNotFound"
    assert len(tiny.pods) == 4, "the pass goes on"
    assert tiny.plan().probes == [ObjectProbe(PVC, "default", "my-disk")]
    tiny.others.add((PVC, "my-disk"))
    tiny.settle()
    assert tiny.condition("GcsStorageProblem") is None
    tiny.run_pods = True
    tiny.settle()
    assert tiny.plan().probes == [], "a settled cluster asks for nothing"
    assert [name for kind, name in tiny.objects if kind == PVC] == []


@pytest.mark.parametrize("options", [None, {"redisAddress": "redis:6379"}])
def test_no_claim_without_the_embedded_backend(kubernetes: Any, cluster: Any, options: Any) -> None:
    tiny = kubernetes(cluster(**({"gcsFaultToleranceOptions": options} if options else {})), gates=GATES)
    tiny.settle()
    assert [name for kind, name in tiny.objects if kind == PVC] == []
