"""The Pod Security Standard "restricted", enforced by a real API server: the operator's own pods, and all pods that it makes.

Without the setting a refusal shows as a condition with the API server's words; with it every kind of pod is let in.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from helm import Helm, build_helm
from installed import Release, found, kubectl
from kube_world import Operator, World
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB
from kuberay.api.names import REDIS_CLEANUP

ENFORCED = "pod-security.kubernetes.io/enforce=restricted"
RAY = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.55.0"}]}}
SIDECAR = {"name": "shipper", "image": "busybox:1"}
SETTINGS = {
    "apiVersion": "config.ray.io/v1alpha1",
    "kind": "Configuration",
    "metricsAddr": "127.0.0.1:18090",
    "probeAddr": "127.0.0.1:18092",
    "headSidecarContainers": [SIDECAR],
    "workerSidecarContainers": [SIDECAR],
}


@pytest.fixture(scope="module")
def helm() -> Helm:
    return build_helm()


@pytest.fixture
def restricted(world: World) -> World:
    """A namespace that lets no other pods in."""
    kubectl("label", "namespace", world.namespace, ENFORCED)
    plain = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"}, "spec": RAY["spec"]}
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        kubectl("apply", "-n", world.namespace, "-f", "-", stdin=yaml.safe_dump(plain))
    return world


@pytest.fixture
def configured(operators: Operator, tmp_path: Path) -> Iterator[Any]:
    """Starts the operator with more settings; the others find none of it."""

    def start(**more: Any) -> None:
        path = tmp_path / f"{'-'.join(more) or 'plain'}.yaml"
        path.write_text(yaml.safe_dump({**SETTINGS, "leaderElectionNamespace": "default", **more}))
        operators.ensure([f"--config={path}"])

    yield start
    operators.stop()


def ray_cluster(name: str, **spec: Any) -> dict[str, Any]:
    group = {"groupName": "small", "replicas": 1, "minReplicas": 1, "maxReplicas": 3, "template": RAY}
    given = {"rayVersion": "2.55.0", "headGroupSpec": {"template": RAY}, "workerGroupSpecs": [group], **spec}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": given}


def ray_job(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "job"},
        "spec": {"entrypoint": "true", "rayClusterSpec": ray_cluster("x")["spec"], **spec},
    }


async def ready(world: World, name: str) -> None:
    async def check() -> bool:
        return bool((await world.get(RAYCLUSTER, name)).get("status", {}).get("state") == "ready")

    await world.eventually(check, seconds=40, what=f"{name} is ready")


async def conditions(world: World, kind: Any, name: str) -> dict[str, tuple[str, str]]:
    """Reason and message of those that are True."""
    found = ((await world.get(kind, name)).get("status") or {}).get("conditions") or []
    return {c["type"]: (c["reason"], c.get("message", "")) for c in found if c["status"] == "True"}


def test_the_operators_own_pods(helm: Helm, restricted: World, tmp_path: Path) -> None:
    """With the init container that installs plugins of others, and with a log file, which bring volumes."""
    release = Release(helm, restricted.namespace, tmp_path)
    extra = {"name": "acme", "requirements": ["kuberay-acme==1.2.0"]}
    try:
        release.install()
        release.upgrade({"plugins": {"extra": [extra]}, "logging": {"baseDir": "/logs", "fileName": "o.log"}})
        pods = found("pods", "-n", restricted.namespace, "-l", "app.kubernetes.io/name=kuberay-operator")["items"]
        (pod,) = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert [init["name"] for init in pod["spec"]["initContainers"]] == ["install-plugins"]
    finally:
        release.uninstall()


def test_the_plain_manifest(restricted: World) -> None:
    manifests = Path(__file__).resolve().parents[2] / "config" / "operator" / "deployment.yaml"
    (deployment,) = [m for m in yaml.safe_load_all(manifests.read_text()) if m["kind"] == "Deployment"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "operator"},
        "spec": deployment["spec"]["template"]["spec"],
    }
    pod["spec"]["serviceAccountName"] = "default"
    pod["metadata"]["namespace"] = restricted.namespace
    kubectl("apply", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))


async def test_a_refusal_is_told(restricted: World, configured: Any) -> None:
    """By default pods stay as they are written."""
    configured()
    await restricted.put(ray_cluster("plain"))

    async def told() -> bool:
        reason, message = (await conditions(restricted, RAYCLUSTER, "plain")).get("PodsNotReady", ("", ""))
        return reason == "AdmissionRefused" and "violates PodSecurity" in message

    await restricted.eventually(told, seconds=30, what="the RayCluster says what is wrong with its pods")
    assert await restricted.pods(cluster="plain") == []


async def test_a_refused_submitter_is_told(restricted: World, configured: Any) -> None:
    """Its Job is let in, and its pod is not: nothing but the Job's events would say so."""
    configured(podSecurityStandard="restricted")
    root = {"securityContext": {"runAsUser": 0}}
    submitter = {"spec": {**RAY["spec"], **root, "restartPolicy": "Never"}}
    await restricted.put(ray_job(submitterPodTemplate=submitter))

    async def told() -> bool:
        reason, message = (await conditions(restricted, RAYJOB, "job")).get("PodsWaiting", ("", ""))
        return reason == "SubmitterWithoutPod" and "kubectl describe job job" in message

    await restricted.eventually(told, seconds=70, what="the RayJob says that its submitter has no pod")


async def test_all_kinds_of_pods(restricted: World, configured: Any) -> None:
    """Head with autoscaler and configured sidecar, worker with its init container, submitters, and the Redis cleanup."""
    configured(podSecurityStandard="restricted")
    await restricted.put(ray_cluster("auto", enableInTreeAutoscaling=True))
    redis = ray_cluster("ft", gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
    await restricted.put(redis)
    await restricted.put(ray_job())
    sidecar = ray_job(submissionMode="SidecarMode")
    sidecar["metadata"]["name"] = "beside"
    await restricted.put(sidecar)
    for name in ("auto", "ft"):
        await ready(restricted, name)
    (head,) = await restricted.pods(cluster="auto", node_type="head")
    assert {c["name"] for c in head["spec"]["containers"]} == {"ray", "autoscaler", "shipper"}
    (worker,) = await restricted.pods(cluster="auto", node_type="worker")
    assert [c["name"] for c in worker["spec"]["initContainers"]] == ["wait-gcs-ready"]

    async def submitters() -> bool:
        jobs = await restricted.list(POD, "ray.io/originated-from-crd=RayJob,job-name=job")
        heads = await restricted.pods(node_type="head")
        return bool(jobs) and any("ray-job-submitter" in str(pod["spec"]["containers"]) for pod in heads)

    await restricted.eventually(submitters, seconds=40, what="a submitter's pod, and a head with a submitter in it")
    await restricted.delete(RAYCLUSTER, "ft")
    (pod,) = await restricted.eventually(
        lambda: restricted.pods(node_type=REDIS_CLEANUP), seconds=30, what="the pod of the cleanup Job"
    )
    wish = {"fake-kubelet.kuberay.dev/phase": "Succeeded", "fake-kubelet.kuberay.dev/delay": "0"}
    await restricted.patch(POD, pod["metadata"]["name"], {"metadata": {"annotations": wish}})
    assert await restricted.list(JOB)


async def test_what_runs_is_not_touched(restricted: World, configured: Any) -> None:
    """The standard is turned on for pods that were made without it; later ones get it."""
    kubectl("label", "namespace", restricted.namespace, "pod-security.kubernetes.io/enforce-")
    configured()
    cluster = ray_cluster("old", upgradeStrategy={"type": "Recreate"})
    await restricted.put(cluster)
    await ready(restricted, "old")
    before = {pod["metadata"]["uid"] for pod in await restricted.pods(cluster="old")}
    configured(podSecurityStandard="restricted")
    kubectl("label", "namespace", restricted.namespace, ENFORCED)
    cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    await restricted.put(cluster)

    async def three() -> bool:
        return len(await restricted.pods(cluster="old")) == 3

    await restricted.eventually(three, what="one more worker")
    assert before < {pod["metadata"]["uid"] for pod in await restricted.pods(cluster="old")}
