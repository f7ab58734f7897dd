"""NetworkPolicies equal to KubeRay's where presets are off, and who else is admitted where they are on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import DEFAULT_GATES, NETWORK_POLICY
from kuberay.api.kinds import NETWORK_POLICY as POLICY
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.objects import RayObject, from_dict
from kuberay.hooks import FinishContext, OwnerContext
from kuberay.plan.build.context import owner_context, owner_reference
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import FixedView, Observed
from kuberay.plugins.loader import PluginError, load
from kuberay.plugins.manager import PluginManager

DATA = Path(__file__).parent / "data"
CASES = ["netpol-default", "netpol-egress-only", "netpol-ingress-only", "netpol-rayjob", "netpol-removed"]
GATES = {**DEFAULT_GATES, NETWORK_POLICY: True}
NO_PRESETS = {"admit_operator": False, "admit_dns": False, "admit_api_server": False}


def manager(**settings: Any) -> PluginManager:
    hooks = PluginManager(load(["networkpolicy"]))
    hooks.configure({"networkpolicy": settings})
    return hooks


@pytest.fixture
def bare() -> PluginManager:
    """Without presets, as KubeRay."""
    return manager(**NO_PRESETS)


@pytest.fixture
def hooks() -> PluginManager:
    return manager()


def context(
    body: Mapping[str, Any],
    *,
    gates: Mapping[str, bool] = GATES,
    objects: Iterable[tuple[Any, dict[str, Any]]] = (),
    operator: str = "kuberay-system",
) -> OwnerContext:
    """The context the operator would make; *objects* are children that exist."""
    obj = from_dict(RAYCLUSTER, _object(body))
    assert isinstance(obj, RayObject)
    observed = Observed(
        obj=obj,
        now=datetime(2026, 1, 1, tzinfo=UTC),
        gates=gates,
        view=FixedView(objects),
        config=PlanConfig(operator_namespace=operator),
    )
    return owner_context(observed, kind=RAYCLUSTER, cluster_spec=RayClusterSpec.parse(obj.spec), lookups=[])


def _object(body: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"namespace": "lab", "uid": "u-1", **body["metadata"]}
    copied: dict[str, Any] = json.loads(json.dumps({**body, "metadata": metadata}))
    return copied


def cluster(
    policy: Any, *groups: str, labels: Any = None, annotations: Any = None, params: Any = None, **spec: Any
) -> dict[str, Any]:
    """A RayCluster named ``test-cluster``; *params* are those of the head."""
    template = {"spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "test-cluster", "labels": labels or {}, "annotations": annotations or {}},
        "spec": {
            "headGroupSpec": {"rayStartParams": params or {}, "template": template},
            "workerGroupSpecs": [{"groupName": name, "replicas": 1, "template": template} for name in groups],
            **({} if policy is None else {"networkPolicy": policy}),
            **spec,
        },
    }


def policies(hooks: PluginManager, ctx: OwnerContext) -> dict[str, dict[str, Any]]:
    """By name."""
    assert hooks.validate(ctx) == ([], [])
    found = hooks.pre_create_pods(ctx)
    assert (found.waits, found.failures) == ([], [])
    return {manifest["metadata"]["name"]: manifest for manifest in found.manifests}


def head(hooks: PluginManager, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    spec: dict[str, Any] = policies(hooks, context(body, **options))["test-cluster-head"]["spec"]
    return spec


def inside(name: str = "test-cluster") -> dict[str, Any]:
    return {"podSelector": {"matchLabels": {"ray.io/cluster": name}}}


# As KubeRay, presets off


@pytest.mark.parametrize("case", CASES)
def test_the_policies_are_kuberays(bare, case):
    documents = [doc for doc in yaml.safe_load_all((DATA / case / "input.yaml").read_text()) if doc]
    expected = yaml.safe_load((DATA / case / "expected.yaml").read_text())["children"]
    body = next((child for child in expected if child["kind"] == "RayCluster"), documents[-1])
    wanted = [child for child in expected if child["kind"] == "NetworkPolicy"]
    ctx = context({**body, "metadata": {**body["metadata"], "ownerReferences": []}})
    found = [_recorded(manifest) for manifest in policies(bare, ctx).values()]
    assert sorted(found, key=lambda child: child["metadata"]["name"]) == wanted
    assert bool(wanted) is (case != "netpol-removed")


def _recorded(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest as the golden files have it: addresses masked, without what Kubernetes would fill in anyway."""
    found: dict[str, Any] = json.loads(re.sub(r"\d+(\.\d+){3}", "<ip>", json.dumps(manifest)))
    del found["metadata"]["namespace"]
    for owner in found["metadata"]["ownerReferences"]:
        del owner["uid"]
    for rule in found["spec"].get("ingress", []) + found["spec"].get("egress", []):
        for port in rule.get("ports", ()):
            if port.get("protocol") == "TCP":
                del port["protocol"]
    return found


@pytest.mark.parametrize(
    ("mode", "types", "ingress", "egress"),
    [
        pytest.param("DenyAll", ["Ingress", "Egress"], 1, 1, id="P45-all"),
        pytest.param(None, ["Ingress", "Egress"], 1, 1, id="P45-unset"),
        pytest.param("DenyAllIngress", ["Ingress"], 1, 0, id="P45-ingress"),
        pytest.param("DenyAllEgress", ["Egress"], 0, 1, id="P45-egress"),
    ],
)
def test_modes(bare, mode, types, ingress, egress):
    """P45: an unrestricted direction has no rules."""
    spec = head(bare, cluster({} if mode is None else {"mode": mode}))
    assert (spec["policyTypes"], len(spec.get("ingress", ())), len(spec.get("egress", ()))) == (types, ingress, egress)


def test_a_worker_group(bare):
    """P46"""
    found = policies(bare, context(cluster({}, "small-group")))
    assert list(found) == ["test-cluster-head", "test-cluster-workers-small-group"]
    policy = found["test-cluster-workers-small-group"]
    labels = {"ray.io/cluster": "test-cluster", "ray.io/node-type": "worker", "ray.io/group": "small-group"}
    assert policy["spec"]["podSelector"] == {"matchLabels": labels}
    assert policy["spec"]["ingress"] == [{"from": [inside()]}]
    assert policy["spec"]["egress"] == [{"to": [inside()]}]
    assert policy["metadata"]["labels"] == {
        "ray.io/cluster": "test-cluster",
        "ray.io/group": "small-group",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


def _of_job(mode: str) -> dict[str, str]:
    return {
        "ray.io/originated-from-cr-name": "train",
        "ray.io/originated-from-crd": "RayJob",
        "ray.io/job-submission-mode": mode,
    }


@pytest.mark.parametrize(
    ("mode", "params", "port"),
    [
        pytest.param("K8sJobMode", {}, 8265, id="P47"),
        pytest.param("K8sJobMode", {"dashboard-port": "9265"}, 9265, id="P48"),
        pytest.param("K8sJobMode", {"dashboard-port": "no number"}, 8265, id="unreadable"),
        pytest.param("SidecarMode", {}, None, id="P47-sidecar"),
        pytest.param("HTTPMode", {}, None, id="http"),
    ],
)
def test_the_submitter_of_the_clusters_own_job(bare, mode, params, port):
    rules = head(bare, cluster({}, labels=_of_job(mode), params=params))["ingress"]
    assert len(rules) == (1 if port is None else 2)
    if port is not None:
        labels = {"ray.io/originated-from-cr-name": "train", "ray.io/originated-from-crd": "RayJob"}
        assert rules[1] == {
            "from": [{"podSelector": {"matchLabels": labels}}],
            "ports": [{"protocol": "TCP", "port": port}],
        }


def test_the_submitter_reaches_the_head_only(bare):
    found = policies(bare, context(cluster({}, "g", labels=_of_job("K8sJobMode"))))
    assert len(found["test-cluster-workers-g"]["spec"]["ingress"]) == 1


A, B = ({"to": [{"ipBlock": {"cidr": cidr}}]} for cidr in ("192.0.2.0/24", "198.51.100.0/24"))


def test_a_groups_own_rules_replace_those_for_all_workers(bare):
    """NP-05 and P49: base and B for the group that has an entry, base and A for the others; nothing is merged."""
    policy = {
        "mode": "DenyAll",
        "head": {"ingressRules": [{"ports": [{"port": 8265}]}]},
        "worker": {"egressRules": [A]},
        "workerGroups": [{"groupName": "gpu", "egressRules": [B]}, {"groupName": "quiet", "ingressRules": [{}]}],
    }
    found = policies(bare, context(cluster(policy, "gpu", "quiet", "cpu")))
    egress = {name.removeprefix("test-cluster-"): found[name]["spec"]["egress"][1:] for name in found}
    assert egress == {"head": [], "workers-gpu": [B], "workers-quiet": [], "workers-cpu": [A]}
    ingress = {name.removeprefix("test-cluster-"): found[name]["spec"]["ingress"][1:] for name in found}
    assert ingress == {
        "head": [{"ports": [{"port": 8265}]}],
        "workers-gpu": [],
        "workers-quiet": [{}],
        "workers-cpu": [],
    }


def test_without_the_field_there_are_no_policies(bare):
    """NP-05: what was there is no longer wanted, and so removed."""
    assert policies(bare, context(cluster(None, "g"))) == {}


def test_rules_of_null_count_as_none(bare):
    policy = {"head": None, "worker": {"ingressRules": None, "egressRules": None}, "workerGroups": None}
    found = policies(bare, context(cluster(policy, "g")))
    assert [len(each["spec"]["ingress"]) for each in found.values()] == [1, 1]


# Removed groups


def test_a_removed_group_keeps_its_policy_until_its_last_pod_is_gone(bare):
    """NP-05: KubeRay takes the policy away first, and its pods are open to everybody from then on."""
    before = policies(bare, context(cluster({"worker": {"egressRules": [A]}}, "gone", "stays")))
    obj = from_dict(RAYCLUSTER, _object(cluster({}, "stays")))
    owners = [owner_reference(RAYCLUSTER, obj)]
    live = [(POLICY, {**m, "metadata": {**m["metadata"], "uid": name}}) for name, m in before.items()]
    labels = {"ray.io/node-type": "worker", "ray.io/group": "gone"}
    metadata = {"name": "w", "namespace": "lab", "uid": "p-1", "labels": labels, "ownerReferences": owners}
    pod = {"metadata": metadata, "spec": {"containers": []}, "status": {"phase": "Running"}}
    found = policies(bare, context(cluster({}, "stays"), objects=[*live, (POD, pod)]))
    assert sorted(found) == ["test-cluster-head", "test-cluster-workers-gone", "test-cluster-workers-stays"]
    assert found["test-cluster-workers-gone"] == before["test-cluster-workers-gone"]
    assert sorted(policies(bare, context(cluster({}, "stays"), objects=live))) == [
        "test-cluster-head",
        "test-cluster-workers-stays",
    ]
    # The whole field removed: nobody is protected any more, whatever runs.
    assert policies(bare, context(cluster(None, "stays"), objects=[*live, (POD, pod)])) == {}


def test_a_cluster_that_is_being_suspended_keeps_its_policies(bare):
    ctx = context(cluster({}, "g"))
    finished = bare.finish(FinishContext(owner=ctx, reason="Suspended", cluster_alive=True))
    assert [m["metadata"]["name"] for m in finished.manifests] == list(policies(bare, ctx))


@pytest.mark.parametrize("gates", [DEFAULT_GATES, {}])
def test_without_the_gate_the_plugin_does_nothing(hooks, gates):
    ctx = context(cluster({"mode": "DenyAll"}, "g", annotations={"ray.io/network-policy-presets": "dsn"}), gates=gates)
    assert policies(hooks, ctx) == {}
    assert hooks.finish(FinishContext(owner=ctx, reason="Suspended", cluster_alive=True)).manifests == []


# Presets


OPERATOR = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kuberay-system"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/component": "kuberay-operator"}},
}


def tcp(*ports: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def test_the_operator_is_admitted(hooks):
    """NP-01: the dashboard, and the GCS for draining; nothing at workers."""
    found = policies(hooks, context(cluster({}, "g", params={"dashboard-port": "8270", "port": "6380"})))
    assert found["test-cluster-head"]["spec"]["ingress"] == [
        {"from": [inside()]},
        {"from": [OPERATOR], "ports": tcp(8270, 6380)},
    ]
    assert found["test-cluster-workers-g"]["spec"]["ingress"] == [{"from": [inside()]}]


def test_the_operator_asks_more_of_a_rayservice(hooks):
    """NP-01: whether the Serve proxy is healthy, and what is in flight, also at workers."""
    labels = {"ray.io/originated-from-crd": "RayService", "ray.io/originated-from-cr-name": "s"}
    body = cluster({"mode": "DenyAllIngress"}, "g", labels=labels, params={"metrics-export-port": "8081"})
    body["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = [
        {"name": "serve", "containerPort": 8123}
    ]
    found = policies(hooks, context(body))
    assert found["test-cluster-head"]["spec"]["ingress"][1]["ports"] == tcp(8265, 6379, 8123, 8081)
    assert found["test-cluster-workers-g"]["spec"]["ingress"][1] == {"from": [OPERATOR], "ports": tcp(8080)}


def test_an_operator_that_does_not_know_where_it_is_cannot_be_named(hooks):
    assert head(hooks, cluster({}), operator="")["ingress"] == [{"from": [inside()]}]


def test_an_administrator_says_where_the_operator_is():
    peers = [{"ipBlock": {"cidr": "203.0.113.7/32"}}]
    rules = head(manager(operator_peers=peers), cluster({}), operator="")["ingress"]
    assert rules[1] == {"from": peers, "ports": tcp(8265, 6379)}


def test_all_pods_may_ask_for_names(hooks):
    found = policies(hooks, context(cluster({"mode": "DenyAllEgress"}, "g")))
    for policy in found.values():
        (_, dns) = policy["spec"]["egress"]
        assert [(p["protocol"], p["port"]) for p in dns["ports"]] == [
            ("UDP", 53),
            ("TCP", 53),
            ("UDP", 5353),
            ("TCP", 5353),
        ]
        (expression,) = dns["to"][0]["namespaceSelector"]["matchExpressions"]
        assert expression["values"] == ["kube-system", "openshift-dns"]


@pytest.mark.parametrize(
    ("spec", "who"),
    [
        pytest.param({}, [], id="nobody"),
        pytest.param({"enableInTreeAutoscaling": True}, ["test-cluster-head"], id="autoscaler"),
        pytest.param(
            {"authOptions": {"mode": "token", "enableK8sTokenAuth": True}},
            ["test-cluster-head", "test-cluster-workers-g"],
            id="tokens",
        ),
    ],
)
def test_the_api_server_for_those_who_need_it(hooks, spec, who):
    found = policies(hooks, context(cluster({"mode": "DenyAllEgress"}, "g", **spec)))
    admitted = [
        name for name, policy in found.items() if tcp(443, 6443) in [r.get("ports") for r in policy["spec"]["egress"]]
    ]
    assert admitted == who


def test_the_users_rules_come_last(hooks):
    rules = head(hooks, cluster({"head": {"egressRules": [A], "ingressRules": [{}]}}, enableInTreeAutoscaling=True))
    assert (rules["egress"][-1], rules["ingress"][-1]) == (A, {})
    assert (len(rules["egress"]), len(rules["ingress"])) == (4, 3)


@pytest.mark.parametrize(
    ("off", "ingress", "egress"),
    [
        ("admit_operator", 1, 3),
        ("admit_dns", 2, 2),
        ("admit_api_server", 2, 2),
    ],
)
def test_each_preset_can_be_turned_off(off, ingress, egress):
    spec = head(manager(**{off: False}), cluster({}, enableInTreeAutoscaling=True))
    assert (len(spec["ingress"]), len(spec["egress"])) == (ingress, egress)


@pytest.mark.parametrize(
    ("annotation", "ingress", "egress"),
    [("none", 1, 1), ("", 1, 1), ("dns", 1, 2), (" operator , dns ", 2, 2), ("operator,dns,api-server", 2, 3)],
)
def test_a_cluster_chooses_its_presets(hooks, annotation, ingress, egress):
    annotations = {"ray.io/network-policy-presets": annotation}
    spec = head(hooks, cluster({}, annotations=annotations, enableInTreeAutoscaling=True))
    assert (len(spec["ingress"]), len(spec["egress"])) == (ingress, egress)


def test_a_cluster_cannot_turn_on_what_the_administrator_turned_off(bare):
    annotations = {"ray.io/network-policy-presets": "operator,dns,api-server"}
    spec = head(bare, cluster({}, annotations=annotations, enableInTreeAutoscaling=True))
    assert (len(spec["ingress"]), len(spec["egress"])) == (1, 1)


def test_a_misspelt_preset_is_refused(hooks):
    ctx = context(cluster({}, annotations={"ray.io/network-policy-presets": "dns, operater"}))
    ((problem,), _) = hooks.validate(ctx)
    assert (problem.path, problem.message) == (
        "metadata.annotations[ray.io/network-policy-presets]",
        "names 'operater', which is no preset: use a comma-separated list of operator, dns, api-server, or none",
    )


# Settings and permissions


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"operator_peers": [{"selector": {}}]}, "plugins.networkpolicy.operator_peers.0: Value error, a peer"),
        ({"dns_peers": [{}]}, "plugins.networkpolicy.dns_peers.0: Value error, a peer"),
        ({"dns_peers": []}, "plugins.networkpolicy.dns_peers: "),
        ({"api_server_ports": [0]}, "plugins.networkpolicy.api_server_ports.0: "),
        ({"admit_all": True}, "plugins.networkpolicy.admit_all: "),
    ],
)
def test_wrong_settings_are_refused_with_their_path(settings, told):
    with pytest.raises(PluginError) as refused:
        manager(**settings)
    assert str(refused.value).startswith(told)


def test_what_the_operator_is_asked_for(hooks):
    ((rule,),) = hooks.rbac_rules().values()
    assert (rule.api_groups, rule.resources) == (("networking.k8s.io",), ("networkpolicies",))
    assert [(w.kind, w.label_selector, w.prune) for w in hooks.watches()] == [
        (POLICY, "app.kubernetes.io/created-by=kuberay-operator", True)
    ]


def test_the_same_question_gets_the_same_answer(hooks):
    body = cluster({"worker": {"egressRules": [A, B]}}, "b", "a", enableInTreeAutoscaling=True)
    first, second = (json.dumps(policies(manager(), context(body))) for _ in range(2))
    assert first == second
