"""Cases about lists and watches: selectors, consistent chunks, event order, bookmarks, expiry."""

from __future__ import annotations

import asyncio

from kuberay.api.kinds import LEASE, POD, RAYCLUSTER
from kuberay.kube.transport import Transport

from kuberay_testkit.conformance.api import Api
from kuberay_testkit.conformance.bodies import a_cluster, a_config, a_pod
from kuberay_testkit.sim.registry import CONFIG_MAP


async def case_list_in_chunks_is_consistent(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    for number in range(5):
        await api.create(CONFIG_MAP, {"metadata": {"name": f"c{number}", "labels": {"case": "chunks"}}})
    first = await api.find(CONFIG_MAP, labelSelector="case=chunks", limit="2")
    await api.create(CONFIG_MAP, {"metadata": {"name": "c1b", "labels": {"case": "chunks"}}})
    await api.delete(CONFIG_MAP, "c4")
    names = [item["metadata"]["name"] for item in first.body["items"]]
    page = first
    while token := page.body["metadata"].get("continue"):
        page = await api.find(CONFIG_MAP, **{"labelSelector": "case=chunks", "limit": "2", "continue": token})
        assert page.version == first.version
        names += [item["metadata"]["name"] for item in page.body["items"]]
    assert names == ["c0", "c1", "c2", "c3", "c4"]
    bad = await api.find(CONFIG_MAP, **{"limit": "2", "continue": "!"})
    assert bad.status == 400


async def case_list_shape(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(POD, a_pod("p"))
    await api.create(RAYCLUSTER, a_cluster("r"))
    pods = await api.find(POD)
    assert (pods.body["kind"], pods.body["apiVersion"]) == ("PodList", "v1")
    # Items of built-in kinds say nothing about their type; items of custom kinds do.
    assert "kind" not in pods.body["items"][0]
    clusters = await api.find(RAYCLUSTER)
    assert clusters.body["items"][0]["kind"] == "RayCluster"
    assert int(clusters.version) >= int(clusters.body["items"][0]["metadata"]["resourceVersion"])


async def case_label_selectors(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    for name, labels in (
        ("a", {"x": "1", "y": "1", "case": "s"}),
        ("b", {"x": "2", "case": "s"}),
        ("c", {"case": "s"}),
    ):
        await api.create(CONFIG_MAP, {"metadata": {"name": name, "labels": labels}})
    table = {
        "x=1": "a",
        "x==2": "b",
        "x!=1": "bc",
        "x in (1,2)": "ab",
        "x notin (1)": "bc",
        "x": "ab",
        "!x": "c",
        "x in (1, 2),y": "a",
        "x,!y": "b",
    }
    for selector, expected in table.items():
        answer = await api.find(CONFIG_MAP, labelSelector=f"case=s,{selector}")
        assert "".join(item["metadata"]["name"] for item in answer.body["items"]) == expected, selector
    assert (await api.find(CONFIG_MAP, labelSelector="x in 1")).status == 400


async def case_field_selectors(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    for name in ("a", "b"):
        await api.create(POD, a_pod(name))
    answer = await api.find(POD, fieldSelector="metadata.name=a")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a"]
    answer = await api.find(POD, fieldSelector=f"metadata.namespace={namespace},metadata.name!=a")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["b"]
    assert (await api.find(POD, fieldSelector="spec.color=red")).status == 400


async def case_watch_tells_changes_in_order(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    start = (await api.find(CONFIG_MAP)).version
    await api.create(CONFIG_MAP, a_config("a", x="1"))
    await api.merge(CONFIG_MAP, "a", {"data": {"x": "2"}})
    await api.delete(CONFIG_MAP, "a")
    events = await api.watch(CONFIG_MAP, start, count=3)
    assert [type_ for type_, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0][1]["kind"] == "ConfigMap"
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in events]
    assert versions == sorted(set(versions))


async def case_watch_with_selector_sees_objects_come_and_go(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    start = (await api.find(CONFIG_MAP)).version
    await api.create(CONFIG_MAP, a_config("a", x="1"))
    await api.merge(CONFIG_MAP, "a", {"metadata": {"labels": {"seen": "yes"}}})
    await api.merge(CONFIG_MAP, "a", {"data": {"x": "2"}})
    last = await api.merge(CONFIG_MAP, "a", {"metadata": {"labels": {"seen": None}}})
    await api.delete(CONFIG_MAP, "a")
    events = await api.watch(CONFIG_MAP, start, seconds=2, labelSelector="seen=yes")
    assert [type_ for type_, _ in events] == ["ADDED", "MODIFIED", "DELETED"]
    gone = events[-1][1]["metadata"]
    assert gone["labels"] == {"seen": "yes"}
    assert gone["resourceVersion"] == last.version


async def case_watch_from_the_beginning_tells_what_is_there(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(LEASE, {"metadata": {"name": "a"}, "spec": {}})
    events = await api.watch(LEASE, "0", count=1)
    assert [(type_, body["metadata"]["name"]) for type_, body in events] == [("ADDED", "a")]


async def case_watch_ends_with_a_bookmark(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    start = (await api.find(CONFIG_MAP)).version

    async def change() -> None:
        await asyncio.sleep(1)
        await api.create(CONFIG_MAP, a_config("a"))

    events, _ = await asyncio.gather(
        api.watch(CONFIG_MAP, start, seconds=5, allowWatchBookmarks="true"),
        change(),
    )
    assert [type_ for type_, _ in events[:2]] == ["ADDED", "BOOKMARK"]
    assert int(events[-1][1]["metadata"]["resourceVersion"]) > int(start)


async def case_watch_can_begin_with_what_is_there(transport: Transport, namespace: str) -> None:
    api = Api(transport, namespace)
    await api.create(RAYCLUSTER, a_cluster("a"))
    events = await api.watch(
        RAYCLUSTER,
        "",
        count=2,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    assert [type_ for type_, _ in events] == ["ADDED", "BOOKMARK"]
    assert events[1][1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
