"""RayServices for end-to-end tests: the Serve demo's, changed as a test needs, what is told of them, and traffic to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.request import urlopen

import yaml
from waiting import eventually

from dev.demo import workload
from dev.demo.install import OUR_RAY_IMAGE
from dev.demo.kubectl import Kubectl
from dev.demo.traffic import Count, Traffic

NEXT_IMAGE = f"{OUR_RAY_IMAGE}-next"
NEW_CLUSTER, INCREMENTAL = "NewCluster", "NewClusterWithIncrementalUpgrade"
REQUESTS = 2000
"""How many at least are sent while something happens that must not disturb them."""


def code() -> dict[str, Any]:
    """The ConfigMap with the app."""
    found, _ = yaml.safe_load_all(workload.service_manifest())
    return dict(found)


def rayservice(
    name: str, *, version: str = "one", strategy: str = NEW_CLUSTER, workers: int = 1, replicas: int = 2, **spec: Any
) -> dict[str, Any]:
    """The demo's RayService with *workers* workers; other than with the incremental strategy without an autoscaler."""
    _, manifest = yaml.safe_load_all(workload.service_manifest())
    manifest["metadata"]["name"] = name
    body = manifest["spec"]
    cluster = body["rayClusterConfig"]
    if strategy != INCREMENTAL:
        body["upgradeStrategy"] = {"type": strategy}
        del cluster["enableInTreeAutoscaling"], cluster["autoscalerOptions"]
    (group,) = cluster["workerGroupSpecs"]
    group |= {"replicas": workers, "minReplicas": workers, "maxReplicas": max(workers, group["maxReplicas"])}
    body["serveConfigV2"] = serve_config(version, replicas, per_node=1 if workers > 1 else None)
    manifest["spec"] = body | spec
    return dict(manifest)


def serve_config(version: str, replicas: int = 2, *, per_node: int | None = None) -> str:
    """The demo's with another version; *per_node*: so many replicas on one node at most."""
    _, manifest = yaml.safe_load_all(workload.service_manifest())
    config = yaml.safe_load(manifest["spec"]["serveConfigV2"])
    (app,) = config["applications"]
    app["args"] = {"version": version}
    (deployment,) = app["deployments"]
    deployment["num_replicas"] = replicas
    if per_node is not None:
        deployment["max_replicas_per_node"] = per_node
    return yaml.safe_dump(config)


def containers(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The Ray containers of a RayService, the head's first."""
    cluster = manifest["spec"]["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"]["containers"][0] for group in groups]


def with_image(manifest: dict[str, Any], image: str = NEXT_IMAGE) -> dict[str, Any]:
    """The same with another image, which needs another RayCluster."""
    copy: dict[str, Any] = json.loads(json.dumps(manifest))
    for container in containers(copy):
        container["image"] = image
    return copy


def apply(kubectl: Kubectl, namespace: str, *manifests: Mapping[str, Any]) -> None:
    kubectl.apply(yaml.safe_dump_all([dict(manifest) for manifest in manifests]), "-n", namespace)


def patch(kubectl: Kubectl, namespace: str, name: str, **spec: Any) -> None:
    """Edit a RayService's spec."""
    kubectl.run("-n", namespace, "patch", "rayservice", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def annotate(kubectl: Kubectl, namespace: str, name: str, *words: str) -> None:
    """As ``kubectl annotate``: ``key=value`` or ``key-``."""
    kubectl.run("-n", namespace, "annotate", "--overwrite", "rayservice", name, *words)


def status(kubectl: Kubectl, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (kubectl.get("rayservice", name, namespace) or {}).get("status", {})
    return found


def cluster_of(status: Mapping[str, Any], side: str = "active") -> str:
    """Name of the active or pending RayCluster; empty when there is none."""
    return str(status.get(f"{side}ServiceStatus", {}).get("rayClusterName", ""))


def share(status: Mapping[str, Any], side: str) -> tuple[int | None, int | None]:
    """``targetCapacity`` and ``trafficRoutedPercent`` of a side."""
    found = status.get(f"{side}ServiceStatus", {})
    return found.get("targetCapacity"), found.get("trafficRoutedPercent")


def weights(kubectl: Kubectl, namespace: str, name: str) -> dict[str, int]:
    """Weights of a RayService's HTTPRoute, by RayCluster."""
    route = kubectl.get("httproute", f"{name}-httproute", namespace)
    assert route is not None
    (rule,) = route["spec"]["rules"]
    return {ref["name"].removesuffix("-serve-svc"): ref["weight"] for ref in rule["backendRefs"]}


def wait_until(
    kubectl: Kubectl, namespace: str, name: str, reached: Callable[[dict[str, Any]], bool], seconds: float, what: str
) -> dict[str, Any]:
    """Return the status once it is as wanted; else fail with the last one."""
    last: dict[str, Any] = {}

    def holds() -> bool:
        last.clear()
        last.update(status(kubectl, namespace, name))
        return reached(last)

    try:
        eventually(holds, seconds, what)
    except AssertionError as error:
        raise AssertionError(f"{error}; its status: {json.dumps(last)}") from None
    return last


def wait_for_switch(kubectl: Kubectl, namespace: str, name: str, old: str, seconds: float = 420) -> dict[str, Any]:
    """Return the status once another RayCluster than *old* is the active one, and no other is pending."""
    return wait_until(
        kubectl,
        namespace,
        name,
        lambda seen: cluster_of(seen) not in ("", old) and not cluster_of(seen, "pending"),
        seconds,
        f"another RayCluster than {old} is active",
    )


def serve_url(namespace: str, name: str) -> str:
    """Where the serve service of a RayService answers, once it does: kube-proxy may be a second late with its first pods."""
    return answering(f"http://{name}-serve-svc.{namespace}.svc.cluster.local:8000/")


def gateway_url(kubectl: Kubectl, namespace: str, name: str) -> str:
    """Where the Gateway of a RayService answers, once it does."""
    return answering(workload.gateway_url(kubectl, namespace, name))


def answering(url: str) -> str:
    def answers() -> bool:
        try:
            with urlopen(url, timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    eventually(answers, 60, f"{url} answers")
    return url


def settle(traffic: Traffic, *, seconds: float = 60.0, version: str = "", cluster: str = "") -> None:
    """Return once only that version or RayCluster answers: 40 requests in a row."""

    def last() -> bool:
        before = traffic.count()
        traffic.wait_for(before.sent + 40)
        after = traffic.count()
        versions, clusters = set(after.versions - before.versions), set(after.clusters - before.clusters)
        return (not version or versions == {version}) and (not cluster or clusters == {cluster})

    eventually(last, seconds, f"only {version or cluster} answers")


def none_failed(count: Count, requests: int = REQUESTS) -> None:
    """All of at least so many requests were answered."""
    assert count.failed == 0, str(count)
    assert count.sent >= requests, str(count)
