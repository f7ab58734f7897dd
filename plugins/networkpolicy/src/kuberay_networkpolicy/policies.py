"""The NetworkPolicies of a RayCluster: one for the head and one for each worker group, from ``spec.networkPolicy``.

Source: spec plugins.md 11, raycluster.md 2.11, golden/plugins/netpol-*, cases.md NP-05.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import NETWORK_POLICY, RAYJOB
from kuberay.api.names import (
    APP_NAME,
    COMPONENT,
    HEAD,
    HEAD_GROUP,
    LABEL_APP_NAME,
    LABEL_CLUSTER,
    LABEL_CREATED_BY,
    LABEL_GROUP,
    LABEL_NODE_TYPE,
    LABEL_ORIGIN_CRD,
    LABEL_ORIGIN_NAME,
    LABEL_SUBMISSION_MODE,
    WORKER,
)
from kuberay.hooks import OwnerContext
from kuberay.hooks.types import Manifest

from kuberay_networkpolicy import presets

Rule = dict[str, Any]


def wanted(ctx: OwnerContext) -> list[Manifest]:
    """All policies of the RayCluster; none when its spec has no ``networkPolicy``.

    A group that is no longer in the spec keeps its policy until its last pod is gone.
    """
    policy = ctx.spec.get("networkPolicy")
    if policy is None:
        return []
    spec = RayClusterSpec.parse(ctx.spec)
    groups = [group.group_name for group in spec.worker_group_specs]
    names = [HEAD_GROUP, *dict.fromkeys(groups)]
    return [_build(ctx, spec, policy, group) for group in names] + _of_removed_groups(ctx, groups)


def policy_name(cluster: str, group: str) -> str:
    """``<cluster>-head`` or ``<cluster>-workers-<group>``."""
    return f"{cluster}-head" if group == HEAD_GROUP else f"{cluster}-workers-{group}"


def _build(ctx: OwnerContext, spec: RayClusterSpec, policy: Mapping[str, Any], group: str) -> Manifest:
    mode = policy.get("mode") or "DenyAll"
    rules = _rules(policy, group)
    inside = {"podSelector": {"matchLabels": {LABEL_CLUSTER: ctx.name}}}
    body: dict[str, Any] = {"podSelector": {"matchLabels": _pods(ctx, group)}, "policyTypes": []}
    if mode != "DenyAllEgress":
        body["policyTypes"].append("Ingress")
        body["ingress"] = [
            {"from": [inside]},
            *_submitter(ctx, spec, group),
            *presets.ingress(ctx, spec, group),
            *(rules.get("ingressRules") or ()),
        ]
    if mode != "DenyAllIngress":
        body["policyTypes"].append("Egress")
        body["egress"] = [
            {"to": [inside]},
            *presets.egress(ctx, spec, group),
            *(rules.get("egressRules") or ()),
        ]
    labels = {
        LABEL_CLUSTER: ctx.name,
        LABEL_GROUP: group,
        LABEL_APP_NAME: APP_NAME,
        LABEL_CREATED_BY: COMPONENT,
    }
    return _manifest(ctx, policy_name(ctx.name, group), labels, body)


def _manifest(ctx: OwnerContext, name: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> Manifest:
    return {
        "apiVersion": NETWORK_POLICY.api_version,
        "kind": NETWORK_POLICY.kind,
        "metadata": {
            "name": name,
            "namespace": ctx.namespace,
            "labels": dict(labels),
            "ownerReferences": [ctx.owner_reference],
        },
        "spec": dict(spec),
    }


def _pods(ctx: OwnerContext, group: str) -> dict[str, str]:
    if group == HEAD_GROUP:
        return {LABEL_CLUSTER: ctx.name, LABEL_NODE_TYPE: HEAD}
    return {LABEL_CLUSTER: ctx.name, LABEL_NODE_TYPE: WORKER, LABEL_GROUP: group}


def _rules(policy: Mapping[str, Any], group: str) -> Mapping[str, Any]:
    """The user's rules for *group*: an entry of its own replaces ``worker``, it does not add to it."""
    if group == HEAD_GROUP:
        return policy.get("head") or {}
    own = next((entry for entry in policy.get("workerGroups") or () if entry.get("groupName") == group), None)
    return own if own is not None else policy.get("worker") or {}


def _submitter(ctx: OwnerContext, spec: RayClusterSpec, group: str) -> Sequence[Rule]:
    """The submitter of the RayJob that the cluster was made for may reach the dashboard."""
    job = ctx.labels.get(LABEL_ORIGIN_NAME)
    made_for_job = ctx.labels.get(LABEL_ORIGIN_CRD) == RAYJOB.kind and job
    if group != HEAD_GROUP or not made_for_job or ctx.labels.get(LABEL_SUBMISSION_MODE) != "K8sJobMode":
        return ()
    labels = {LABEL_ORIGIN_NAME: job, LABEL_ORIGIN_CRD: RAYJOB.kind}
    ports = [{"protocol": "TCP", "port": presets.dashboard_port(spec)}]
    return ({"from": [{"podSelector": {"matchLabels": labels}}], "ports": ports},)


def _of_removed_groups(ctx: OwnerContext, groups: Sequence[str]) -> list[Manifest]:
    """As they are: their pods are on their way out, and are not to be open to everybody meanwhile."""
    left = {pod.group for pod in ctx.pods() if pod.node_type == WORKER} - set(groups)
    kept = {policy_name(ctx.name, group) for group in left}
    return [
        _manifest(ctx, live["metadata"]["name"], live["metadata"].get("labels") or {}, live["spec"])
        for live in (ctx.children(NETWORK_POLICY) if kept else ())
        if live["metadata"]["name"] in kept
    ]
