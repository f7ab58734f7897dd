"""Sidecar, account, role and pod changes: equal to what KubeRay makes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, RAYSERVICE, ROLE, ROLE_BINDING, SERVICE_ACCOUNT, Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.hooks import OwnerContext, PodContext
from kuberay.plan.build.context import owner_context
from kuberay.plan.build.pods import PodFactory, PodPlace
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import ObjectProbe, ProbeResult
from kuberay.plan.observed import Observed
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager

DATA = Path(__file__).parent / "data"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CASES = sorted(path.name for path in DATA.iterdir() if path.name != "autoscale-sa-missing")
OURS = ("ServiceAccount", "Role", "RoleBinding")
SERVER_DEFAULTS = {"imagePullPolicy": "IfNotPresent"}


@pytest.fixture
def hooks() -> PluginManager:
    return PluginManager(load(["autoscaler-v2"]))


def context(
    body: dict[str, Any],
    *,
    namespace: str = "lab",
    accounts: dict[str, str] | None = None,
    config: PlanConfig | None = None,
) -> OwnerContext:
    """The context the operator would make; *accounts* maps ServiceAccounts to ``found`` or ``absent``."""
    body = json.loads(json.dumps({**body, "metadata": {"namespace": namespace, "uid": "u-1", **body["metadata"]}}))
    obj = from_dict(RAYCLUSTER, body)
    assert isinstance(obj, RayObject)
    probes = {
        ObjectProbe(SERVICE_ACCOUNT, namespace, name): ProbeResult(outcome, NOW)  # type: ignore[arg-type]
        for name, outcome in (accounts or {}).items()
    }
    observed = Observed(obj=obj, now=NOW, probes=probes, config=config or PlanConfig())
    return owner_context(observed, kind=RAYCLUSTER, cluster_spec=RayClusterSpec.parse(obj.spec), lookups=[])


def cluster(
    *, pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    """A small autoscaled RayCluster named ``auto``."""
    ray = {"name": "ray", "image": "ray:1", **(container or {})}
    template = {"spec": {"containers": [ray], **(pod or {})}}
    group = {"groupName": "crew", "template": {"spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": spec.pop("name", "auto")},
        "spec": {
            "enableInTreeAutoscaling": True,
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [group],
            **spec,
        },
    }


def golden(case: str) -> tuple[OwnerContext, list[dict[str, Any]], list[dict[str, Any]]]:
    documents = [doc for doc in yaml.safe_load_all((DATA / case / "input.yaml").read_text()) if doc]
    expected = yaml.safe_load((DATA / case / "expected.yaml").read_text())
    accounts = {doc["metadata"]["name"]: "found" for doc in documents if doc["kind"] == "ServiceAccount"}
    missing = {"ghost": "absent"} if case == "autoscale-sa-missing" else {}
    owner = context(documents[-1], namespace=f"g-{case}", accounts={**accounts, **missing})
    return owner, expected["children"], expected["events"]


def recorded(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest as the golden files have it."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "namespace"}
    owners = [{key: value for key, value in owner.items() if key != "uid"} for owner in metadata["ownerReferences"]]
    return {**manifest, "metadata": {**metadata, "ownerReferences": owners}}


def recorded_container(container: dict[str, Any]) -> dict[str, Any]:
    """A container as the golden files have it: without server defaults, requests that equal limits, and apiVersion v1."""
    found: dict[str, Any] = json.loads(json.dumps(container))
    if found.get("imagePullPolicy") == "IfNotPresent":
        del found["imagePullPolicy"]
    if found["resources"].get("requests") == found["resources"].get("limits"):
        del found["resources"]["requests"]
    for variable in found["env"]:
        variable.get("valueFrom", {}).get("fieldRef", {}).pop("apiVersion", None)
    return found


def head_pod(hooks: PluginManager, owner: OwnerContext, node_type: str = "head", group: int = 0) -> dict[str, Any]:
    """A whole pod: the core's, changed by the plugin."""
    spec = RayClusterSpec.parse(owner.spec)
    place = spec.head_group_spec if node_type == "head" else (spec.worker_group_specs or [])[group]
    factory = PodFactory(owner=owner, spec=spec, config=PlanConfig(), hooks=hooks)
    name = "headgroup" if node_type == "head" else spec.worker_group_specs[group].group_name  # type: ignore[index]
    built = factory.build(PodPlace(group=place, node_type=node_type, group_name=name, name="x"))  # type: ignore[arg-type]
    assert not built.failures
    return built.pod


@pytest.mark.parametrize("case", CASES)
def test_the_objects_are_kuberays(hooks, case):
    owner, children, _ = golden(case)
    resources = hooks.pre_create_pods(owner)
    assert (resources.waits, resources.failures) == ([], [])
    expected = sorted((child for child in children if child["kind"] in OURS), key=lambda child: child["kind"])
    assert sorted(map(recorded, resources.manifests), key=lambda child: child["kind"]) == expected
    assert expected
    assert {manifest["metadata"]["namespace"] for manifest in resources.manifests} == {owner.namespace}


@pytest.mark.parametrize("case", CASES)
def test_the_head_pod_is_kuberays(hooks, case):
    owner, children, _ = golden(case)
    (expected,) = [child for child in children if child["kind"] == "Pod" and "-head-" in child["metadata"]["name"]]
    want, pod = expected["spec"], head_pod(hooks, owner)["spec"]
    assert [container["name"] for container in pod["containers"]] == [c["name"] for c in want["containers"]]
    assert recorded_container(pod["containers"][-1]) == want["containers"][-1]
    assert pod["serviceAccountName"] == want["serviceAccountName"]
    assert pod.get("restartPolicy", "Always") == want.get("restartPolicy", "Always")
    assert [volume["name"] for volume in pod["volumes"]] == [volume["name"] for volume in want["volumes"]]
    ray, want_ray = pod["containers"][0], want["containers"][0]
    assert ray["volumeMounts"] == want_ray["volumeMounts"]
    assert " --no-monitor " in ray["args"][0]
    names = [variable["name"] for variable in want_ray["env"]]
    assert [variable["name"] for variable in ray["env"]] == names
    switch = [variable for variable in ray["env"] if variable["name"] == "RAY_enable_autoscaler_v2"]
    assert switch == [variable for variable in want_ray["env"] if variable["name"] == "RAY_enable_autoscaler_v2"]


@pytest.mark.parametrize("case", CASES)
def test_worker_pods_are_kuberays(hooks, case):
    owner, children, _ = golden(case)
    groups = [group["groupName"] for group in owner.spec["workerGroupSpecs"]]
    pods = [child for child in children if child["kind"] == "Pod" and "-worker-" in child["metadata"]["name"]]
    for expected in pods:
        pod = head_pod(hooks, owner, "worker", groups.index(expected["metadata"]["labels"]["ray.io/group"]))["spec"]
        assert pod.get("restartPolicy", "Always") == expected["spec"].get("restartPolicy", "Always")
        assert len(pod["containers"]) == 1
        assert "serviceAccountName" not in pod
        assert "no-monitor" not in pod["containers"][0]["args"][0]
    assert pods


# Accounts


def test_a_missing_account_is_told_as_kuberay_does(hooks):
    owner, _, events = golden("autoscale-sa-missing")
    resources = hooks.pre_create_pods(owner)
    ((plugin, wait),) = resources.waits
    assert plugin == "autoscaler-v2"
    assert [(wait.event, wait.reason)] == [(event["reason"], event["message"]) for event in events]
    assert resources.manifests == []


def test_pods_wait_until_the_account_was_looked_up(hooks):
    body = cluster(pod={"serviceAccountName": "pilot"})
    resources = hooks.pre_create_pods(context(body))
    assert [wait.reason for _, wait in resources.waits] == ["Checking whether ServiceAccount pilot exists"]
    resources = hooks.pre_create_pods(context(body, accounts={"pilot": "found"}))
    assert [manifest["kind"] for manifest in resources.manifests] == ["Role", "RoleBinding"]
    assert resources.manifests[1]["subjects"][0]["name"] == "pilot"


def test_an_account_that_the_operator_makes_is_not_looked_up(hooks):
    asked: list[tuple[Kind, str, str]] = []

    def lookup(kind: Kind, namespace: str, name: str) -> bool | None:
        asked.append((kind, namespace, name))
        return None

    owner = context(cluster())
    resources = hooks.pre_create_pods(OwnerContext(**{**_fields(owner), "lookup": lookup}))
    assert [manifest["kind"] for manifest in resources.manifests] == ["ServiceAccount", "Role", "RoleBinding"]
    assert asked == []


def _fields(owner: OwnerContext) -> dict[str, Any]:
    return {name: getattr(owner, name) for name in OwnerContext.__dataclass_fields__}


def test_long_names_are_cut_the_same_everywhere(hooks):
    name = "1" + "a" * 60
    owner = context(cluster(name=name))
    short = "a" * 50
    resources = hooks.pre_create_pods(owner).manifests
    assert {manifest["metadata"]["name"] for manifest in resources} == {short}
    assert resources[2]["subjects"][0]["name"] == short
    assert resources[2]["roleRef"]["name"] == short
    assert head_pod(hooks, owner)["spec"]["serviceAccountName"] == short
    assert all(manifest["metadata"]["labels"]["ray.io/cluster"] == name for manifest in resources)


@pytest.mark.parametrize("account", ["7pilot", "p" * 80])
def test_a_users_account_keeps_its_name(hooks, account):
    owner = context(cluster(pod={"serviceAccountName": account}), accounts={account: "found"})
    assert head_pod(hooks, owner)["spec"]["serviceAccountName"] == account
    assert hooks.pre_create_pods(owner).manifests[1]["subjects"][0]["name"] == account


# Off means nothing


@pytest.mark.parametrize("value", [None, False, "true"])
def test_without_autoscaling_nothing_happens(hooks, value):
    owner = context(cluster())
    owner.spec.pop("enableInTreeAutoscaling")
    if value is not None:
        owner.spec["enableInTreeAutoscaling"] = value
    resources = hooks.pre_create_pods(owner)
    assert (resources.manifests, resources.waits, resources.failures) == ([], [], [])
    ctx = PodContext(owner=owner, group="headgroup", node_type="head")
    assert hooks.ray_start_params(ctx) == ({}, [])
    pod = {"metadata": {}, "spec": {"containers": [{"name": "ray"}]}}
    assert hooks.mutate_pod(ctx, pod).pod == pod


def test_a_submitter_is_left_alone(hooks):
    spec = {"rayClusterSpec": cluster()["spec"]}
    owner = OwnerContext(**{**_fields(context(cluster())), "kind": RAYJOB, "spec": spec})
    pod = {"metadata": {}, "spec": {"containers": [{"name": "submit"}]}}
    assert hooks.mutate_pod(PodContext(owner=owner, group="submittergroup", node_type="submitter"), pod).pod == pod
    assert hooks.pre_create_pods(owner).manifests == []


# The sidecar


def sidecar(hooks: PluginManager, config: PlanConfig | None = None, **spec: Any) -> dict[str, Any]:
    pod = head_pod(hooks, context(cluster(**spec), config=config))
    found: dict[str, Any] = pod["spec"]["containers"][-1]
    assert found["name"] == "autoscaler"
    return found


def test_login_shell(hooks):
    assert sidecar(hooks, PlanConfig(login_shell=True))["command"] == ["/bin/bash", "-cl", "--"]


def test_given_arguments_leave_the_generated_command_readable(hooks):
    container = sidecar(hooks, autoscalerOptions={"args": ["run it"]})
    assert container["args"] == ["run it"]
    (start,) = [v["value"] for v in container["env"] if v["name"] == "KUBERAY_GEN_AUTOSCALER_START_CMD"]
    assert start.startswith("ray kuberay-autoscaler --cluster-name")


@pytest.mark.parametrize(
    ("given", "resources"),
    [
        (None, {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1"}}),
        ({}, {}),
    ],
)
def test_resources_are_replaced_as_a_whole(hooks, given, resources):
    options = {} if given is None else {"resources": given}
    assert sidecar(hooks, autoscalerOptions=options)["resources"] == resources


AUTH = {
    "off": ({"mode": "disabled"}, []),
    "unset": ({}, []),
    "own secret": ({"mode": "token", "secretName": "mine"}, ["RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN=mine/auth_token"]),
    "made secret": ({"mode": "token"}, ["RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN=auto/auth_token"]),
    "kubernetes": (
        {"mode": "token", "enableK8sTokenAuth": True},
        ["RAY_AUTH_MODE=token", "RAY_ENABLE_K8S_TOKEN_AUTH=true"],
    ),
}


@pytest.mark.parametrize("case", AUTH)
def test_token_authentication(hooks, case):
    auth, expected = AUTH[case]
    container = sidecar(hooks, authOptions=auth, rayVersion="2.55.0")
    found = []
    for variable in container["env"]:
        if "AUTH" in variable["name"]:
            key = variable.get("valueFrom", {}).get("secretKeyRef")
            found.append(f"{variable['name']}={variable.get('value') or key['name'] + '/' + key['key']}")
    assert found == expected
    token = {"name": "ray-token", "mountPath": "/var/run/secrets/ray.io/serviceaccount", "readOnly": True}
    assert (token in container["volumeMounts"]) is (case == "kubernetes")


def test_users_mounts_come_before_the_logs(hooks):
    mounts = sidecar(hooks, autoscalerOptions={"volumeMounts": [{"name": "v", "mountPath": "/v"}]})["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == ["/v", "/tmp/ray"]


@pytest.mark.parametrize("where", ["ray", "sidecar", "both"])
def test_a_mount_at_the_log_path_is_kept(hooks, where):
    own = [{"name": "mine", "mountPath": "/tmp/ray"}]
    pod = {"volumes": [{"name": "mine", "emptyDir": {}}]}
    body = cluster(
        pod=pod,
        container={"volumeMounts": own} if where != "sidecar" else {},
        autoscalerOptions={"volumeMounts": own} if where != "ray" else {},
    )
    spec = head_pod(hooks, context(body))["spec"]
    volumes = {
        name: next(m["name"] for m in container["volumeMounts"] if m["mountPath"] == "/tmp/ray")
        for name, container in (("ray", spec["containers"][0]), ("sidecar", spec["containers"][-1]))
    }
    assert volumes == {name: "mine" if where in (name, "both") else "ray-logs" for name in ("ray", "sidecar")}
    assert ("ray-logs" in [volume["name"] for volume in spec["volumes"]]) is (where != "both")


def test_the_version_switch_stands_after_the_users_variables(hooks):
    body = cluster(container={"env": [{"name": "MINE", "value": "1"}]}, autoscalerOptions={"version": "v1"})
    names = [variable["name"] for variable in head_pod(hooks, context(body))["spec"]["containers"][0]["env"]]
    assert names[:2] == ["MINE", "RAY_enable_autoscaler_v2"]


# Least privilege (SE-01)


def test_with_least_privilege_only_the_autoscaler_sees_the_token(hooks):
    """SE-01: no container but the autoscaler's can use the account, whatever the user's template says of it."""
    hooks.configure({"autoscaler-v2": {"least_privilege": True}})
    extra = {"containers": [*cluster()["spec"]["headGroupSpec"]["template"]["spec"]["containers"], {"name": "own"}]}
    owner = context(cluster(pod={**extra, "automountServiceAccountToken": True}))
    spec = head_pod(hooks, owner)["spec"]
    assert spec["automountServiceAccountToken"] is False
    where = "/var/run/secrets/kubernetes.io/serviceaccount"
    mounted = {c["name"]: where in [m["mountPath"] for m in c.get("volumeMounts", ())] for c in spec["containers"]}
    assert mounted == {"ray": False, "own": False, "autoscaler": True}
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "autoscaler-token"]
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    assert spec["serviceAccountName"] == "auto"


def rules(hooks: PluginManager, body: dict[str, Any]) -> list[dict[str, Any]]:
    (role,) = [m for m in hooks.pre_create_pods(context(body)).manifests if m["kind"] == "Role"]
    found: list[dict[str, Any]] = role["rules"]
    return found


READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
ITS_CLUSTER = {
    "apiGroups": ["ray.io"],
    "resources": ["rayclusters"],
    "verbs": ["get", "patch"],
    "resourceNames": ["auto"],
}


def test_with_least_privilege_the_role_is_for_the_one_raycluster(hooks):
    """SE-01: RBAC cannot say which pods, so those of the namespace may be read; none may be changed."""
    hooks.configure({"autoscaler-v2": {"least_privilege": True}})
    assert rules(hooks, cluster()) == [READ_PODS, ITS_CLUSTER]


def test_with_least_privilege_an_autoscaler_that_resizes_pods_may_change_them(hooks):
    """SE-01: Ray changes pods for nothing else."""
    hooks.configure({"autoscaler-v2": {"least_privilege": True}})
    body = cluster()
    body["metadata"]["annotations"] = {"ray.io/ippr": "{}"}
    resize = {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]}
    assert rules(hooks, body) == [{**READ_PODS, "verbs": ["get", "list", "watch", "patch"]}, resize, ITS_CLUSTER]


def test_a_users_own_mount_in_place_of_the_token_is_kept(hooks):
    hooks.configure({"autoscaler-v2": {"least_privilege": True}})
    where = "/var/run/secrets/kubernetes.io/serviceaccount"
    options = {"volumeMounts": [{"name": "mine", "mountPath": where}]}
    mounts = sidecar(hooks, autoscalerOptions=options)["volumeMounts"]
    assert [mount["name"] for mount in mounts if mount["mountPath"] == where] == ["mine"]


TOKENS = {"mode": "token", "enableK8sTokenAuth": True}


@pytest.mark.parametrize(
    ("least", "spec", "warned"),
    [
        (True, {"authOptions": TOKENS}, True),
        (False, {"authOptions": TOKENS}, False),
        (True, {"authOptions": {"mode": "token"}}, False),
        (True, {"authOptions": TOKENS, "enableInTreeAutoscaling": False}, False),
        (True, {}, False),
    ],
)
def test_where_ray_itself_needs_a_token_of_the_account_that_is_told(hooks, least, spec, warned):
    """SE-01: a pod has one account, and with Kubernetes' own tokens every process of Ray shows one of it."""
    hooks.configure({"autoscaler-v2": {"least_privilege": least}})
    found, failures = hooks.warn(context(cluster(rayVersion="2.55.0", **spec)))
    assert failures == []
    assert [warning.problem.path for warning in found] == (["spec.authOptions.enableK8sTokenAuth"] if warned else [])


@pytest.mark.parametrize(
    ("kind", "field"), [(RAYJOB, "rayClusterSpec"), (RAYSERVICE, "rayClusterConfig")], ids=["RayJob", "RayService"]
)
def test_that_is_told_of_the_object_that_its_user_wrote(hooks, kind, field):
    hooks.configure({"autoscaler-v2": {"least_privilege": True}})
    inside = context(cluster(rayVersion="2.55.0", authOptions=TOKENS))
    found, failures = hooks.warn(replace(inside, kind=kind, spec={field: inside.spec}, cluster_spec=inside.spec))
    assert failures == []
    assert [warning.problem.path for warning in found] == [f"spec.{field}.authOptions.enableK8sTokenAuth"]
    selector = replace(inside, kind=RAYJOB, spec={"clusterSelector": {"a": "b"}}, cluster_spec=None)
    assert hooks.warn(selector) == ([], [])


# The version


@pytest.mark.parametrize(
    ("version", "switch", "policy"), [(None, [], None), ("v1", ["false"], None), ("v2", ["true"], "Never")]
)
def test_versions(hooks, version, switch, policy):
    """P40: two containers in the head; the switch and the restart policy follow the version."""
    options = {} if version is None else {"version": version}
    owner = context(cluster(autoscalerOptions=options))
    head, worker = head_pod(hooks, owner)["spec"], head_pod(hooks, owner, "worker")["spec"]
    assert [container["name"] for container in head["containers"]] == ["ray", "autoscaler"]
    ray, autoscaler = head["containers"]
    assert [v["value"] for v in ray["env"] if v["name"] == "RAY_enable_autoscaler_v2"] == switch
    assert "RAY_enable_autoscaler_v2" not in [v["name"] for v in autoscaler["env"]]
    assert (head.get("restartPolicy"), worker.get("restartPolicy")) == (policy, policy)


def test_a_workers_restart_policy_is_kept_under_v1(hooks):
    """P41"""
    body = cluster(autoscalerOptions={"version": "v1"})
    body["spec"]["workerGroupSpecs"][0]["template"]["spec"]["restartPolicy"] = "Always"
    assert head_pod(hooks, context(body), "worker")["spec"]["restartPolicy"] == "Always"


# What the operator is asked for


def test_the_operator_holds_all_it_grants(hooks):
    rules = hooks.rbac_rules()["autoscaler-v2"]
    held = {
        (group, resource, verb)
        for rule in rules
        for group in rule.api_groups
        for resource in rule.resources
        for verb in rule.verbs
    }
    for manifest in hooks.pre_create_pods(context(cluster())).manifests:
        for rule in manifest.get("rules", ()):
            for verb in rule["verbs"]:
                assert (rule["apiGroups"][0], rule["resources"][0], verb) in held
    for kind in (SERVICE_ACCOUNT, ROLE, ROLE_BINDING):
        for verb in ("get", "list", "watch", "create", "patch"):
            assert (kind.group, kind.plural, verb) in held


def test_watched_objects_are_those_with_our_label(hooks):
    ours = "app.kubernetes.io/created-by=kuberay-operator"
    assert [(w.kind, w.label_selector, w.prune, w.create_only) for w in hooks.watches()] == [
        (SERVICE_ACCOUNT, ours, False, True),
        (ROLE, ours, False, False),
        (ROLE_BINDING, ours, False, False),
    ]
    for manifest in hooks.pre_create_pods(context(cluster())).manifests:
        assert manifest["metadata"]["labels"]["app.kubernetes.io/created-by"] == "kuberay-operator"
