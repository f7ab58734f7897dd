"""What every benchmark run creates: RayClusters of one head and three workers, the same for operator and floor."""

from __future__ import annotations

from typing import Any

IMAGE = "rayproject/ray:2.54.0"
WORKERS = 3
NAMESPACE = "bench"


def raycluster(number: int) -> dict[str, Any]:
    """The manifest of the *number*-th RayCluster."""
    container = {
        "name": "ray",
        "image": IMAGE,
        "resources": {"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "1", "memory": "2Gi"}},
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": f"load-{number:05d}", "namespace": NAMESPACE},
        "spec": {
            "rayVersion": "2.54.0",
            "headGroupSpec": {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}},
            "workerGroupSpecs": [
                {
                    "groupName": "workers",
                    "replicas": WORKERS,
                    "minReplicas": 0,
                    "maxReplicas": 10,
                    "rayStartParams": {},
                    "template": {"spec": {"containers": [container]}},
                }
            ],
        },
    }


def rayjob(number: int) -> dict[str, Any]:
    """The manifest of the *number*-th RayJob in HTTP mode, on a cluster of its own: a head and one worker."""
    spec = raycluster(number)["spec"]
    spec["workerGroupSpecs"][0]["replicas"] = 1
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": f"job-{number:05d}", "namespace": NAMESPACE},
        "spec": {"entrypoint": "python train.py", "submissionMode": "HTTPMode", "rayClusterSpec": spec},
    }
