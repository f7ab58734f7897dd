"""What an edit would do, told beforehand: and it does just that (raycluster.md 4.9; cases.md RC-04, RC-17, RC-20)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.crd import load_kubernetes_schemas, object_schema
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD
from kuberay.api.structural import defaulted
from kuberay.plan.edit import creation_effects, edit_effects
from kuberay.plan.edit.changes import field_changes
from kuberay.plan.edit.model import EditEffects, Effect, Restarts
from kuberay.plan.edit.outdated import Older, older_pods
from kuberay.plan.edit.problems import edit_problems

Manifest = dict[str, Any]
Edit = Callable[[Manifest], Any]


@cache
def schema() -> Manifest:
    return object_schema(RayClusterSpec, load_kubernetes_schemas())


def stored(manifest: Manifest) -> Manifest:
    return {**manifest, "spec": defaulted(manifest["spec"], schema())}


def effects_of(before: Manifest, edit: Edit, **options: Any) -> EditEffects:
    after = copy.deepcopy(before)
    edit(after)
    old, new = stored(before), stored(after)
    problems = edit_problems(old, after, new, schema(), DEFAULT_GATES)
    return edit_effects(old, new, problems=problems, **options)


def found(effects: EditEffects) -> dict[str, tuple[Any, Any, Effect]]:
    return {c.change.path: (c.change.before, c.change.after, c.effect) for c in effects.changes}


def container(manifest: Manifest, group: int | None = None) -> Manifest:
    spec = manifest["spec"]
    template = (spec["headGroupSpec"] if group is None else spec["workerGroupSpecs"][group])["template"]
    first: Manifest = template["spec"]["containers"][0]
    return first


def set_group(number: int = 0, **fields: Any) -> Edit:
    return lambda m: m["spec"]["workerGroupSpecs"][number].update(fields)


def set_spec(**fields: Any) -> Edit:
    return lambda m: m["spec"].update(fields)


def set_image(group: int | None = None) -> Edit:
    return lambda m: container(m, group).update(image="example.test/ray:next")


def set_head(**fields: Any) -> Edit:
    return lambda m: m["spec"]["headGroupSpec"].update(fields)


def add_toleration(m: Manifest) -> None:
    m["spec"]["workerGroupSpecs"][0]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]


def drop_group(number: int) -> Edit:
    return lambda m: m["spec"]["workerGroupSpecs"].pop(number)


def add_group(name: str, replicas: int) -> Edit:
    def edit(m: Manifest) -> None:
        m["spec"]["workerGroupSpecs"].append(
            {**m["spec"]["workerGroupSpecs"][0], "groupName": name, "replicas": replicas}
        )

    return edit


def set_annotation(name: str, value: str) -> Edit:
    return lambda m: m["metadata"].setdefault("annotations", {}).update({name: value})


EDITS: dict[str, Edit] = {
    "nothing": lambda m: None,
    "what the schema would fill in": set_group(replicas=3, numOfHosts=1, priority=0),
    "head image": set_image(),
    "group image": set_image(0),
    "env": lambda m: container(m, 1).update(env=[{"name": "A", "value": "1"}]),
    "a port of the head": lambda m: container(m).update(ports=[{"name": "dashboard", "containerPort": 8300}]),
    "cpu": lambda m: container(m, 0)["resources"]["limits"].update(cpu="2"),
    "a toleration": add_toleration,
    "more": set_group(replicas=5),
    "fewer": set_group(replicas=1),
    "beyond the maximum": set_group(replicas=99),
    "a lower maximum": set_group(maxReplicas=2),
    "a higher minimum": set_group(minReplicas=4),
    "group suspended": set_group(suspend=True),
    "cluster suspended": set_spec(suspend=True),
    "suspend said to be false": set_spec(suspend=False),
    "group removed": drop_group(1),
    "group added": add_group("late", 2),
    "ray version": set_spec(rayVersion="2.55.0"),
    "service type": set_head(serviceType="NodePort"),
    "service annotations": set_spec(headServiceAnnotations={"a": "b"}),
    "start parameters": set_group(rayStartParams={"num-cpus": "4"}),
    "empty start parameters": set_group(rayStartParams={}),
    "group order": lambda m: m["spec"]["workerGroupSpecs"].reverse(),
    "managed by us": set_spec(managedBy="ray.io/kuberay-operator"),
    "a label": lambda m: m["metadata"].update(labels={"team": "red"}),
    "serve annotation": set_annotation("ray.io/enable-serve-service", "true"),
    "image and size": lambda m: (set_image(0)(m), set_group(replicas=5)(m)),
}


STRATEGIES: dict[str, Manifest] = {
    "absent": {},
    "None": {"type": "None"},
    "Recreate": {"type": "Recreate"},
    "Rolling": {"type": "Rolling"},
    "Rolling with consent": {"type": "Rolling", "maxUnavailable": 2, "allowHeadRestart": True},
}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES.keys())
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_what_is_told_is_what_happens(
    kubernetes: Any, cluster: Any, group: Any, edit: Edit, strategy: Manifest
) -> None:
    """RC-04 and RC-17: the effects told are those that the passes of the operator have on a cluster that runs."""
    _compare(kubernetes, cluster(groups=[group("crew", 3), group("gpu", 2)]), edit, strategy)


@given(
    edits=st.lists(st.sampled_from(sorted(EDITS)), min_size=2, max_size=3, unique=True),
    strategy=st.sampled_from(sorted(STRATEGIES)),
)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_so_do_several_edits_at_once(
    kubernetes: Any, cluster: Any, group: Any, edits: list[str], strategy: str
) -> None:
    """RC-04, RC-17 and RC-35: whatever is edited together; what is refused touches nothing."""

    def edit(manifest: Manifest) -> None:
        for name in edits:
            EDITS[name](manifest)

    # A group that one edit takes away is no longer there for another one.
    assume("group removed" not in edits or not {"env", "group order"} & set(edits))
    _compare(kubernetes, cluster(groups=[group("crew", 3), group("gpu", 2)]), edit, STRATEGIES[strategy])


def _compare(kubernetes: Any, before: Manifest, edit: Edit, strategy: Manifest) -> None:
    """Tells what an edit does and does it."""
    if strategy:
        before["spec"]["upgradeStrategy"] = strategy
    before = stored(before)
    after = copy.deepcopy(before)
    edit(after)
    told = edit_effects(
        before, stored(after), problems=edit_problems(before, after, stored(after), schema(), DEFAULT_GATES)
    )
    tiny = kubernetes(before)
    tiny.settle()
    old = _uids(tiny)
    tiny.apply(stored(after))
    tiny.settle(passes=60)
    new = _uids(tiny)
    if told.problems:
        assert new == old
        return
    assert {group.name: group.before for group in told.groups if group.before} == {k: len(v) for k, v in old.items()}
    for effect in told.groups:
        was, becomes = old.get(effect.name, set()), new.get(effect.name, set())
        assert len(becomes) == effect.after, effect
        if effect.resizes:
            continue  # Kubernetes decides.
        replaced = bool(was) and bool(becomes) and not was & becomes
        assert replaced == (effect.restarts and effect.after > 0), effect
        if not effect.restarts:
            assert len(was & becomes) == min(len(was), len(becomes)), "no pod goes that may stay"
    assert (told.restarts == Restarts.NOTHING) == (not told.restarted_groups)


def _uids(tiny: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for (kind, _), body in tiny.objects.items():
        if kind == POD:
            found.setdefault(body["metadata"]["labels"]["ray.io/group"], set()).add(body["metadata"]["uid"])
    return found


@pytest.mark.parametrize(("old_hosts", "hosts", "restarts"), [(3, 4, True), (3, 2, False), (1, 2, True)])
def test_more_hosts_per_replica_make_replicas_anew(
    kubernetes: Any, cluster: Any, group: Any, old_hosts: int, hosts: int, restarts: bool
) -> None:
    before = stored(cluster(groups=[group("slices", 2, numOfHosts=old_hosts)]))
    after = copy.deepcopy(before)
    set_group(numOfHosts=hosts)(after)
    told = edit_effects(before, after)
    assert told.restarted_groups == (["slices"] if restarts else [])
    tiny = kubernetes(before)
    tiny.settle()
    old = _uids(tiny)["slices"]
    tiny.apply(after)
    tiny.settle()
    assert (not old & _uids(tiny)["slices"]) == restarts


@pytest.mark.parametrize(("random", "kept"), [(False, 3), (True, 1)])
def test_the_autoscaler_chooses_who_goes(cluster: Any, group: Any, random: bool, kept: int) -> None:
    before = cluster(groups=[group("crew", 3)], enableInTreeAutoscaling=True)
    told = effects_of(before, set_group(replicas=1), random_pod_delete=random)
    (_, crew) = told.groups
    assert ("autoscaler" in crew.sentence) is not random
    assert crew.sentence.startswith("2 fewer")


def test_fields_are_named_as_users_would(cluster: Any, group: Any) -> None:
    def edit(m: Manifest) -> None:
        set_image(1)(m)
        container(m, 0)["env"] = [{"name": "A", "value": "2"}, {"name": "B", "value": "x"}]
        m["spec"]["workerGroupSpecs"][0]["rayStartParams"] = {"num-cpus": "2"}
        m["metadata"]["annotations"] = {"example.test/note": "x"}

    before = cluster(groups=[group("crew"), group("gpu")])
    container(before, 0)["env"] = [{"name": "A", "value": "1"}]
    told = effects_of(before, edit)
    assert found(told) == {
        "metadata.annotations[example.test/note]": (None, "x", Effect.NO_PODS),
        "spec.workerGroupSpecs[crew].template.spec.containers[helper].env[A].value": ("1", "2", Effect.NEW_PODS_ONLY),
        "spec.workerGroupSpecs[crew].template.spec.containers[helper].env[B]": (
            None,
            {"name": "B", "value": "x"},
            Effect.NEW_PODS_ONLY,
        ),
        "spec.workerGroupSpecs[crew].rayStartParams": (None, {"num-cpus": "2"}, Effect.NEW_PODS_ONLY),
        "spec.workerGroupSpecs[gpu].template.spec.containers[helper].image": (
            "example.test/ray:2.54.0",
            "example.test/ray:next",
            Effect.NEW_PODS_ONLY,
        ),
    }
    assert told.restarts == Restarts.NOTHING


@pytest.mark.parametrize(
    ("edit", "path", "effect"),
    [
        (set_image(0), "spec.workerGroupSpecs[crew].template.spec.containers[helper].image", Effect.RESTARTS_CLUSTER),
        (set_group(replicas=9), "spec.workerGroupSpecs[crew].replicas", Effect.SCALES),
        (add_toleration, "spec.workerGroupSpecs[crew].template.spec.tolerations", Effect.NEW_PODS_ONLY),
        (set_spec(suspend=True), "spec.suspend", Effect.SUSPENDS),
        (set_head(serviceType="NodePort"), "spec.headGroupSpec.serviceType", Effect.RESTARTS_CLUSTER),
        (set_spec(upgradeStrategy={"type": "None"}), "spec.upgradeStrategy.type", Effect.NO_PODS),
    ],
)
def test_which_field_causes_it(cluster: Any, edit: Edit, path: str, effect: Effect) -> None:
    told = effects_of(cluster(upgradeStrategy={"type": "Recreate"}), edit)
    assert {where: kind for where, (_, _, kind) in found(told).items()} == {path: effect}


@pytest.mark.parametrize(
    ("edit", "groups", "effects"),
    [
        (set_image(0), ["crew"], [Effect.REPLACES_PODS]),
        (set_image(), [], [Effect.HELD_BACK]),
        (set_spec(rayVersion="2.55.0"), ["crew", "gpu"], [Effect.REPLACES_PODS]),
        (lambda m: container(m, 1)["resources"]["limits"].update(cpu="2"), ["gpu"], [Effect.RESIZES_PODS]),
        (lambda m: (set_image(1)(m), set_group(replicas=5)(m)), ["gpu"], [Effect.SCALES, Effect.REPLACES_PODS]),
        (set_spec(enableInTreeAutoscaling=True), [], [Effect.HELD_BACK]),
        (set_spec(autoscalerOptions={"image": "x"}), [], [Effect.NEW_PODS_ONLY]),
        (set_spec(enableInTreeAutoscaling=True, autoscalerOptions={"image": "x"}), [], [Effect.HELD_BACK] * 2),
    ],
)
def test_rolling_names_the_groups(
    cluster: Any, group: Any, edit: Edit, groups: list[str], effects: list[Effect]
) -> None:
    told = effects_of(cluster(groups=[group("crew", 3), group("gpu", 2)], upgradeStrategy={"type": "Rolling"}), edit)
    assert told.restarted_groups == groups
    assert [change.effect for change in told.changes] == effects
    if Effect.HELD_BACK in effects:
        assert "spec.upgradeStrategy.allowHeadRestart" in told.groups[0].sentence


def test_a_head_that_shall_not_come_back_is_not_replaced(cluster: Any) -> None:
    before = cluster(upgradeStrategy={"type": "Rolling", "allowHeadRestart": True})
    assert effects_of(before, set_image()).restarted_groups == ["headgroup"]
    before["metadata"]["annotations"] = {"ray.io/disable-provisioned-head-restart": "true"}
    told = effects_of(before, set_image())
    assert told.restarts == Restarts.NOTHING
    assert "ray.io/disable-provisioned-head-restart" in told.groups[0].sentence


@pytest.mark.parametrize("edit", [set_image(), set_image(0), set_spec(rayVersion="2.55.0")])
def test_nothing_is_recreated_around_a_head_that_shall_not_come_back(cluster: Any, edit: Edit) -> None:
    before = cluster(upgradeStrategy={"type": "Recreate"})
    before["metadata"]["annotations"] = {"ray.io/disable-provisioned-head-restart": "true"}
    told = effects_of(before, edit)
    assert (told.restarts, [change.effect for change in told.changes]) == (Restarts.NOTHING, [Effect.HELD_BACK])
    assert "ray.io/disable-provisioned-head-restart" in told.groups[0].sentence
    before["status"] = {}
    assert effects_of(before, edit).restarts == Restarts.CLUSTER


def test_edits_that_only_services_see(cluster: Any) -> None:
    """RC-20."""
    told = effects_of(cluster(), set_spec(headServiceAnnotations={"a": "b"}))
    assert [change.effect for change in told.changes] == [Effect.UPDATES_IN_PLACE]
    assert told.notes == ["The head service is changed in place."]
    headless = effects_of(cluster(), set_head(serviceType="LoadBalancer"))
    assert "cannot change between headless and not headless" in headless.notes[0]


def test_resuming_makes_pods_and_an_edit_of_a_suspended_cluster_waits(cluster: Any) -> None:
    before = cluster(suspend=True, upgradeStrategy={"type": "Recreate"})
    told = effects_of(before, set_image(0))
    assert (told.restarts, [change.effect for change in told.changes]) == (Restarts.NOTHING, [Effect.NEW_PODS_ONLY])
    assert [(group.before, group.after) for group in told.groups] == [(0, 0), (0, 0)]
    told = effects_of(before, set_spec(suspend=False))
    assert [(group.before, group.after) for group in told.groups] == [(0, 1), (0, 3)]
    assert [change.effect for change in told.changes] == [Effect.RESUMES]


@pytest.mark.parametrize(("strategy", "restarts"), [("Recreate", Restarts.CLUSTER), ("None", Restarts.NOTHING)])
def test_pods_that_are_older_than_the_spec(cluster: Any, strategy: str, restarts: Restarts) -> None:
    """RC-04: turning Recreate on restarts pods that were made from an earlier spec, without any other edit."""
    edit = set_spec(upgradeStrategy={"type": strategy})
    told = effects_of(cluster(), edit, older=Older(cluster=True))
    assert told.restarts == restarts
    assert "made from an earlier spec" in told.notes[0]
    assert effects_of(cluster(), edit, older=Older()).restarts == Restarts.NOTHING


def test_which_pods_say_that_they_are_older(kubernetes: Any, cluster: Any, group: Any) -> None:
    before = cluster(groups=[group("crew", 3), group("gpu", 2)], upgradeStrategy={"type": "Rolling"})
    tiny = kubernetes(before)
    tiny.settle()
    pods = [body for (kind, _), body in tiny.objects.items() if kind == POD]
    assert older_pods(before, pods) == Older()
    set_image(1)(before)
    older = older_pods(before, pods)
    assert older == Older(cluster=True, groups=frozenset({"gpu"}))
    told = effects_of(before, set_annotation("example.test/note", "x"), older=older)
    assert told.restarted_groups == ["gpu"]
    assert told.restarts == Restarts.GROUPS


@pytest.mark.parametrize(
    ("before", "edit", "path", "words"),
    [
        (
            {"managedBy": "ray.io/kuberay-operator"},
            set_spec(managedBy="kueue.x-k8s.io/multikueue"),
            "spec.managedBy",
            "immutable",
        ),
        ({}, set_spec(managedBy="me"), "spec.managedBy", "must be either"),
        (
            {"gcsFaultToleranceOptions": {"backend": "redis", "redisAddress": "r:1"}},
            lambda m: m["spec"]["gcsFaultToleranceOptions"].update(backend="rocksdb"),
            "spec.gcsFaultToleranceOptions.backend",
            "immutable",
        ),
        ({}, set_group(minReplicas=9, maxReplicas=2), "spec.workerGroupSpecs[0].minReplicas", "greater than"),
        ({}, set_group(replica=9), "spec.workerGroupSpecs[0].replica", "is no known field"),
        ({}, set_group(replicas="9"), "spec.workerGroupSpecs[0].replicas", "must be of type integer, not string"),
        ({}, set_spec(upgradeStrategy={"type": "Often"}), "spec.upgradeStrategy.type", "'Often' is none of"),
        ({}, set_spec(headGroupSpec={}), "spec.headGroupSpec.template", "is required"),
        (
            {},
            lambda m: container(m, 0).update(ports=[{"name": "x", "containerPort": "http"}]),
            "spec.workerGroupSpecs[0].template.spec.containers[0].ports[0].containerPort",
            "must be of type integer",
        ),
    ],
)
def test_what_would_be_refused(cluster: Any, before: Manifest, edit: Edit, path: str, words: str) -> None:
    """RC-35: with the field's path, and nothing that runs is touched."""
    told = effects_of(cluster(**before), edit)
    assert path in {problem.path for problem in told.problems}
    assert any(words in problem.message for problem in told.problems if problem.path == path)
    assert told.restarts == Restarts.NOTHING
    assert told.groups == []
    assert {change.effect for change in told.changes} == {Effect.REFUSED}


def test_what_was_wrong_before_does_not_refuse_the_edit(cluster: Any) -> None:
    before = cluster(networkPolicy={"mode": "DenyAll"})
    told = effects_of(before, set_group(replicas=5))
    assert told.problems == [], "the gate may well be on where the operator runs"
    assert told.groups[1].after == 5


def test_a_stored_spec_that_cannot_be_read(cluster: Any) -> None:
    before = stored(cluster())
    before["spec"]["workerGroupSpecs"] = "none"
    told = edit_effects(before, stored(cluster()))
    assert (told.restarts, told.groups) == (Restarts.UNKNOWN, [])
    assert "spec.workerGroupSpecs" in told.notes[0]
    assert older_pods(before, []) == Older()


def test_a_cluster_that_others_manage(cluster: Any) -> None:
    told = effects_of(cluster(managedBy="kueue.x-k8s.io/multikueue"), set_image(0))
    assert told.restarts == Restarts.NOTHING
    assert "leaves the cluster alone" in told.notes[0]


@pytest.mark.parametrize(
    ("edit", "effect", "words"),
    [
        (set_image(), Effect.NEW_PODS_ONLY, "only the next head pod"),
        (set_spec(enableInTreeAutoscaling=True), Effect.NEW_PODS_ONLY, "only the next head pod"),
        (set_spec(rayVersion="2.55.0"), Effect.NEW_PODS_ONLY, "only new pods"),
        (set_image(0), Effect.NEW_PODS_ONLY, "only new pods of group crew"),
        (set_spec(managedBy="ray.io/kuberay-operator"), Effect.NO_PODS, "no pod"),
        (set_spec(lifecycle={"maxAgeSeconds": 60}), Effect.NO_PODS, "no pod"),
        (set_group(fallback={"groupName": "gpu"}), Effect.NO_PODS, "no pod that runs"),
        (set_group(disruptionBudget={"minAvailable": 1}), Effect.NO_PODS, "PodDisruptionBudget"),
        (set_head(disruptionBudget={"minAvailable": 1}), Effect.NO_PODS, "PodDisruptionBudget"),
        (set_group(priority=3), Effect.NO_PODS, "autoscaler"),
        (set_head(enableIngress=True), Effect.UPDATES_IN_PLACE, "Ingress"),
        (set_annotation("ray.io/enable-serve-service", "true"), Effect.UPDATES_IN_PLACE, "Ray Serve"),
        (set_annotation("ray.io/overwrite-container-cmd", "true"), Effect.NEW_PODS_ONLY, "only new pods"),
        (set_annotation("ray.io/extend-until", "2026-01-01T00:00:00Z"), Effect.NO_PODS, "no pod"),
    ],
)
def test_without_a_strategy_running_pods_stay(cluster: Any, group: Any, edit: Edit, effect: Effect, words: str) -> None:
    before, after = stored(cluster(groups=[group("crew"), group("gpu")])), cluster(groups=[group("crew"), group("gpu")])
    edit(after)
    told = edit_effects(before, stored(after))
    assert [change.effect for change in told.changes] == [effect]
    assert words in told.changes[0].sentence
    assert told.restarts == Restarts.NOTHING
    assert {group.sentence for group in told.groups} == {"unchanged"}


def test_a_new_object(cluster: Any, group: Any) -> None:
    told = creation_effects(stored(cluster(groups=[group("crew", 3, numOfHosts=2)])))
    assert not told.exists
    assert [(group.name, group.before, group.after) for group in told.groups] == [("headgroup", 0, 1), ("crew", 0, 6)]


def test_pods_named_to_go(cluster: Any) -> None:
    told = effects_of(cluster(), set_group(scaleStrategy={"workersToDelete": ["a", "b"]}))
    assert told.groups[1].sentence == "2 deleted by name"
    assert [change.effect for change in told.changes] == [Effect.SCALES]


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["s.a[1]"]),
        ({"a": [1]}, {"a": [1, 2]}, ["s.a"]),
        ({"a": [{"name": "x"}, {"name": "y"}]}, {"a": [{"name": "y"}, {"name": "x"}]}, ["s.a"]),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "y"}, {"name": "x", "v": 2}]}, ["s.a[y]", "s.a[x].v"]),
        ({"a": [{"name": "x"}, {"name": "x"}]}, {"a": [{"name": "x"}]}, ["s.a"]),
        ({"a": {"b.c/d": 1}}, {}, ["s.a"]),
        ({"a": {"b.c/d": 1, "e": 2}}, {"a": {"e": 2}}, ["s.a[b.c/d]"]),
        (
            {"a": [{"mountPath": "/x", "name": "v"}, {"mountPath": "/y", "name": "v"}]},
            {"a": []},
            ["s.a[/x]", "s.a[/y]"],
        ),
    ],
)
def test_paths_of_changed_fields(before: Any, after: Any, paths: list[str]) -> None:
    assert [change.path for change in field_changes(before, after, ("s",))] == paths
