"""The simulated cluster's own controllers: garbage collection, Jobs, pods."""

import pytest
from kuberay.api.kinds import JOB, NAMESPACE, POD, RAYCLUSTER
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import VirtualClock, run_sim
from kuberay_testkit.sim.gc import GarbageCollector
from kuberay_testkit.sim.jobs import JobController, job_condition
from kuberay_testkit.sim.kubelet import SimKubelet
from kuberay_testkit.sim.podstatus import DELAY, HOLD, PHASE, READY, parse_duration, read_wish
from kuberay_testkit.sim.registry import CONFIG_MAP
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.world import SimWorld

NOBODY = "00000000-0000-4000-8000-000000000000"


def owned(name, *owners, kind="ConfigMap", uid=""):
    references = [
        {
            "apiVersion": o["apiVersion"],
            "kind": o["kind"],
            "name": o["metadata"]["name"],
            "uid": uid or o["metadata"]["uid"],
        }
        for o in owners
    ]
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "ownerReferences": references}}


def pod(name="p", **annotations):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    }


def job(name="j", **spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


def phase_of(server, name="p"):
    return server.peek(POD, "default", name)["status"]["phase"]


# -- garbage collection, step by step


def test_dependents_of_dependents_go():
    server = SimServer()
    gc = GarbageCollector(server)
    top = server.create(build_raycluster("a"))
    middle = server.create(owned("middle", top))
    server.create(owned("bottom", middle))
    gc.settle()
    assert len(server.objects(CONFIG_MAP)) == 2
    server.delete(RAYCLUSTER, "default", "a")
    assert len(server.objects(CONFIG_MAP)) == 2
    gc.settle()
    assert server.objects(CONFIG_MAP) == []


def test_a_new_owner_of_the_same_name_is_another_owner():
    server = SimServer()
    gc = GarbageCollector(server)
    first = server.create(build_raycluster("a"))
    server.delete(RAYCLUSTER, "default", "a")
    server.create(build_raycluster("a"))
    server.create(owned("child", first))
    gc.settle()
    assert server.objects(CONFIG_MAP) == []


def test_one_living_owner_is_enough():
    server = SimServer()
    gc = GarbageCollector(server)
    a, b = server.create(build_raycluster("a")), server.create(build_raycluster("b"))
    server.create(owned("child", a, b))
    server.delete(RAYCLUSTER, "default", "a")
    gc.settle()
    (child,) = server.objects(CONFIG_MAP)
    assert [owner["name"] for owner in child["metadata"]["ownerReferences"]] == ["b"]


def test_a_finalizer_keeps_a_collected_object():
    server = SimServer()
    gc = GarbageCollector(server)
    body = owned("child", server.create(build_raycluster("a")), uid=NOBODY)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    server.create(body)
    gc.settle()
    (child,) = server.objects(CONFIG_MAP)
    assert "deletionTimestamp" in child["metadata"]


def test_owners_in_other_namespaces_do_not_count():
    server = SimServer()
    gc = GarbageCollector(server)
    owner = server.create(build_raycluster("a", namespace="elsewhere"))
    server.create(owned("child", owner))
    gc.settle()
    assert server.objects(CONFIG_MAP) == []


def test_a_deleted_namespace_is_emptied():
    server = SimServer()
    gc = GarbageCollector(server)
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    server.create(build_raycluster("a"))
    server.create(build_raycluster("b", namespace="other"))
    server.delete(NAMESPACE, "", "default")
    gc.settle()
    assert [each["metadata"]["name"] for each in server.objects(RAYCLUSTER)] == ["b"]
    assert server.peek(NAMESPACE, "", "default") is None


# -- pods


@pytest.mark.parametrize(
    ("annotations", "phase", "ready"),
    [
        ({}, "Running", True),
        ({READY: "false"}, "Running", False),
        ({PHASE: "Succeeded"}, "Succeeded", False),
        ({PHASE: "Failed"}, "Failed", False),
        ({PHASE: "Pending"}, "Pending", None),
        ({HOLD: "true"}, "Pending", None),
    ],
)
def test_pods_do_what_their_annotations_wish(annotations, phase, ready):
    server = SimServer()
    kubelet = SimKubelet(server, delay=(0, 0))
    server.create(pod(**annotations))
    kubelet.settle()
    status = server.peek(POD, "default", "p")["status"]
    assert status["phase"] == phase
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    assert conditions.get("Ready") == {True: "True", False: "False", None: None}[ready]
    if ready is not None:
        assert status["podIP"].startswith("10.16.")
        assert status["containerStatuses"][0]["ready"] is ready


def test_pods_take_their_time():
    async def main():
        async with SimWorld(pod_delay=(3, 3)) as world:
            world.server.create(pod("slow"))
            world.server.create(pod("given", **{DELAY: "10s"}))
            world.server.create(pod("ending", **{PHASE: "Succeeded", DELAY: "20s"}))
            seen = []
            for _ in range(6):
                await world.pass_time(4)
                seen.append([phase_of(world.server, name) for name in ("slow", "given", "ending")])
            assert seen == [
                ["Running", "Pending", "Running"],
                ["Running", "Pending", "Running"],
                ["Running", "Running", "Running"],
                ["Running", "Running", "Running"],
                ["Running", "Running", "Succeeded"],
                ["Running", "Running", "Succeeded"],
            ]

    run_sim(main)


def test_a_changed_wish_counts():
    async def main():
        async with SimWorld(pod_delay=(1, 1)) as world:
            world.server.create(pod(**{HOLD: "true"}))
            await world.pass_time(60)
            assert phase_of(world.server) == "Pending"
            world.server.patch(POD, "default", "p", {"metadata": {"annotations": {HOLD: "false"}}})
            await world.pass_time(2)
            assert phase_of(world.server) == "Running"
            world.server.patch(POD, "default", "p", {"metadata": {"annotations": {PHASE: "Failed"}}})
            await world.pass_time(2)
            assert phase_of(world.server) == "Failed"

    run_sim(main)


def test_pods_can_be_steered_by_hand():
    server = SimServer()
    kubelet = SimKubelet(server, delay=(0, 0))
    for name in "abcde":
        server.create(pod(name))
    kubelet.settle()
    kubelet.fail("default", "a", exit_code=3, reason="OOM")
    kubelet.evict("default", "b")
    kubelet.finish("default", "c")
    kubelet.set_container("default", "d", "main", {"waiting": {"reason": "CrashLoopBackOff"}}, restarts=4)
    kubelet.start("default", "e", ready=False)
    kubelet.settle()
    status = {name: server.peek(POD, "default", name)["status"] for name in "abcde"}
    assert status["a"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert (status["b"]["phase"], status["b"]["reason"]) == ("Failed", "Evicted")
    assert status["c"]["phase"] == "Succeeded"
    container = status["d"]["containerStatuses"][0]
    assert container["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert "running" in container["lastState"]
    assert container["restartCount"] == 4
    ready = {each["type"]: each["status"] for each in status["d"]["conditions"]}["Ready"]
    assert (status["d"]["phase"], ready) == ("Running", "False")
    assert status["e"]["containerStatuses"][0]["ready"] is False
    with pytest.raises(LookupError):
        kubelet.finish("default", "nobody")


def test_an_unschedulable_pod_stays_pending():
    server = SimServer()
    kubelet = SimKubelet(server, delay=(0, 0))
    server.create(pod())
    kubelet.set_unschedulable("default", "p")
    kubelet.settle()
    status = server.peek(POD, "default", "p")["status"]
    (condition,) = status["conditions"]
    assert (status["phase"], condition["reason"]) == ("Pending", "Unschedulable")


def test_pods_terminate_in_their_grace_period():
    async def main():
        async with SimWorld(pod_grace=5) as world:
            world.server.create(pod())
            await world.pass_time(5)
            world.server.delete(POD, "default", "p")
            await world.pass_time(4)
            assert "deletionTimestamp" in world.server.peek(POD, "default", "p")["metadata"]
            await world.pass_time(2)
            assert world.server.peek(POD, "default", "p") is None

    run_sim(main)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("1.5s", 1.5), ("2m30s", 150), ("100ms", 0.1), ("1h", 3600)])
def test_durations(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("annotations", [{DELAY: "soon"}, {DELAY: "5"}, {PHASE: "Done"}, {READY: "maybe"}])
def test_nonsense_wishes_name_the_annotation(annotations):
    (name,) = annotations
    with pytest.raises(ValueError, match=name):
        read_wish(annotations)


# -- Jobs


def play(manifest, phases, **options):
    """Let the Job's pods end in these phases one after the other; returns the server at rest."""

    async def main():
        async with SimWorld() as world:
            outcomes = iter(phases)
            plan = {}

            def behave(body):
                name = body["metadata"]["name"]
                if name not in plan:
                    plan[name] = next(outcomes)
                return read_wish({PHASE: plan[name], DELAY: "2s"})

            world.kubelet.behave = behave
            world.server.create(manifest)
            await world.rest(quiet=120)
            return world.server

    return run_sim(main)


def test_a_job_completes():
    server = play(job(), ["Succeeded"])
    done = server.peek(JOB, "default", "j")
    assert job_condition(done, "Complete")
    assert done["status"]["succeeded"] == 1
    (made,) = server.objects(POD)
    assert made["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
    assert made["metadata"]["ownerReferences"][0]["uid"] == done["metadata"]["uid"]


def test_a_job_retries_up_to_its_limit():
    server = play(job(backoffLimit=2), ["Failed", "Failed", "Succeeded"])
    assert job_condition(server.peek(JOB, "default", "j"), "Complete")
    server = play(job(backoffLimit=1), ["Failed", "Failed"])
    failed = job_condition(server.peek(JOB, "default", "j"), "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert len(server.objects(POD)) == 2


def test_a_job_has_a_deadline():
    server = play(job(activeDeadlineSeconds=30), ["Running"])
    assert job_condition(server.peek(JOB, "default", "j"), "Failed")["reason"] == "DeadlineExceeded"
    assert server.objects(POD) == []


def test_a_suspended_job_has_no_pods():
    server = play(job(suspend=True), [])
    assert job_condition(server.peek(JOB, "default", "j"), "Suspended")
    assert server.objects(POD) == []


def test_a_finished_job_goes_after_its_time():
    server = play(job(ttlSecondsAfterFinished=60), ["Succeeded"])
    assert server.objects(JOB) == []
    assert server.objects(POD) == []


def test_a_lost_pod_counts_as_a_failure():
    server = SimServer(clock=VirtualClock())
    jobs = JobController(server, retry_after=0.0)
    server.create(job(backoffLimit=1))
    for _ in range(2):
        jobs.settle()
        (lost,) = server.objects(POD)
        server.delete(POD, "default", lost["metadata"]["name"])
    jobs.settle()
    assert job_condition(server.peek(JOB, "default", "j"), "Failed")


# -- single containers


def two_containers(policy="Never", own=None):
    body = pod()
    sidecar = {"name": "sidecar", "image": "busybox:1"} | ({"restartPolicy": own} if own else {})
    body["spec"] = {"restartPolicy": policy, "containers": [{"name": "main", "image": "busybox:1"}, sidecar]}
    return body


def running(body):
    server = SimServer()
    kubelet = SimKubelet(server, delay=(0, 0))
    server.create(body)
    kubelet.settle()
    return server, kubelet


def seen(server):
    """Phase, readiness, and of each container: state, ready, restarts, exit code of the last run."""
    status = server.peek(POD, "default", "p")["status"]
    (ready,) = (c for c in status["conditions"] if c["type"] == "Ready")
    containers = [
        (
            next(iter(each["state"])),
            each["ready"],
            each["restartCount"],
            each.get("lastState", {}).get("terminated", {}).get("exitCode"),
        )
        for each in status["containerStatuses"]
    ]
    return status["phase"], (ready["status"], ready.get("reason", "")), containers


MAIN = ("running", True, 0, None)
ENDED = ("terminated", False, 0, None)


@pytest.mark.parametrize(
    ("policy", "own", "code", "sidecar"),
    [
        ("Never", None, 0, ENDED),
        ("Never", None, 1, ENDED),
        ("OnFailure", None, 0, ENDED),
        ("OnFailure", None, 1, ("running", True, 1, 1)),
        ("Always", None, 0, ("running", True, 1, 0)),
        ("Never", "OnFailure", 1, ("running", True, 1, 1)),
        ("Never", "OnFailure", 0, ENDED),
        ("Always", "Never", 1, ENDED),
    ],
)
def test_one_container_ends(policy, own, code, sidecar):
    server, kubelet = running(two_containers(policy, own))
    kubelet.end_container("default", "p", "sidecar", code, "so it goes")
    kubelet.settle()
    ready = ("False", "ContainersNotReady") if sidecar is ENDED else ("True", "")
    assert seen(server) == ("Running", ready, [MAIN, sidecar])
    status = server.peek(POD, "default", "p")["status"]
    terminated = (status["containerStatuses"][1]["state"] | status["containerStatuses"][1]["lastState"])["terminated"]
    assert (terminated["message"], terminated["reason"]) == ("so it goes", "Error" if code else "Completed")
    (condition,) = (c for c in status["conditions"] if c["type"] == "Ready")
    assert condition.get("message", "") == ("containers with unready status: [sidecar]" if sidecar is ENDED else "")


@pytest.mark.parametrize(
    ("codes", "phase", "why"), [((0, 0), "Succeeded", "PodCompleted"), ((0, 2), "Failed", "PodFailed")]
)
def test_the_last_container_ends_the_pod(codes, phase, why):
    server, kubelet = running(two_containers())
    for name, code in zip(("sidecar", "main"), codes, strict=True):
        kubelet.end_container("default", "p", name, code)
    kubelet.settle()
    assert seen(server) == (phase, ("False", why), [ENDED, ENDED])


def test_a_container_waits_in_back_off():
    server, kubelet = running(two_containers(own="OnFailure"))
    kubelet.end_container("default", "p", "sidecar", 3, starts_again=False)
    assert seen(server) == ("Running", ("False", "ContainersNotReady"), [MAIN, ("waiting", False, 0, 3)])


def test_only_what_runs_ends():
    server, kubelet = running(two_containers())
    kubelet.end_container("default", "p", "sidecar")
    for container in ("sidecar", "nobody"):
        with pytest.raises(LookupError, match=f"container {container} of pod p does not run"):
            kubelet.end_container("default", "p", container)
    assert seen(server)[0] == "Running"
