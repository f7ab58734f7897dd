"""RayJobs of each submission mode for end-to-end tests, and what the world says of them: the API server and Ray's dashboard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import yaml
from waiting import eventually

from dev.demo import workload
from dev.demo.kubectl import Kubectl

K8S, HTTP, SIDECAR, INTERACTIVE = MODES = ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode")
SUBMITTER_SILENCED = "ray.io/suspended-by-rayjob"


def head_only(name: str) -> dict[str, Any]:
    """The cluster of the sample RayJob without workers and code, its head taking the tasks."""
    spec = _sample()["spec"]["rayClusterSpec"]
    del spec["workerGroupSpecs"]
    head = spec["headGroupSpec"]
    head["rayStartParams"] = {}
    (container,) = head["template"]["spec"]["containers"]
    # So little that four of them have room on a node with two CPUs, beside their submitters.
    container["resources"]["requests"]["cpu"] = "100m"
    del head["template"]["spec"]["volumes"], container["volumeMounts"]
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}


def rayjob(name: str, mode: str, entrypoint: str, *, cluster: str = "", **spec: Any) -> dict[str, Any]:
    """A RayJob on a cluster of its own, with a head only, or on the RayCluster *cluster*."""
    sample = _sample()["spec"]
    body: dict[str, Any] = {"submissionMode": mode, "shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 600}
    if cluster:
        body = {"submissionMode": mode, "clusterSelector": {"ray.io/cluster": cluster}}
    else:
        body["rayClusterSpec"] = head_only(name)["spec"]
    if mode != INTERACTIVE:
        body["entrypoint"] = entrypoint
    if mode == K8S:
        body["submitterPodTemplate"] = sample["submitterPodTemplate"]
    body |= spec
    wanted = {key: value for key, value in body.items() if value is not None}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}, "spec": wanted}


def _sample() -> dict[str, Any]:
    manifests = yaml.safe_load_all(workload.sample("rayjob.yaml"))
    found: dict[str, Any] = next(m for m in manifests if m["kind"] == "RayJob")
    return found


def apply(kubectl: Kubectl, namespace: str, *manifests: Mapping[str, Any]) -> None:
    kubectl.apply(yaml.safe_dump_all([dict(m) for m in manifests]), "-n", namespace)


def patch(kubectl: Kubectl, namespace: str, name: str, **spec: Any) -> None:
    """Edit a RayJob's spec."""
    body = json.dumps({"spec": spec})
    kubectl.run("-n", namespace, "patch", "rayjob", name, "--type=merge", "-p", body)


def status(kubectl: Kubectl, namespace: str, name: str) -> dict[str, Any]:
    """Status of a RayJob; empty when there is none yet."""
    found: dict[str, Any] = (kubectl.get("rayjob", name, namespace) or {}).get("status", {})
    return found


def wait_for_state(kubectl: Kubectl, namespace: str, name: str, state: str, seconds: float = 300) -> dict[str, Any]:
    """Return the status once ``jobDeploymentStatus`` is *state*."""
    last: dict[str, Any] = {}

    def reached() -> bool:
        last.clear()
        last.update(status(kubectl, namespace, name))
        return last.get("jobDeploymentStatus") == state

    try:
        eventually(reached, seconds, f"RayJob {name} is {state}")
    except AssertionError as error:
        raise AssertionError(f"{error}; its status: {last}") from None
    return last


def wait_for_end(kubectl: Kubectl, namespace: str, name: str, seconds: float = 300) -> dict[str, Any]:
    """Return the status once the RayJob is Complete or Failed."""
    return workload.wait_for_job(kubectl, namespace, name, seconds=seconds)


def job_id(kubectl: Kubectl, namespace: str, name: str, seconds: float = 60) -> str:
    """The submission id of the present attempt, once it is told."""
    eventually(lambda: bool(status(kubectl, namespace, name).get("jobId")), seconds, f"RayJob {name} has a job id")
    return str(status(kubectl, namespace, name)["jobId"])


def address(kubectl: Kubectl, namespace: str, name: str) -> str:
    """Where the dashboard of the present attempt is; empty while its cluster is not ready."""
    return str(status(kubectl, namespace, name).get("dashboardURL", ""))


def wait_until_running(kubectl: Kubectl, namespace: str, name: str, seconds: float = 300) -> dict[str, Any]:
    """Return the status once Ray is known to run the job."""
    eventually(
        lambda: condition(status(kubectl, namespace, name), "Running").get("status") == "True",
        seconds,
        f"condition Running of RayJob {name}",
    )
    return status(kubectl, namespace, name)


def outcome(status: Mapping[str, Any]) -> tuple[str, str, str]:
    """``jobDeploymentStatus``, ``jobStatus`` and the reason of condition Finished."""
    finished = condition(status, "Finished")
    reason = finished.get("reason", "") if finished.get("status") == "True" else ""
    return str(status.get("jobDeploymentStatus", "")), str(status.get("jobStatus", "")), reason


def counts(status: Mapping[str, Any]) -> tuple[int, int]:
    """Attempts that succeeded and that failed."""
    return status.get("succeeded", 0), status.get("failed", 0)


def condition(status: Mapping[str, Any], type_: str) -> dict[str, Any]:
    return next((c for c in status.get("conditions", []) if c["type"] == type_), {})


def live(kubectl: Kubectl, kind: str, namespace: str, selector: str = "") -> list[dict[str, Any]]:
    """Objects that are not on their way out."""
    return [each for each in kubectl.list(kind, namespace, selector) if "deletionTimestamp" not in each["metadata"]]


def head_of(kubectl: Kubectl, namespace: str, cluster: str) -> dict[str, Any]:
    """The head pod of a RayCluster."""
    (head,) = live(kubectl, "pods", namespace, f"ray.io/cluster={cluster},ray.io/node-type=head")
    return head


def submitters(kubectl: Kubectl, namespace: str, name: str) -> list[dict[str, Any]]:
    """Pods of the submitter Job of a RayJob, also those that have ended."""
    return kubectl.list("pods", namespace, f"batch.kubernetes.io/job-name={name}")


class Dashboard:
    """Ray's own word, over HTTP as any client gets it."""

    def __init__(self, address: str) -> None:
        self._jobs = f"http://{address}/api/jobs/"

    def job(self, job_id: str) -> str:
        """``status`` of a job; empty when Ray does not know it."""
        try:
            return str(self._ask(f"{self._jobs}{job_id}")["status"])
        except HTTPError as error:
            if error.code == 404:
                return ""
            raise

    def ids(self) -> list[str]:
        """Submission ids of all jobs that Ray was handed."""
        return sorted(job["submission_id"] for job in self._ask(self._jobs) if job.get("submission_id"))

    def submit(self, job_id: str, entrypoint: str) -> None:
        self._ask(self._jobs, {"submission_id": job_id, "entrypoint": entrypoint})

    def stop(self, job_id: str) -> None:
        self._ask(f"{self._jobs}{job_id}/stop", {})

    def log(self, job_id: str) -> str:
        return str(self._ask(f"{self._jobs}{job_id}/logs")["logs"])

    def _ask(self, url: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=20) as answer:
            return json.loads(answer.read())


def submit_by_hand(kubectl: Kubectl, namespace: str, name: str, entrypoint: str, job_id: str = "") -> str:
    """InteractiveMode: hand the job in as a user does once the cluster is there, and tell its id, which is returned."""
    eventually(lambda: bool(address(kubectl, namespace, name)), 300, f"RayJob {name} has a dashboard")
    job_id = job_id or f"{name}-by-hand"
    Dashboard(address(kubectl, namespace, name)).submit(job_id, entrypoint)
    kubectl.run("-n", namespace, "annotate", "--overwrite", "rayjob", name, f"ray.io/ray-job-submission-id={job_id}")
    return job_id
