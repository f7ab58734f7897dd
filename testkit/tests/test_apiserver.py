"""The simulated API server over HTTP: the operator's own client reads, writes and watches through it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from kuberay.api.kinds import CRD, POD, RAYCLUSTER
from kuberay.kube.connection import connect
from kuberay.kube.http import HttpTransport
from kuberay.kube.transport import APPLY_PATCH, TransportError
from kuberay_testkit.apiserver import ApiServer, create_all, kubeconfig
from kuberay_testkit.builders import build_pod_template, build_raycluster
from kuberay_testkit.sim.server import SimServer

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **build_pod_template()}


@asynccontextmanager
async def served(tmp_path: Path, client: str = "operator") -> AsyncIterator[tuple[ApiServer, HttpTransport]]:
    """A server, and a transport that found it by its kubeconfig."""
    api = ApiServer()
    async with api.running() as url:
        config = tmp_path / "kubeconfig"
        config.write_text(kubeconfig(url, client=client))
        transport = HttpTransport(await connect(str(config)), user_agent="test")
        try:
            yield api, transport
        finally:
            await transport.close()


async def test_objects_are_made_read_and_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, transport):
        made = await transport.request("POST", PODS, body=orjson.dumps(pod("one")))
        assert made.status == 201
        assert api.server.peek(POD, "default", "one") is not None
        again = await transport.request("POST", PODS, body=orjson.dumps(pod("one")))
        assert (again.status, orjson.loads(again.body)["reason"]) == (409, "AlreadyExists")
        listed = await transport.request("GET", PODS, params={"limit": "5"})
        assert [each["metadata"]["name"] for each in orjson.loads(listed.body)["items"]] == ["one"]
        assert (await transport.request("GET", "/apis/nobody.example.com/v1/things")).status == 404


async def test_pods_start_by_themselves_and_a_watch_tells(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, transport), asyncio.timeout(30):
        await transport.request("POST", PODS, body=orjson.dumps(pod("one")))
        phases = []
        async with transport.stream(PODS, params={"watch": "1"}) as (status, lines):
            assert status == 200
            async for line in lines:
                phases.append((orjson.loads(line)["object"].get("status") or {}).get("phase"))
                if phases[-1] == "Running":
                    break
    assert phases[0] != "Running"


async def test_a_watch_that_its_client_leaves_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, transport), asyncio.timeout(30):
        async with transport.stream(PODS, params={"watch": "1"}):
            assert len(api.server._watches) == 1
        while api.server._watches:
            await asyncio.sleep(0.01)


async def test_a_watch_that_is_cut_breaks_the_connection(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, transport), asyncio.timeout(30):

        async def watch() -> None:
            async with transport.stream(PODS, params={"watch": "1"}) as (_, lines):
                assert api.server.cut_watches() == 1
                async for _ in lines:
                    pass

        with pytest.raises(TransportError):
            await watch()


async def test_who_asks_is_what_the_token_says(tmp_path: Path) -> None:
    """So permissions can be restricted, and calls are counted by client."""
    async with served(tmp_path, client="somebody") as (api, transport):
        api.server.restrict("somebody", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
        assert (await transport.request("GET", PODS)).status == 200
        assert (await transport.request("POST", PODS, body=orjson.dumps(pod("one")))).status == 403
        assert [call.client for call in api.server.calls.where(resource="pods")] == ["somebody", "somebody"]


async def test_yaml_is_understood_where_the_content_type_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as (api, transport):
        body = yaml.safe_dump(build_raycluster("demo")).encode()
        path = "/apis/ray.io/v1/namespaces/default/rayclusters"
        made = await transport.request("POST", path, body=body, content_type="application/yaml")
        assert made.status == 201
        suspended = {**build_raycluster("demo"), "spec": {"suspend": True}}
        patch, params = yaml.safe_dump(suspended).encode(), {"fieldManager": "me", "force": "true"}
        answer = await transport.request("PATCH", f"{path}/demo", params=params, body=patch, content_type=APPLY_PATCH)
        assert answer.status == 200
        stored = api.server.peek(RAYCLUSTER, "default", "demo")
        assert stored is not None
        assert stored["spec"]["suspend"] is True
        broken = await transport.request("POST", path, body=b"a: [", content_type="application/yaml")
        assert broken.status == 400


async def test_discovery_and_health_are_served(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, transport):
        assert (await transport.request("GET", "/readyz")).body == b"ok"
        groups = orjson.loads((await transport.request("GET", "/apis")).body)["groups"]
        assert "ray.io" in {group["name"] for group in groups}


def test_files_are_created_in_order(tmp_path: Path) -> None:
    """A CRD first, then an object of its kind."""
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gangs.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Gang", "plural": "gangs"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    gang = {"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "g"}}
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([crd, None, gang]))
    server = SimServer()
    assert create_all(server, [str(file)]) == ["CustomResourceDefinition gangs.example.com", "Gang g"]
    assert server.peek(CRD, "", "gangs.example.com") is not None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "Cannot read .*: No such file or directory."),
        ("a: [", "holds no Kubernetes manifests"),
        ("[1]", "holds no Kubernetes manifests"),
        ("apiVersion: example.com/v1\nkind: Gang\nmetadata: {name: g}", "example.com/v1 Gang is not served"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: UPPER}\nspec: {containers: [{name: c, image: i}]}", "UPPER"),
    ],
)
def test_what_cannot_be_created_ends_with_one_sentence(tmp_path: Path, text: str | None, sentence: str) -> None:
    file = tmp_path / "x.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit, match=sentence):
        create_all(SimServer(), [str(file)])
