"""How RayClusters of a RayService are made, and which edits reach them in place (spec rayservice.md 2.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api import names
from kuberay.api.kinds import POD, RAYCLUSTER, SECRET
from kuberay.plan.model import Create, Patch
from kuberay_testkit.builders import build_group

from core.tests.plan.service.worlds import NS, VERSION, Body, World, new_world, serving

HASH = names.ANNOTATION_CLUSTER_HASH
Edit = Callable[[Body], Any]


def config(world: World) -> Body:
    found: Body = world.service["spec"]["rayClusterConfig"]
    return found


def groups(world: World, cluster: str) -> list[Body]:
    found: list[Body] = world.cluster(cluster)["spec"].get("workerGroupSpecs") or []
    return found


def edit(world: World, change: Edit) -> World:
    """Edit ``rayClusterConfig``, and let the operator carry it out."""
    change(config(world))
    world.edited()
    return world.settle()


def image(name: str) -> Edit:
    return lambda spec: spec["headGroupSpec"]["template"]["spec"]["containers"][0].update(image=name)


def group(number: int = 0, **fields: Any) -> Edit:
    return lambda spec: spec["workerGroupSpecs"][number].update(fields)


def append(name: str, **fields: Any) -> Edit:
    return lambda spec: spec["workerGroupSpecs"].append(build_group(name, **fields))


def upgrading(**service: Any) -> World:
    """A serves, B is pending and not ready."""
    return edit(serving(**service), image("ray:2"))


# Construction


def test_row_21_the_pending_ray_cluster_is_made_once_its_name_is_stored() -> None:
    world = new_world()
    while not world.pending:
        world.one_pass()
        assert world.clusters() == []
    world.settle()
    assert world.clusters() == [world.pending]
    assert not world.active
    assert world.notes("CreatedRayCluster") == [f"Created the RayCluster {NS}/{world.pending}"]


@pytest.mark.parametrize("count", [0, 2])
def test_row_25_and_26_what_a_ray_cluster_carries(count: int) -> None:
    world = new_world(
        groups={f"g{n}": 1 for n in range(count)},
        labels={"team": "blue"},
        annotations={"memo": "keep", names.ANNOTATION_UPGRADE_PAUSED: "false"},
    ).settle()
    cluster = world.cluster(world.pending)
    metadata = cluster["metadata"]
    assert metadata["labels"] == {
        "team": "blue",
        names.LABEL_ORIGIN_NAME: "s",
        names.LABEL_ORIGIN_CRD: "RayService",
    }
    told = dict(metadata["annotations"])
    assert told.pop(HASH)
    assert told == {
        "memo": "keep",
        names.ANNOTATION_WORKER_GROUPS: str(count),
        names.ANNOTATION_OPERATOR_VERSION: VERSION,
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("RayService", "s", True)
    assert metadata["namespace"] == NS
    assert cluster["spec"] == config(world)


def test_row_152_the_longest_name() -> None:
    name = "s" * 47
    world = World(service_name=name)
    world.create(new_world(name=name, world={"service_name": name}).service)
    world.settle()
    assert len(world.pending) == 53
    assert world.clusters() == [world.pending]


def test_a_ray_cluster_that_cannot_be_made_is_told_and_tried_again() -> None:
    world = new_world(world={"refuse_writes": {("Create", "RayCluster"): "quota"}})
    for _ in range(4):
        world.one_pass()
    named = world.pending
    assert named
    assert world.notes("FailedToCreateRayCluster")[0] == f"Failed to create the RayCluster {NS}/{named}: quota"
    assert world.condition("RayServiceWaiting") == ("True", "Forbidden")
    world.refuse_writes = {}
    world.settle()
    assert world.clusters() == [named]
    assert world.condition("RayServiceWaiting") is None


def test_names_follow_from_the_generation_and_are_never_given_twice() -> None:
    one, other = upgrading(), upgrading()
    assert (one.active, one.pending) == (other.active, other.pending)
    assert one.active != one.pending
    taken = one.pending
    edit(one, image("ray:3"))
    assert one.pending not in (one.active, taken)


# In place


def test_row_23_and_156_rs_08_an_appended_group_reaches_the_active_cluster() -> None:
    """RS-08."""
    world = serving()
    before = world.active
    edit(world, append("late", replicas=3))
    assert [each["groupName"] for each in groups(world, before)] == ["workers", "late"]
    assert groups(world, before)[1]["replicas"] == 3
    assert world.cluster(before)["metadata"]["annotations"][names.ANNOTATION_WORKER_GROUPS] == "2"
    assert (world.active, world.pending, world.clusters()) == (before, "", [before])
    assert world.notes("UpdatedRayCluster") == [f"Updated the active RayCluster {NS}/{before}"]


def test_row_24_and_159_rs_08_an_appended_group_reaches_the_pending_cluster() -> None:
    world = upgrading()
    active, pending = world.active, world.pending
    edit(world, append("late"))
    assert [each["groupName"] for each in groups(world, pending)] == ["workers", "late"]
    assert [each["groupName"] for each in groups(world, active)] == ["workers"]
    assert (world.active, world.pending) == (active, pending)
    assert world.notes("UpdatedRayCluster") == [f"Updated the pending RayCluster {NS}/{pending}"]


def test_rs_08_an_appended_group_and_another_edit_are_an_upgrade() -> None:
    world = serving()
    edit(world, lambda spec: (append("late")(spec), image("ray:2")(spec)))
    assert [each["groupName"] for each in groups(world, world.active)] == ["workers"]
    assert [each["groupName"] for each in groups(world, world.pending)] == ["workers", "late"]


def test_rs_08_the_first_group_of_all() -> None:
    world = serving(groups=0, workers=0)
    edit(world, append("first"))
    assert [each["groupName"] for each in groups(world, world.active)] == ["first"]
    assert not world.pending


COUNTS: dict[str, tuple[Body, Body, Body]] = {
    # what the config has beyond the usual, the edit of group 0, what becomes of the live group
    "bounds": ({}, {"minReplicas": 1, "maxReplicas": 20}, {"minReplicas": 1, "maxReplicas": 20}),
    "replicas": ({}, {"replicas": 3}, {"replicas": 3}),
    "fewer replicas": ({}, {"replicas": 0}, {"replicas": 0}),
    "workers to delete": (
        {},
        {"scaleStrategy": {"workersToDelete": ["x"]}},
        {"scaleStrategy": {"workersToDelete": ["x"]}},
    ),
    "disruption budget": (
        {},
        {"disruptionBudget": {"maxUnavailable": 1}},
        {"disruptionBudget": {"maxUnavailable": 1}},
    ),
    "bounds, with the autoscaler": (
        {"enableInTreeAutoscaling": True},
        {"minReplicas": 2, "maxReplicas": 20, "replicas": 4},
        {"minReplicas": 2, "maxReplicas": 20, "replicas": 9},
    ),
}


@pytest.mark.parametrize(("more", "change", "expected"), COUNTS.values(), ids=COUNTS)
def test_rs_07_counts_reach_the_active_cluster(more: Body, change: Body, expected: Body) -> None:
    """RS-07."""
    world = serving(cluster=more)
    if more:
        groups(world, world.active)[0]["replicas"] = 9  # the autoscaler
    edit(world, group(**change))
    live = groups(world, world.active)[0]
    assert {key: live[key] for key in expected} == expected
    assert not world.pending
    assert world.notes("UpdatedRayCluster") == [f"Updated the active RayCluster {NS}/{world.active}"]


def test_rs_07_counts_reach_both_clusters_that_are_made_for_the_config() -> None:
    world = upgrading()
    edit(world, group(maxReplicas=20))
    assert groups(world, world.pending)[0]["maxReplicas"] == 20
    assert groups(world, world.active)[0]["maxReplicas"] == 10, "what serves until then is not scaled by an upgrade"


def test_row_153_what_the_autoscaler_writes_stays_and_is_no_edit() -> None:
    world = upgrading(cluster={"enableInTreeAutoscaling": True})
    names_before = (world.active, world.pending)
    for cluster in names_before:
        groups(world, cluster)[0]["replicas"] = 7
    world.settle()
    assert (world.active, world.pending) == names_before
    edit(world, append("late"))
    for cluster in names_before:
        assert groups(world, cluster)[0]["replicas"] == 7
    assert (world.active, world.pending) == names_before


def test_what_others_change_of_a_ray_cluster_is_not_fought_over() -> None:
    world = serving()
    groups(world, world.active)[0] |= {"replicas": 5, "maxReplicas": 5}
    world.cluster(world.active)["metadata"]["labels"]["queue"] = "q"
    world.writes.clear()
    world.settle()
    assert not [write for write in world.writes if write.kind == RAYCLUSTER]
    edit(world, group(maxReplicas=8))
    assert groups(world, world.active)[0]["maxReplicas"] == 8


@pytest.mark.parametrize(
    "mute",
    [
        lambda spec: spec["headGroupSpec"]["template"]["spec"].update(tolerations=[{"operator": "Exists"}]),
        lambda spec: spec["headGroupSpec"]["template"]["spec"].update(schedulingGates=[{"name": "x"}]),
    ],
    ids=["tolerations", "scheduling gates"],
)
def test_tolerations_and_gates_wait_for_the_next_cluster(mute: Edit) -> None:
    world = serving()
    before = world.cluster(world.active)["spec"]
    edit(world, mute)
    assert world.cluster(world.active)["spec"] == before
    assert not world.pending
    assert not world.notes("UpdatedRayCluster")
    edit(world, image("ray:2"))
    made = world.cluster(world.pending)["spec"]
    assert made["headGroupSpec"]["template"]["spec"] == config(world)["headGroupSpec"]["template"]["spec"]


def test_labels_and_annotations_go_along_with_an_update() -> None:
    world = serving(labels={"team": "blue"})
    world.service["metadata"]["labels"]["team"] = "red"
    world.annotate(upgrade_paused="true", drain_timeout_seconds="5")
    world.settle()
    metadata = world.cluster(world.active)["metadata"]
    assert metadata["labels"]["team"] == "blue"
    edit(world, group(maxReplicas=12))
    metadata = world.cluster(world.active)["metadata"]
    assert metadata["labels"]["team"] == "red"
    assert metadata["annotations"]["ray.io/drain-timeout-seconds"] == "5"
    assert names.ANNOTATION_UPGRADE_PAUSED not in metadata["annotations"]


def test_a_ray_cluster_that_cannot_be_updated_goes_on_serving() -> None:
    world = serving()
    world.refuse_writes = {("Patch", "RayCluster"): "webhook"}
    world.unhealthy = {f"{world.active}-head"}
    edit(world, group(maxReplicas=12))
    assert world.notes("FailedToUpdateRayCluster")[0] == (
        f"Failed to update the active RayCluster {NS}/{world.active}: webhook"
    )
    head = world.objects[POD, f"{world.active}-head"]
    assert head["metadata"]["labels"][names.LABEL_SERVE] == "false"
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")
    world.refuse_writes = {}
    world.settle()
    assert groups(world, world.active)[0]["maxReplicas"] == 12


def test_an_appended_group_is_never_appended_twice() -> None:
    """The answer of the first write was lost, and the view is behind: the second one is refused."""
    world = serving()
    append("late")(config(world))
    world.edited()
    outdated = [write for stage in world.plan().stages for write in stage if isinstance(write, Patch)]
    world.settle()
    (patch,) = [write for write in outdated if write.operations]
    with pytest.raises(Exception, match="test failed"):
        world._write(patch)
    assert len(groups(world, world.active)) == 2


# Suspension of the RayCluster (a queue's)


def test_rs_01_unsuspending_reaches_a_pending_cluster_without_a_head() -> None:
    """RS-01."""
    world = new_world(cluster={"suspend": True}).settle()
    pending = world.pending
    assert world.cluster(pending)["spec"]["suspend"] is True
    edit(world, lambda spec: spec.update(suspend=False))
    assert world.cluster(pending)["spec"]["suspend"] is False
    assert (world.pending, world.clusters()) == (pending, [pending])


def test_rs_01_what_a_queue_injects_at_the_same_time_reaches_it_too() -> None:
    """Nothing runs in a suspended RayCluster, so it takes everything: also what would be an upgrade otherwise."""
    world = new_world(cluster={"suspend": True}).settle()
    pending = world.pending

    def admit(spec: Body) -> None:
        spec["suspend"] = False
        template = spec["workerGroupSpecs"][0]["template"]["spec"]
        template |= {"nodeSelector": {"flavour": "spot"}, "tolerations": [{"operator": "Exists"}]}

    edit(world, admit)
    assert world.cluster(pending)["spec"] == config(world)
    assert (world.pending, world.clusters()) == (pending, [pending])


@pytest.mark.parametrize("asked", [True, False, None])
def test_suspend_follows_what_is_asked_for(asked: bool | None) -> None:
    world = serving(cluster={"suspend": False})
    active = world.active
    edit(world, lambda spec: spec.update(suspend=True))
    assert world.cluster(active)["spec"]["suspend"] is True
    edit(world, lambda spec: spec.pop("suspend") if asked is None else spec.update(suspend=asked))
    assert bool(world.cluster(active)["spec"].get("suspend")) is (asked is True)
    assert (world.active, world.pending) == (active, "")


def test_a_suspension_that_is_not_the_services_is_left_alone() -> None:
    world = serving()
    world.cluster(world.active)["spec"]["suspend"] = True
    edit(world, group(maxReplicas=12))
    live = world.cluster(world.active)["spec"]
    assert (live["suspend"], live["workerGroupSpecs"][0]["maxReplicas"]) == (True, 12)


# Operators before this one, and this one's own upgrade


def by_kuberay(world: World, cluster: str) -> None:
    """As if KubeRay had made it: its hash, its version, what its encoder writes."""
    body = world.cluster(cluster)
    body["metadata"]["annotations"] |= {HASH: "NSGQJQ7ROMHO8RTGBD7Q11CU14BR481F"}
    body["metadata"]["annotations"][names.ANNOTATION_OPERATOR_VERSION] = "v1.6.0"
    body["spec"]["headGroupSpec"]["template"]["metadata"] = {"creationTimestamp": None}


def test_row_22_rs_02_another_operator_version_only_marks_the_cluster() -> None:
    """RS-02."""
    world = serving()
    before = world.cluster(world.active)
    spec, generation = before["spec"], before["metadata"]["generation"]
    events = len(world.events)
    world.config = type(world.config)(operator_version="2.0.0")
    world.settle()
    after = world.cluster(world.active)
    assert after["metadata"]["annotations"][names.ANNOTATION_OPERATOR_VERSION] == "2.0.0"
    assert (after["spec"], after["metadata"]["generation"]) == (spec, generation)
    assert (len(world.clusters()), world.pending, len(world.events)) == (1, "", events)


def test_rs_02_taking_over_from_kuberay_touches_nothing_and_a_later_edit_rolls_out() -> None:
    """RS-02."""
    world = serving()
    active = world.active
    by_kuberay(world, active)
    config(world)["workerGroupSpecs"][0]["replicas"] = 5  # KubeRay ignored it
    spec = world.cluster(active)["spec"]
    world.settle()
    cluster = world.cluster(active)
    assert cluster["spec"] == spec
    assert cluster["metadata"]["annotations"][names.ANNOTATION_OPERATOR_VERSION] == VERSION
    assert (world.active, world.pending, world.clusters()) == (active, "", [active])
    edit(world, group(maxReplicas=30))
    assert (groups(world, active)[0]["maxReplicas"], groups(world, active)[0]["replicas"]) == (30, 5)
    edit(world, image("ray:2"))
    assert world.pending


def test_rs_01_taking_over_a_suspended_cluster_from_kuberay_unsuspends_it() -> None:
    world = new_world(cluster={"suspend": True}).settle()
    by_kuberay(world, world.pending)
    edit(world, lambda spec: spec.update(suspend=False))
    assert world.cluster(world.pending)["spec"]["suspend"] is False


# Strategies


def test_strategy_none_keeps_the_cluster_and_says_so_once() -> None:
    world = serving(upgradeStrategy={"type": "None"})
    active, spec = world.active, world.cluster(world.active)["spec"]
    edit(world, image("ray:2"))
    assert world.cluster(active)["spec"] == spec
    assert (world.pending, world.clusters()) == ("", [active])
    assert world.condition("RayClusterConfigEditIgnored") == ("True", "NotRolledOut")
    told = world.notes("RayClusterConfigEditIgnored")
    assert told == [world.message("RayClusterConfigEditIgnored")]
    assert "rayClusterConfig.headGroupSpec.template.spec.containers[ray-head].image" in told[0]
    world.advance(600).settle()
    assert len(world.notes("RayClusterConfigEditIgnored")) == 1
    edit(world, group(maxReplicas=33))
    assert groups(world, active)[0]["maxReplicas"] == 33, "it can still be scaled"
    edit(world, image("rayproject/ray:2.52.0"))
    assert world.condition("RayClusterConfigEditIgnored") is None
    assert not world.pending


def test_strategy_none_protects_only_what_has_served() -> None:
    """KubeRay ignores the edit, so that a first cluster with a wrong image stays for good."""
    world = new_world(upgradeStrategy={"type": "None"}).settle()
    first = world.pending
    edit(world, image("ray:2"))
    assert world.pending != first
    assert world.condition("RayClusterConfigEditIgnored") is None
    world.advance(61).settle()
    assert world.clusters() == [world.pending]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({"type": "Rolling"}, {"type": "Rolling"}),
        ({"type": "Rolling", "maxUnavailable": 2, "allowHeadRestart": True}, None),
        ({"type": "Recreate"}, {"type": "Recreate"}),
    ],
)
def test_same_cluster_strategies_hand_the_config_to_the_one_cluster(strategy: Body, expected: Body | None) -> None:
    world = serving(upgradeStrategy=strategy, cluster={"enableInTreeAutoscaling": True})
    active = world.active
    assert world.cluster(active)["spec"]["upgradeStrategy"] == (expected or strategy)
    groups(world, active)[0]["replicas"] = 7
    edit(world, lambda spec: (image("ray:2")(spec), group(maxReplicas=20)(spec)))
    live = world.cluster(active)["spec"]
    assert live["headGroupSpec"] == config(world)["headGroupSpec"]
    assert live["upgradeStrategy"] == (expected or strategy)
    assert (groups(world, active)[0]["replicas"], groups(world, active)[0]["maxReplicas"]) == (7, 20)
    assert (world.active, world.pending, world.clusters()) == (active, "", [active])
    assert world.notes("UpdatedRayCluster") == [f"Updated the active RayCluster {NS}/{active}"]


def test_the_clusters_own_strategy_follows_that_of_the_service() -> None:
    world = serving()
    active = world.active
    assert "upgradeStrategy" not in world.cluster(active)["spec"]
    for strategy, expected in (
        ({"type": "Rolling"}, {"type": "Rolling"}),
        ({"type": "Rolling", "maxSurge": 1}, {"type": "Rolling", "maxSurge": 1}),
        ({"type": "NewCluster"}, None),
    ):
        world.edit(upgradeStrategy=strategy)
        world.settle()
        assert world.cluster(active)["spec"].get("upgradeStrategy") == expected
    assert world.clusters() == [active]


def broken_off(condition: str, type_: str | None) -> World:
    """*type_* is chosen after the RayCluster has told *condition* of its rolling upgrade."""
    world = serving(upgradeStrategy={"type": "Rolling"})
    edit(world, image("ray:2"))
    world.cluster(world.active)["status"]["observedGeneration"] = world.cluster(world.active)["metadata"]["generation"]
    world.set_cluster_condition(world.active, condition, "True", "Progressing", "1 of 2")
    world.edit(upgradeStrategy={"type": type_})
    return world


@pytest.mark.parametrize("condition", ["RollingUpgrade", "HeadOutdated"])
@pytest.mark.parametrize("type_", ["NewCluster", None])
def test_what_a_rolling_upgrade_has_left_needs_another_cluster(condition: str, type_: str | None) -> None:
    world = broken_off(condition, type_)
    active = world.active
    world.settle()
    assert "upgradeStrategy" not in world.cluster(active)["spec"]
    assert (world.active, world.clusters()) == (active, sorted([active, world.pending]))
    world.set_cluster_condition(active, condition, "False", "Gone")
    world.settle()
    assert world.pending, "the RayCluster itself does not tell of it any more"


def test_back_to_rolling_it_goes_on_where_it_was() -> None:
    world = broken_off("RollingUpgrade", "NewCluster").settle()
    active = world.active
    world.edit(upgradeStrategy={"type": "Rolling"})
    world.settle()
    assert world.cluster(active)["spec"]["upgradeStrategy"] == {"type": "Rolling"}
    assert (world.active, world.pending) == (active, "")


def test_none_says_what_a_rolling_upgrade_has_left() -> None:
    world = broken_off("RollingUpgrade", "None").settle()
    active = world.active
    assert (world.clusters(), world.pending) == ([active], "")
    assert world.notes("RayClusterConfigEditIgnored") == [
        f"rayClusterConfig: RayCluster {NS}/{active} has pods of a former one, whose replacement was broken off, and "
        "upgradeStrategy.type None rolls nothing out; choose another type, or suspend and resume"
    ]
    edit(world, group(maxReplicas=33))
    assert groups(world, active)[0]["maxReplicas"] == 33, "it can still be scaled"
    assert world.condition("RayClusterConfigEditIgnored") == ("True", "NotRolledOut")


def test_another_type_waits_until_the_cluster_has_said_how_far_it_is() -> None:
    """Whether an edit needed other pods is known once the RayCluster has been looked at."""
    world = serving(upgradeStrategy={"type": "Rolling"})
    edit(world, image("ray:2"))
    active, generation = world.active, world.cluster(world.active)["metadata"]["generation"]
    world.cluster(active)["status"]["observedGeneration"] = generation - 1
    world.edit(upgradeStrategy={"type": "NewCluster"})
    world.settle()
    assert world.cluster(active)["spec"]["upgradeStrategy"] == {"type": "Rolling"}
    world.cluster(active)["status"]["observedGeneration"] = generation
    world.settle()
    assert "upgradeStrategy" not in world.cluster(active)["spec"]
    assert world.clusters() == [active]


@pytest.mark.parametrize("switch", ["upgrade_paused", "upgrade_aborted"])
def test_a_rolling_upgrade_does_not_begin_while_an_annotation_forbids_it(switch: str) -> None:
    world = serving(upgradeStrategy={"type": "Rolling"})
    spec = world.cluster(world.active)["spec"]
    world.annotate(**{switch: "true"})
    edit(world, image("ray:2"))
    assert world.cluster(world.active)["spec"] == spec
    assert world.condition("RayServiceWaiting") == ("True", "UpgradePaused")
    world.annotate(**{switch: None})
    world.settle()
    assert world.cluster(world.active)["spec"]["headGroupSpec"] == config(world)["headGroupSpec"]
    assert world.condition("RayServiceWaiting") is None


def test_a_cluster_that_takes_over_nothing_is_told_after_a_while() -> None:
    world = serving(upgradeStrategy={"type": "Rolling"})
    world.refuse_writes = {("Patch", "RayCluster"): "immutable"}
    owned: Body = {"f:spec": {"f:rayClusterConfig": {"f:rayVersion": {}}}}
    entry = {"manager": "kubectl", "time": "2024-01-01T00:00:00Z", "fieldsV1": owned}
    world.service["metadata"]["managedFields"] = [entry]
    image("ray:2")(config(world))
    world.edited()
    world.one_pass()
    assert world.condition("RayServiceWaiting") is None
    world.advance(31).one_pass()
    assert world.condition("RayServiceWaiting") == ("True", "RayClusterNotUpdated")


# The token of all RayClusters


def test_rs_16_every_cluster_refers_to_the_given_secret_and_none_is_made() -> None:
    """RS-16."""
    world = upgrading(cluster={"authOptions": {"mode": "token", "secretName": "team-token"}, "rayVersion": "2.53.0"})
    for cluster in (world.active, world.pending):
        assert world.cluster(cluster)["spec"]["authOptions"] == {"mode": "token", "secretName": "team-token"}
    assert not [write for write in world.writes if write.kind == SECRET]


# Edits in the middle


def test_row_158_rs_10_another_edit_replaces_the_pending_cluster_and_strays_go() -> None:
    """RS-10."""
    world = upgrading()
    active, first = world.active, world.pending
    edit(world, image("ray:3"))
    second = world.pending
    assert (world.active, world.clusters()) == (active, sorted([active, first, second]))
    assert second != first
    made = world.cluster(second)["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
    assert made == "ray:3"
    assert names.ANNOTATION_DELETE_AFTER in world.cluster(first)["metadata"]["annotations"]
    world.advance(61).settle()
    assert (world.active, world.pending, world.clusters()) == (active, second, sorted([active, second]))


def test_an_edit_between_name_and_cluster_makes_the_cluster_for_the_newest_config() -> None:
    world = serving()
    image("ray:2")(config(world))
    world.edited()
    while not world.pending:
        world.one_pass()
    assert world.clusters() == [world.active]
    named = world.pending
    edit(world, image("ray:3"))
    assert world.pending == named
    made = world.cluster(named)["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
    assert made == "ray:3"


def test_a_pending_cluster_deleted_by_hand_is_made_again_under_its_name() -> None:
    world = upgrading()
    pending = world.pending
    world.delete(RAYCLUSTER, pending)
    world.settle()
    assert pending in world.clusters()
    creates = [write for write in world.writes if isinstance(write, Create) and write.name == pending]
    assert len(creates) == 2
