"""What is kept of an EndpointSlice: who is ready (spec rayservice.md 5.3); and of a Secret: nothing but that it is there."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from kuberay.api.kinds import ENDPOINT_SLICE, SECRET
from kuberay.api.objects import Child, EndpointSlice, Secret, decode, from_dict

LABELS = {"kubernetes.io/service-name": "rs-serve-svc", "ray.io/originated-from-crd": "RayService"}


def endpoint(uid: str | None, ready: Any = True, **more: Any) -> dict[str, Any]:
    target = {} if uid is None else {"targetRef": {"kind": "Pod", "name": "p", "uid": uid}}
    return {"addresses": ["10.0.0.1"], "conditions": {"ready": ready, "serving": True}, **target, **more}


ENDPOINTS: dict[str, tuple[Any, set[str]]] = {
    "ready": ([endpoint("a"), endpoint("b", nodeName="n", zone="z")], {"a", "b"}),
    "not ready": ([endpoint("a", False), endpoint("b")], {"b"}),
    "nothing said": ([{"addresses": ["x"], "targetRef": {"uid": "a"}}, endpoint("b", None)], set()),
    "two addresses of one pod": ([endpoint("a"), endpoint("a", addresses=["fd00::1"])], {"a"}),
    "no pod": ([endpoint(None), endpoint("")], set()),
    "none": ([], set()),
    "null": (None, set()),
}


def body(endpoints: Any) -> dict[str, Any]:
    metadata = {
        "name": "s",
        "namespace": "ns",
        "uid": "u",
        "labels": LABELS,
        "annotations": {"endpoints.kubernetes.io/x": "y"},
    }
    return {"metadata": metadata, "addressType": "IPv4", "ports": [{"port": 8000}], "endpoints": endpoints}


@pytest.mark.parametrize(("endpoints", "ready"), ENDPOINTS.values(), ids=ENDPOINTS)
def test_pods_that_are_said_to_be_ready_count_once(endpoints: Any, ready: set[str]) -> None:
    for found in (decode(ENDPOINT_SLICE, orjson.dumps(body(endpoints))), from_dict(ENDPOINT_SLICE, body(endpoints))):
        assert isinstance(found, EndpointSlice)
        assert found.ready == ready
        assert found.metadata.labels == LABELS
        assert not found.endpoints
        assert not found.metadata.annotations


def test_a_copy_still_knows_who_is_ready() -> None:
    found = decode(ENDPOINT_SLICE, orjson.dumps(body([endpoint("a")])))
    copy = msgspec.structs.replace(found, metadata=found.metadata)
    assert isinstance(copy, EndpointSlice)
    assert copy.ready == {"a"}


def test_an_endpointslice_without_endpoints_is_one() -> None:
    given = body([])
    del given["endpoints"]
    found = decode(ENDPOINT_SLICE, orjson.dumps(given))
    assert isinstance(found, EndpointSlice)
    assert found.ready == frozenset()


@pytest.mark.parametrize("labels", [{}, {"ray.io/cluster": "rc"}])
def test_the_content_of_a_secret_is_not_kept(labels: dict[str, str]) -> None:
    metadata = {
        "name": "s",
        "labels": labels,
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hush"},
    }
    secret = from_dict(SECRET, {"metadata": metadata, "data": {"token": "aHVzaA=="}, "stringData": {"token": "hush"}})
    assert isinstance(secret, Secret)
    kept = msgspec.json.encode(secret)
    assert b"hush" not in kept
    assert b"aHVzaA" not in kept


def test_a_secret_that_a_plugin_made_can_be_read_back() -> None:
    body = {"metadata": {"name": "s", "labels": {"ray.io/plugin": "mtls"}}, "data": {"seed": "aHVzaA=="}}
    secret = decode(SECRET, orjson.dumps(body))
    assert isinstance(secret, Child)
    assert secret.body() == body
