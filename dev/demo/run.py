"""The demos from beginning to end: ``python -m dev.demo.run up`` (``make demo``), ``serve`` (``make demo-serve``) and ``down``.

Exit code 0 only when the RayJob completed, or each request was answered; otherwise the reasons that can be found are shown.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys

from dev.demo import evidence, existing, install, own_cluster, serve, workload
from dev.demo.kubectl import Kubectl, KubectlError
from dev.demo.own_cluster import DemoError
from dev.demo.progress import Progress, Step


def main() -> int:
    parser = argparse.ArgumentParser(prog="dev.demo.run")
    parser.add_argument("what", choices=("up", "serve", "down"))
    parser.add_argument("--context", default="", help="an existing cluster, by the name of its kubectl context")
    parser.add_argument("--image", default="", help="the operator's image, where the existing cluster can pull it")
    parser.add_argument("--ray-image", default="", help="Ray's image; the tag should begin with its version")
    arguments = parser.parse_args()
    progress = Progress()
    kubectl = _kubectl(arguments.context)
    try:
        {"up": _up, "serve": _serve, "down": _down}[arguments.what](arguments, kubectl, progress)
    except (DemoError, existing.NotFreeError) as error:
        progress.say(str(error), "bold red")
        return 1
    except (KubectlError, workload.WorkloadError, subprocess.CalledProcessError) as error:
        progress.say(_sentence(error), "bold red")
        if arguments.what != "down":
            evidence.show(kubectl, workload.NAMESPACE, progress.quote)
        progress.say(_sentence(error), "bold red")
        where = f" CONTEXT={arguments.context}" if arguments.context else ""
        target = "demo-serve" if arguments.what == "serve" else "demo"
        progress.say(
            f"What to do: look at the lines above, then `make {target}{where}` again, or `make demo-down{where}` to start afresh."
        )
        return 1
    except KeyboardInterrupt:
        progress.say("interrupted; `make demo-down` removes what is there", "bold red")
        return 130
    return 0


def _sentence(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{' '.join(map(str, error.cmd))} ended with exit code {error.returncode}\n{error.stderr or ''}".strip()
    return str(error)


def _kubectl(context: str) -> Kubectl:
    if context:
        return Kubectl(("kubectl", "--context", context))
    return Kubectl((*own_cluster.INSIDE, "kubectl"))


def _up(arguments: argparse.Namespace, kubectl: Kubectl, progress: Progress) -> None:
    if arguments.context:
        _use_existing(arguments, kubectl, progress)
    else:
        own_cluster.start(kubectl, progress)
    _install(kubectl, progress, arguments.image or install.OUR_IMAGE)
    ray_image = arguments.ray_image or install.OUR_RAY_IMAGE
    namespace = workload.NAMESPACE
    with progress.step(f"a RayCluster with the autoscaler: {workload.CLUSTER}") as step:
        kubectl.apply(workload.sample("raycluster-autoscaler.yaml", ray_image), "-n", namespace)
        workload.wait_for_cluster(kubectl, namespace, workload.CLUSTER, tell=progress.tell)
        step.result = workload.look_at_pods(kubectl, namespace, f"ray.io/cluster={workload.CLUSTER}")
    _run_job(kubectl, namespace, ray_image, progress)
    progress.table()
    _what_next(kubectl, arguments.context, progress)


def _serve(arguments: argparse.Namespace, kubectl: Kubectl, progress: Progress) -> None:
    if arguments.context:
        raise DemoError("demo-serve works on the demo's own cluster only, where Traefik runs; leave CONTEXT= out")
    own_cluster.start(kubectl, progress, gateway=True)
    _install(kubectl, progress, install.OUR_IMAGE)
    serve.show(kubectl, progress)


def _install(kubectl: Kubectl, progress: Progress, image: str) -> None:
    with progress.step("installing CRDs, permissions and the operator") as step:
        install.install_crds(kubectl, existing.MARK)
        install.install_operator(kubectl, image)
        install.wait_for_operator(kubectl)
        step.result = _operator_in_words(kubectl)
    if kubectl.get("namespace", workload.NAMESPACE) is None:
        kubectl.run("create", "namespace", workload.NAMESPACE)


def _use_existing(arguments: argparse.Namespace, kubectl: Kubectl, progress: Progress) -> None:
    if not arguments.image:
        raise DemoError("an existing cluster needs IMAGE=, the operator's image in a registry that it can pull from")
    with progress.step(f"looking at the cluster of context {arguments.context}") as step:
        existing.check_free(kubectl)
        version = re.search(r"Server Version: (\S+)", kubectl.run("version"))
        step.result = (
            f"Kubernetes {version[1] if version else 'of unknown version'}, nodes: {len(kubectl.list('nodes'))}"
        )


def _operator_in_words(kubectl: Kubectl) -> str:
    (pod, *_) = kubectl.list("pods", install.NAMESPACE, install.POD_LABELS)
    return f"{pod['metadata']['name']}: not root, read-only root filesystem"


def _run_job(kubectl: Kubectl, namespace: str, ray_image: str, progress: Progress) -> None:
    kubectl.delete("rayjob", workload.JOB, namespace)
    lines: list[str] = []
    with progress.step(f"a RayJob on a cluster of its own: {workload.JOB}") as step:
        kubectl.apply(workload.sample("rayjob.yaml", ray_image), "-n", namespace)
        pod = workload.wait_for_submitter(kubectl, namespace, workload.JOB, tell=progress.tell)
        step.result = "head, worker and submitter running"
    with progress.step("the job's output") as step:
        for line in kubectl.lines("-n", namespace, "logs", "-f", pod):
            progress.quote(line)
            lines.append(line)
        step.result = next((line for line in reversed(lines) if line.startswith("pi is about")), "no result seen")
    with progress.step("the RayJob is complete") as step:
        status = workload.wait_for_job(kubectl, namespace, workload.JOB, tell=progress.tell)
        step.result = f"{status['jobDeploymentStatus']}, {status.get('jobStatus', '')}"
    if (status["jobDeploymentStatus"], status.get("jobStatus")) != ("Complete", "SUCCEEDED"):
        raise workload.WorkloadError(f"the RayJob ended as {step.result}: {status.get('message', '')}")
    _tell_worker(kubectl, namespace, status["rayClusterName"], progress.steps, progress)


def _tell_worker(kubectl: Kubectl, namespace: str, cluster: str, steps: list[Step], progress: Progress) -> None:
    """The tasks must have run on the worker: its name is in the result."""
    workers = kubectl.list("pods", namespace, f"ray.io/cluster={cluster},ray.io/node-type=worker")
    names = [pod["metadata"]["name"] for pod in workers]
    if not any(name in step.result for name in names for step in steps):
        raise workload.WorkloadError(f"the tasks did not run on the worker {', '.join(names)}")
    progress.say(f"the tasks ran on the worker pod {', '.join(names)}")


def _what_next(kubectl: Kubectl, context: str, progress: Progress) -> None:
    words = f"kubectl --context {context}" if context else f"dev/cluster --name {own_cluster.NAME} exec kubectl"
    show = f"{words} -n {workload.NAMESPACE}"
    grow = "import ray; ray.init(); f = ray.remote(num_cpus=1)(lambda: __import__('time').sleep(20)); ray.get([f.remote() for _ in range(6)])"
    heads = kubectl.list("pods", workload.NAMESPACE, f"ray.io/cluster={workload.CLUSTER},ray.io/node-type=head")
    head = heads[0]["metadata"]["name"]
    lines = [
        "",
        "What to try next:",
        "  # everything that runs",
        f"  {show} get rayclusters,rayjobs,pods",
        "  # six tasks for one worker: the autoscaler adds workers, and removes them half a minute after",
        f'  {show} exec {head} -c ray-head -- python -c "{grow}"',
        f"  {show} get pods -w",
        "  # why something is as it is",
        f"  {show} describe rayjob {workload.JOB}",
        f"  {words} -n {install.NAMESPACE} logs deployment/{install.NAME}",
        "  # what the operator would make of a manifest, without a cluster",
        "  .venv/bin/kuberay render -f config/samples/rayjob.yaml",
        "  # remove it all",
        f"  make demo-down{f' CONTEXT={context}' if context else ''}",
    ]
    for line in lines:
        progress.console.print(line, markup=False)


def _down(arguments: argparse.Namespace, kubectl: Kubectl, progress: Progress) -> None:
    if arguments.context:
        existing.remove(kubectl, progress)
        return
    with progress.step("taking the demo's cluster down"):
        own_cluster.run(progress, "down")


if __name__ == "__main__":
    sys.exit(main())
