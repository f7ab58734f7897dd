"""Cases about rules of single built-in kinds: pods, Jobs, Services, Events, Leases."""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import EVENT, JOB, LEASE, POD, SERVICE
from kuberay.kube.transport import Transport

from kuberay_testkit.conformance.api import Api
from kuberay_testkit.conformance.bodies import a_pod


async def case_pod_rules(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    empty = await api.create(POD, {"metadata": {"name": "p"}, "spec": {"containers": []}})
    assert (empty.status, empty.reason) == (422, "Invalid")
    made = await api.create(POD, a_pod("p"))
    assert made.body["status"]["phase"] == "Pending"
    assert made.body["spec"]["restartPolicy"] == "Always"
    frozen = await api.merge(POD, "p", {"spec": {"restartPolicy": "Never"}})
    assert (frozen.status, frozen.reason) == (422, "Invalid")
    nobody = a_pod("q")
    nobody["spec"]["serviceAccountName"] = "nobody"
    refused = await api.create(POD, nobody)
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert "nobody" in refused.message


async def case_job_rules(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    container = {"name": "main", "image": "busybox:1"}

    def job(**pod: Any) -> dict[str, Any]:
        return {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [container], **pod}}}}

    assert (await api.create(JOB, job())).status == 422
    made = await api.create(JOB, job(restartPolicy="Never"))
    assert made.status == 201
    assert made.body["spec"]["backoffLimit"] == 6
    labels = made.body["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "j"
    image = [{"name": "main", "image": "busybox:2"}]
    frozen = await api.merge(JOB, "j", {"spec": {"template": {"spec": {"containers": image}}}})
    assert (frozen.status, frozen.reason) == (422, "Invalid")
    # Without a policy the API keeps an old promise and orphans a Job's pods.
    await api.delete(JOB, "j")
    await api.until_gone(JOB, "j")


async def case_service_defaults(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    made = await api.create(SERVICE, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    spec = made.body["spec"]
    assert spec["type"] == "ClusterIP"
    assert spec["clusterIP"]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    headless = await api.create(
        SERVICE, {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    )
    assert headless.status == 201
    nameless = {"metadata": {"name": "n"}, "spec": {"ports": [{"port": 80}, {"port": 81}]}}
    assert (await api.create(SERVICE, nameless)).status == 422


async def case_event_rules(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kuberay-operator",
        "reportingInstance": "kuberay-operator-0",
        "action": "Reconcile",
        "reason": "Created",
        "type": "Normal",
        "note": "made a pod",
        "regarding": {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "r", "namespace": namespace},
    }
    assert (await api.create(EVENT, event)).status == 201
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    assert (await api.merge(EVENT, "e", series)).status == 200
    assert (await api.merge(EVENT, "e", {"note": "something else"})).status == 422
    for change in ({"note": "x" * 1025}, {"action": ""}, {"type": "Odd"}):
        assert (await api.create(EVENT, {**event, "metadata": {"name": "f"}, **change})).status == 422, change


async def case_lease_is_taken_once(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    lease = (await api.create(LEASE, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})).body
    first = {**lease, "spec": {**lease["spec"], "holderIdentity": "b"}}
    second = {**lease, "spec": {**lease["spec"], "holderIdentity": "c"}}
    assert (await api.replace(LEASE, first)).status == 200
    assert (await api.replace(LEASE, second)).status == 409
    assert (await api.get(LEASE, "l")).body["spec"]["holderIdentity"] == "b"
