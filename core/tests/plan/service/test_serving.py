"""What Serve is given and when, and what is made of its answers (spec rayservice.md 2.9, rows 35-45, 112-114, 155)."""

from __future__ import annotations

import copy
import json
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE
from kuberay.plan.model import AuthSecret, ProbeResult, ServeConfigCall, ServeProbe

from core.tests.plan.service.strategies_for_tests import Endless
from core.tests.plan.service.worlds import CONFIG, World, new_world, running, serving

OTHER = CONFIG.replace("mod.app", "mod.other")
BODY = {"applications": [{"name": "app", "import_path": "mod.app"}]}
OTHER_BODY = {"applications": [{"name": "app", "import_path": "mod.other"}]}
STORED = "ray.io/serve-config"
REFUSAL = "UpdateDeployments fail: 400 Bad Request no such module"


def starting(**service: Any) -> World:
    """A world whose first RayCluster has all its pods."""
    world = new_world(**service).settle()
    world.add_pods(world.pending)
    return world


def bodies(world: World, cluster: str | None = None) -> list[dict[str, Any]]:
    return [json.loads(body) for name, body in world.puts if cluster in (None, name)]


def changed(world: World, **fields: Any) -> dict[str, Any]:
    """``rayClusterConfig`` with other fields."""
    return {**copy.deepcopy(world.service["spec"]["rayClusterConfig"]), **fields}


def probes(world: World, kind: type) -> list[Any]:
    return [probe for probe in world.plan().probes if isinstance(probe, kind)]


def lose_head(world: World, cluster: str, *, state: bool = True) -> None:
    """The head pod dies and comes back; with its *state*, unless GCS fault tolerance kept it."""
    old = world.objects.pop((POD, f"{cluster}-head"))
    world.set_cluster_condition(cluster, "HeadPodReady", "False", "HeadPodNotFound")
    world.settle()
    if state:
        world.applications[cluster] = {}
    world.add_pods(cluster)
    assert world.objects[POD, f"{cluster}-head"]["metadata"]["uid"] != old["metadata"]["uid"]


@pytest.mark.parametrize(
    ("told", "ready"),
    [
        pytest.param(running("DEPLOYING"), False, id="36"),
        pytest.param(running("RUNNING"), True, id="37"),
        pytest.param(running("UNHEALTHY"), False, id="38"),
        pytest.param(running("DEPLOY_FAILED"), False, id="39"),
        pytest.param({}, False, id="40"),
        pytest.param({**running(), **running("DEPLOYING", app="two")}, False, id="every application must run"),
        pytest.param({**running(), **running(app="two")}, True, id="two that run"),
    ],
)
def test_a_cluster_is_ready_when_all_its_applications_run(told: dict[str, Any], ready: bool) -> None:
    """Rows 36-40."""
    world = starting()
    world.after_put = told
    world.settle()
    assert bool(world.active) is ready


@pytest.mark.parametrize(
    ("stored", "told", "sent"),
    [
        pytest.param("", {}, True, id="41"),
        pytest.param(CONFIG, running(), False, id="42"),
        pytest.param(OTHER, running(), True, id="43"),
        pytest.param(CONFIG, {}, True, id="44"),
        pytest.param("", running(), True, id="45: another operator's cluster"),
    ],
)
def test_when_the_configuration_is_sent(stored: str, told: dict[str, Any], sent: bool) -> None:
    """Rows 41-45, with the stored text in place of a cache."""
    world = serving()
    world.puts.clear()
    annotations = world.cluster(world.active)["metadata"]["annotations"]
    annotations.pop(STORED)
    annotations.pop("ray.io/serve-config-given")
    if stored:
        annotations[STORED] = stored
    world.applications[world.active] = told
    world.settle()
    assert bodies(world) == ([BODY] if sent else [])
    assert world.cluster(world.active)["metadata"]["annotations"][STORED] == CONFIG


def test_a_restart_at_any_point_sends_nothing_again() -> None:
    """RS-09: what a RayCluster was given is known from the RayCluster."""
    world = starting()
    for _ in range(8):
        world.results.clear()
        world.one_pass()
    world.settle()
    assert world.active
    world.follow_selector()
    world.settle()
    world.results.clear()
    world.settle()
    assert len([body for body in bodies(world) if body == BODY]) == len(world.puts)
    assert len(world.notes("UpdatedServeApplications")) == 1


def test_a_restart_during_a_rollback_gives_the_newest_text_to_nobody_it_is_not_for() -> None:
    """RS-09: rollback to A, a third text for a third cluster, operator restarts: A keeps what it has."""
    world = serving()
    first = world.active
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"), serveConfigV2=OTHER)
    world.settle()
    world.add_pods(world.pending)
    world.unhealthy |= {f"{world.pending}-head"}
    world.after_put = running("DEPLOYING")
    world.settle()
    world.puts.clear()
    world.service["status"]["conditions"].append(
        {"type": "RollbackInProgress", "status": "True", "reason": "DesiredClusterSpecChanged", "message": "m"}
    )
    world.service["metadata"]["annotations"]["ray.io/upgrade-paused"] = "true"
    world.edit(rayClusterConfig=changed(world, rayVersion="3.0.0"), serveConfigV2=CONFIG.replace("mod.app", "mod.x"))
    world.results.clear()
    for _ in range(4):
        world.one_pass()
        assert bodies(world, first) == []
    assert world.cluster(first)["metadata"]["annotations"][STORED] == CONFIG


@pytest.mark.parametrize(
    ("rolling_back", "reverted", "to"),
    [
        pytest.param(True, True, "active", id="112 113"),
        pytest.param(True, False, "", id="113: nor to the active one what is for a third"),
        pytest.param(False, False, "pending", id="114"),
    ],
)
def test_who_gets_an_edit_during_an_upgrade(rolling_back: bool, reverted: bool, to: str) -> None:
    """Rows 112-114 and 2.9.6. The strategy is one that never ends, so that only the sending is looked at."""
    world = serving(world={"hooks": Endless()}, upgradeStrategy={"type": "Endless"})
    old = copy.deepcopy(world.service["spec"]["rayClusterConfig"])
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"))
    world.settle()
    world.add_pods(world.pending)
    world.settle()
    world.puts.clear()
    world.hooks.rolling_back = rolling_back
    world.settle()
    assert (world.condition("RollbackInProgress") is not None) is rolling_back
    world.edit(serveConfigV2=OTHER, **({"rayClusterConfig": old} if reverted else {}))
    if rolling_back and not reverted:
        world.edit(rayClusterConfig=changed(world, rayVersion="3.0.0"))
    world.settle()
    expected = {"active": world.active, "pending": world.pending}.get(to)
    assert [(name, json.loads(body)) for name, body in world.puts] == ([(expected, OTHER_BODY)] if to else [])


def test_an_edit_of_the_configuration_is_sent_to_the_cluster_that_serves() -> None:
    """Row 155: no other cluster; the application that is named now shows, and one event tells it."""
    world = serving()
    cluster = world.active
    world.after_put = running(app="second")
    world.edit(serveConfigV2=OTHER)
    world.settle()
    assert bodies(world, cluster) == [BODY, OTHER_BODY]
    assert (world.active, world.pending) == (cluster, "")
    assert list(world.status["activeServiceStatus"]["applicationStatuses"]) == ["second"]
    note = f"Updated serve applications to the RayCluster default/{cluster}"
    assert world.notes("UpdatedServeApplications") == [note, note]


def test_a_new_cluster_alone_gets_the_configuration_that_came_with_it() -> None:
    """2.6: the one that serves keeps its own, and goes on telling of its applications, which KubeRay leaves out."""
    world = serving()
    old = world.active
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"), serveConfigV2=OTHER)
    world.settle()
    world.add_pods(world.pending)
    world.after_put = running("DEPLOYING")
    world.settle()
    assert (bodies(world, old), bodies(world, world.pending)) == ([BODY], [OTHER_BODY])
    statuses = {key: world.status[key]["applicationStatuses"]["app"]["status"] for key in SIDES}
    assert statuses == {"activeServiceStatus": "RUNNING", "pendingServiceStatus": "DEPLOYING"}


SIDES = ("activeServiceStatus", "pendingServiceStatus")


def test_a_pending_cluster_that_will_be_replaced_does_not_get_the_configuration_of_the_next() -> None:
    world = starting()
    former = world.pending
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"), serveConfigV2=OTHER)
    assert not [probe for probe in probes(world, ServeConfigCall) if json.loads(probe.config) == OTHER_BODY]
    world.settle()
    assert world.pending != former
    assert bodies(world, former) == []


def test_with_strategy_none_the_configuration_still_reaches_the_cluster() -> None:
    """2.6: a cluster change that is not rolled out does not keep the configuration back."""
    world = serving(upgradeStrategy={"type": "None"})
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"), serveConfigV2=OTHER)
    world.settle()
    assert bodies(world) == [BODY, OTHER_BODY]
    assert world.clusters() == [world.active]


@pytest.mark.parametrize("lost", [True, False], ids=["without fault tolerance", "with GCS fault tolerance"])
def test_a_lost_head_starts_no_second_cluster(lost: bool) -> None:
    """RS-12: the head comes back in the same RayCluster; what it has forgotten it is given again, and only that."""
    world = serving()
    cluster = world.active
    lose_head(world, cluster, state=lost)
    world.settle()
    assert (world.active, world.pending, world.clusters()) == (cluster, "", [cluster])
    assert bodies(world) == ([BODY, BODY] if lost else [BODY])
    assert len(world.notes("UpdatedServeApplications")) == len(world.puts)
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")
    assert world.status["activeServiceStatus"]["applicationStatuses"]["app"]["status"] == "RUNNING"


def test_while_the_head_is_away_nothing_is_said_of_applications() -> None:
    """2.9.1."""
    world = serving()
    world.set_ready(world.active, False, role="head")
    world.settle()
    assert "applicationStatuses" not in world.status["activeServiceStatus"]
    assert not probes(world, ServeProbe)


def test_a_serve_that_was_shut_down_is_given_its_configuration_again() -> None:
    """2.9.5: Serve knows no application although its head has not changed; one loss, one request."""
    world = serving().advance(20)
    world.applications[world.active] = {}
    world.settle()
    assert bodies(world) == [BODY, BODY]
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")


def test_a_serve_that_never_shows_what_it_took_is_asked_again_at_intervals() -> None:
    world = starting()
    world.after_put = {}
    world.settle()
    sent = [len(world.puts)]
    for seconds in (10, 15, 10, 10, 30):
        world.advance(seconds).settle()
        sent.append(len(world.puts))
    assert sent == [1, 1, 1, 2, 2, 3]


def test_a_loss_during_an_upgrade_is_mended_with_what_the_cluster_had() -> None:
    """2.9.6 has the active cluster wait for the upgrade's end; here it gets its own text back."""
    world = serving()
    old = world.active
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"), serveConfigV2=OTHER)
    world.settle()
    lose_head(world, old)
    world.settle()
    assert bodies(world, old) == [BODY, BODY]


def test_a_slow_start_starts_no_other_cluster() -> None:
    """RS-14: a quarter of an hour without a running application; it waits, and says why."""
    world = starting()
    world.after_put = running("DEPLOYING")
    world.settle()
    first = world.pending
    seen = []
    for _ in range(15):
        world.advance(60).settle()
        seen.append(world.condition("RayServiceWaiting"))
    assert (world.pending, world.clusters(), len(world.puts)) == (first, [first], 1)
    assert seen[2] is None
    assert seen[-1] == ("True", "ApplicationsNotRunning")
    assert world.message("RayServiceWaiting") == f"application app of RayCluster default/{first} is still DEPLOYING"


@pytest.mark.parametrize(
    ("word", "reason"), [("DEPLOY_FAILED", "ApplicationDeployFailed"), ("UNHEALTHY", "ApplicationUnhealthy")]
)
def test_a_failed_application_is_told_at_once(word: str, reason: str) -> None:
    world = serving()
    world.applications[world.active] = running(word, "boom")
    world.settle()
    assert world.condition("RayServiceWaiting") == ("True", reason)
    assert world.message("RayServiceWaiting") == f"application app of RayCluster default/{world.active} is {word}: boom"
    world.applications[world.active] = running()
    world.settle()
    assert world.condition("RayServiceWaiting") is None


def test_a_dashboard_that_is_away_changes_nothing_that_is_known() -> None:
    """Scenario dashboard-down; after half a minute a condition says so."""
    world = serving()
    before = copy.deepcopy(world.status)
    world.silent.add(world.active)
    world.advance(10).settle()
    assert world.status == before
    assert world.last.waiting == f"the dashboard of RayCluster default/{world.active} does not answer: no answer"
    world.advance(30).settle()
    assert world.condition("RayServiceWaiting") == ("True", "DashboardAway")
    assert world.status["activeServiceStatus"] == before["activeServiceStatus"]
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")
    world.silent.clear()
    world.settle()
    assert world.condition("RayServiceWaiting") is None


def test_a_configuration_that_comes_while_the_dashboard_is_away_is_sent_when_it_is_back() -> None:
    """Scenario dashboard-down-config: no failure is told of it."""
    world = serving()
    world.silent.add(world.active)
    world.edit(serveConfigV2=OTHER)
    for _ in range(4):
        world.advance(3).settle()
    assert bodies(world) == [BODY]
    world.silent.clear()
    world.settle()
    assert bodies(world) == [BODY, OTHER_BODY]
    assert not world.notes("FailedToUpdateServeApplications")


def test_a_refused_configuration_is_told_once_for_each_reason() -> None:
    """Scenario put-refused: it is tried again, and goes on by itself."""
    world = starting()
    world.refuse_puts = REFUSAL
    cluster = world.pending
    for _ in range(6):
        world.advance(3).settle()
    note = f"Failed to update serve applications to the RayCluster default/{cluster}: {REFUSAL}"
    assert world.notes("FailedToUpdateServeApplications") == [note]
    assert world.condition("RayServiceWaiting") == ("True", "ServeConfigRefused")
    assert REFUSAL in world.message("RayServiceWaiting")
    assert world.condition("Ready") == ("False", "Initializing")
    world.refuse_puts = "another"
    for _ in range(2):
        world.advance(3).settle()
    assert [text.endswith(": another") for text in world.notes("FailedToUpdateServeApplications")] == [False, True]
    world.refuse_puts = ""
    world.settle()
    assert world.active == cluster
    assert world.condition("RayServiceWaiting") is None


def test_an_answer_from_before_the_configuration_does_not_make_ready() -> None:
    """2.9.4: in KubeRay an update may count as ready in the pass that submits it."""
    world = serving()
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"))
    world.settle()
    pending = world.pending
    world.add_pods(pending)
    world.applications[pending] = running()
    asked = [copy.deepcopy(world.pending)]
    world.after_put = running("DEPLOYING")
    world.settle()
    asked.append(world.pending)
    assert asked == [pending, pending]
    assert world.active != pending


def test_each_thing_given_is_followed_by_a_new_question() -> None:
    """2.9.4: what was answered before is no answer, however long the dashboard takes for the next one."""
    world = serving()
    asked = [probes(world, ServeProbe)[0].asked_for]
    world.edit(serveConfigV2=OTHER)
    world.settle()
    asked.append(probes(world, ServeProbe)[0].asked_for)
    lose_head(world, world.active)
    world.settle()
    asked.append(probes(world, ServeProbe)[0].asked_for)
    assert len(set(asked)) == 3
    assert len(world.puts) == 3
    world.advance(3600).settle()
    assert probes(world, ServeProbe)[0].asked_for == asked[-1]


def test_a_dashboard_that_has_just_gone_refuses_nothing() -> None:
    """The last answer is from before the request: whether that was refused is known with the next one."""
    world = serving()
    world.edit(serveConfigV2=OTHER)
    world.one_pass()
    (probe,), (call,) = probes(world, ServeProbe), probes(world, ServeConfigCall)
    before = ProbeResult("found", world.now, {"applications": running()}, since=world.now)
    world.advance(1)
    world.results = {probe: before, call: ProbeResult("error", world.now, error="refused", failing_since=world.now)}
    plan = world.plan()
    assert [event.reason for event in plan.events] == []
    assert plan.status is None
    assert plan.requeue_after == timedelta(seconds=2)
    world.advance(2)
    world.results[probe] = ProbeResult("found", world.now, {"applications": running()})
    plan = world.plan()
    assert [event.reason for event in plan.events] == ["FailedToUpdateServeApplications"]


def test_where_the_dashboard_is_and_who_may_ask() -> None:
    """Row 35 and 2.10."""
    world = starting(cluster={"authOptions": {"mode": "token"}, "rayVersion": "2.53.0"})
    cluster = world.pending
    service = world.objects[SERVICE, f"{cluster}-head-svc"]
    service["spec"]["ports"] = [{"name": "dashboard", "port": 9999}]
    world.config = world.config.__class__(operator_version="1.0.0", cluster_domain="example.org")
    world.results.clear()
    (probe,) = probes(world, ServeProbe)
    (call,) = probes(world, ServeConfigCall)
    for asked in (probe, call):
        assert asked.address == f"{cluster}-head-svc.default.svc.example.org:9999"
        assert (asked.namespace, asked.service) == ("default", f"{cluster}-head-svc")
        assert asked.auth == AuthSecret("default", cluster, "auth_token")


def test_a_head_service_without_a_dashboard_is_told() -> None:
    world = starting()
    world.objects[SERVICE, f"{world.pending}-head-svc"]["spec"]["ports"] = []
    world.settle()
    assert world.condition("RayServiceWaiting") is None
    world.advance(31).settle()
    assert world.condition("RayServiceWaiting") == ("True", "NoDashboardPort")
    assert not world.puts


def test_a_configuration_too_long_for_an_annotation_is_remembered_by_its_digest() -> None:
    long = CONFIG + "  args: {text: " + "x" * 200_000 + "}\n"
    world = serving(serveConfigV2=long)
    stored = world.cluster(world.active)["metadata"]["annotations"][STORED]
    assert stored.startswith("sha256:")
    assert len(world.puts) == 1
    lose_head(world, world.active)
    world.settle()
    assert [body["applications"][0]["import_path"] for body in bodies(world)] == ["mod.app", "mod.app"]


def test_the_status_has_what_serve_says() -> None:
    """1.3 and 2.10: states and messages of applications and deployments; words nobody knows are passed on."""
    world = serving()
    world.applications[world.active] = {
        "a": {"status": "RUNNING", "message": "", "deployments": {"D": {"status": "WARPED", "message": "why"}}},
        "b": {"status": "ODD", "message": "m", "deployments": {}},
    }
    world.settle()
    assert world.status["activeServiceStatus"]["applicationStatuses"] == {
        "a": {"status": "RUNNING", "serveDeploymentStatuses": {"D": {"status": "WARPED", "message": "why"}}},
        "b": {"status": "ODD", "message": "m"},
    }


def test_nothing_is_given_to_a_cluster_that_is_being_deleted() -> None:
    world = serving()
    world.cluster(world.active)["metadata"]["finalizers"] = ["someone/s"]
    world.delete(RAYCLUSTER, world.active)
    world.edit(serveConfigV2=OTHER)
    world.one_pass()
    world.one_pass()
    assert bodies(world) == [BODY]


BAD = "applications:\n- name: app\n"


@pytest.mark.parametrize("text", [BAD, "a: [", ""], ids=["schema", "YAML", "empty"])
def test_a_configuration_that_cannot_be_right_is_not_sent(text: str) -> None:
    """Who serves goes on with what it has, no cluster is made for it, and the place is told, once."""
    world = serving()
    cluster = world.active
    world.edit(serveConfigV2=text, rayClusterConfig=changed(world, rayVersion="2.99.0"))
    for _ in range(3):
        world.advance(60).settle()
    assert (bodies(world), world.pending, world.clusters()) == ([BODY], "", [cluster])
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")
    assert world.condition("RayServiceWaiting") == ("True", "ServeConfigInvalid")
    assert world.message("RayServiceWaiting").startswith("spec.serveConfigV2: ")
    assert len(world.notes("InvalidRayServiceSpec")) == 1
    world.edit(serveConfigV2=OTHER)
    world.settle()
    assert world.condition("RayServiceWaiting") is None
    assert world.pending


def test_a_loss_while_the_present_text_is_wrong_is_mended_with_the_one_before() -> None:
    world = serving()
    world.edit(serveConfigV2=BAD)
    world.settle()
    lose_head(world, world.active)
    world.settle()
    assert bodies(world) == [BODY, BODY]


def test_a_refused_spec_keeps_its_configuration_from_serve() -> None:
    """6.1: what runs is asked, and given again what it has lost."""
    world = serving()
    world.edit(serveConfigV2=OTHER, upgradeStrategy={"type": "Sideways"})
    world.settle()
    lose_head(world, world.active)
    world.settle()
    assert bodies(world) == [BODY, BODY]
    world.edit(upgradeStrategy=None)
    world.settle()
    assert bodies(world) == [BODY, BODY, OTHER_BODY]


def test_a_note_that_cannot_be_written_stops_nothing_else() -> None:
    world = serving()
    world.edit(serveConfigV2=OTHER)
    world.refuse_writes["Patch", "RayCluster"] = "no"
    world.settle()
    assert bodies(world) == [BODY, OTHER_BODY]
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")
    assert "no" in world.notes("FailedToUpdateRayCluster")[-1]
    assert not world.notes("UpdatedServeApplications")[1:]
    world.refuse_writes.clear()
    world.settle()
    assert bodies(world) == [BODY, OTHER_BODY]
    assert world.cluster(world.active)["metadata"]["annotations"][STORED] == OTHER
