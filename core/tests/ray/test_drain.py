"""The drain client against a gRPC server in this process that answers as Ray's GCS does."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream
from kuberay.ray.autoscaler_state import GrpcDrainClient, RayNode, accepted, drain_request, parse_nodes
from kuberay.ray.drain import DrainError, GcsTarget, LeavingNode

DEADLINE = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
RUNNING, DEAD, IDLE, DRAINING = 1, 2, 3, 4


def varint(value: int) -> bytes:
    parts = b""
    while value > 0x7F:
        parts, value = parts + bytes([value & 0x7F | 0x80]), value >> 7
    return parts + bytes([value])


def text(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def number(field_number: int, value: int) -> bytes:
    return varint(field_number << 3) + varint(value)


def state_of(nodes: list[RayNode]) -> bytes:
    """A GetClusterResourceStateReply, with fields between that nobody reads."""
    told = b""
    for node in nodes:
        resource = text(1, b"CPU") + varint(2 << 3 | 1) + b"\0\0\0\0\0\0\xf0\x3f"
        told += text(
            3,
            text(1, node.id)
            + (text(2, node.instance_id.encode()) if node.instance_id else b"")
            + text(3, b"crew")
            + text(4, resource)
            + number(7, 12)
            + number(8, node.status)
            + number(9, 1 << 40)
            + text(10, node.ip.encode()),
        )
    return text(1, number(1, 5) + told + text(7, b"session"))


@dataclass
class Gcs:
    """The two methods that are called."""

    nodes: list[RayNode] = field(default_factory=list)
    token: str = ""
    refuse: bool = False
    hang: set[str] = field(default_factory=set)
    answer: bytes | None = None
    drained: list[bytes] = field(default_factory=list)

    def __mapping__(self) -> dict[str, Handler]:
        service = "/ray.rpc.autoscaler.AutoscalerStateService/"
        methods = {"GetClusterResourceState": self._state, "DrainNode": self._drain}
        return {service + name: Handler(call, Cardinality.UNARY_UNARY, bytes, bytes) for name, call in methods.items()}

    async def _asked(self, stream: Stream[bytes, bytes], method: str) -> bytes:
        if self.token and _shown(stream) != f"Bearer {self.token}":
            raise GRPCError(Status.UNAUTHENTICATED, "InvalidAuthToken")
        if method in self.hang:
            await asyncio.sleep(60)
        return await stream.recv_message() or b""

    async def _state(self, stream: Stream[bytes, bytes]) -> None:
        await self._asked(stream, "GetClusterResourceState")
        await stream.send_message(state_of(self.nodes) if self.answer is None else self.answer)

    async def _drain(self, stream: Stream[bytes, bytes]) -> None:
        self.drained.append(await self._asked(stream, "DrainNode"))
        await stream.send_message(text(2, b"busy") if self.refuse else number(1, 1))


def _shown(stream: Stream[bytes, bytes]) -> Any:
    return stream.metadata.get("authorization") if stream.metadata is not None else None


class Bytes:
    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


@asynccontextmanager
async def served(gcs: Gcs) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server([gcs], codec=Bytes())  # type: ignore[arg-type]
    await server.start(sock=listener)
    try:
        yield listener.getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def ask(gcs: Gcs, *pods: str, token: str | None = None, timeout: float = 5.0) -> dict[str, str]:
    async def run() -> dict[str, str]:
        async with served(gcs) as port:
            nodes = [LeavingNode(pod, "10.0.0.9", DEADLINE) for pod in pods]
            client = GrpcDrainClient(timeout=timeout)
            return dict(await client.drain(GcsTarget("127.0.0.1", port, token), nodes))

    return asyncio.run(run())


def node(name: str, status: int = RUNNING, *, ip: str = "10.0.0.9") -> RayNode:
    return RayNode(id=f"id of {name}/{status}".encode(), instance_id=name, status=status, ip=ip)


def test_what_each_status_leads_to() -> None:
    gcs = Gcs([node("head"), node("a"), node("b", IDLE), node("c", DRAINING), node("d", DEAD)])
    states = ask(gcs, "a", "b", "c", "d", "unknown")
    assert states == {"a": "draining", "b": "draining", "c": "draining", "d": "drained", "unknown": "drained"}
    milliseconds = int(DEADLINE.timestamp() * 1000)
    assert sorted(gcs.drained) == sorted(drain_request(each.id, milliseconds) for each in (node("a"), node("b", IDLE)))


def test_the_request_says_preemption_and_the_deadline() -> None:
    """Field numbers and values as in Ray's autoscaler.proto."""
    request = drain_request(b"\x01\x02", 1767225630000)
    assert request.startswith(b"\x0a\x02\x01\x02" + b"\x10\x02" + b"\x1a")
    assert request.endswith(b"\x20" + varint(1767225630000))


def test_a_pod_that_restarted_is_drained_again() -> None:
    gcs = Gcs([node("a", DEAD), node("a", RUNNING)])
    assert ask(gcs, "a") == {"a": "draining"}
    assert len(gcs.drained) == 1


def test_nodes_without_an_instance_id_are_known_by_address() -> None:
    gcs = Gcs([RayNode(b"1", status=RUNNING, ip="10.0.0.9"), RayNode(b"2", status=RUNNING, ip="10.0.0.8")])
    assert ask(gcs, "a") == {"a": "draining"}
    assert [b"\x0a\x011" in request for request in gcs.drained] == [True]


def test_pods_that_share_an_address_are_told_apart() -> None:
    gcs = Gcs([node("a"), node("b")])
    assert ask(gcs, "b") == {"b": "draining"}
    assert gcs.drained == [drain_request(node("b").id, int(DEADLINE.timestamp() * 1000))]


def test_many_nodes_at_once() -> None:
    names = [f"worker-{n}" for n in range(300)]
    gcs = Gcs([node(name) for name in names])
    assert ask(gcs, *names) == dict.fromkeys(names, "draining")
    assert len(gcs.drained) == 300


def test_a_refusal_is_told() -> None:
    assert ask(Gcs([node("a")], refuse=True), "a") == {"a": "refused"}


def test_a_node_that_does_not_answer_the_gcs_is_waited_for() -> None:
    assert ask(Gcs([node("a"), node("b", DEAD)], hang={"DrainNode"}), "a", "b", timeout=0.3) == {
        "a": "draining",
        "b": "drained",
    }


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_missing_or_wrong_token_is_an_error(token: str | None) -> None:
    with pytest.raises(DrainError, match="refuses: InvalidAuthToken"):
        ask(Gcs([node("a")], token="right"), "a", token=token)


def test_the_token_is_shown_and_never_told() -> None:
    assert ask(Gcs([node("a")], token="right"), "a", token="right") == {"a": "draining"}
    assert "right" not in repr(GcsTarget("h", 1, "right"))


def test_a_gcs_that_hangs_is_an_error() -> None:
    with pytest.raises(DrainError, match=r"did not answer within 0.2 s"):
        ask(Gcs(hang={"GetClusterResourceState"}), "a", timeout=0.2)


def test_a_port_where_nobody_listens_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(DrainError, match="cannot be asked"):
        asyncio.run(GrpcDrainClient().drain(GcsTarget("127.0.0.1", port), [LeavingNode("a", "", DEADLINE)]))


@pytest.mark.parametrize("answer", [b"\xff", b"\x0a\x7f1", b"\x0b", b"\x80" * 11])
def test_an_answer_that_is_no_message_is_an_error(answer: bytes) -> None:
    with pytest.raises(DrainError, match="cannot be asked: the answer is"):
        ask(Gcs(answer=answer), "a")


def test_another_server_than_a_gcs_is_an_error() -> None:
    async def run() -> None:
        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await GrpcDrainClient(timeout=2).drain(GcsTarget("127.0.0.1", port), [LeavingNode("a", "", DEADLINE)])

    with pytest.raises(DrainError):
        asyncio.run(run())


def test_a_port_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(DrainError, match="cannot be asked"):
        asyncio.run(GrpcDrainClient().drain(GcsTarget("127.0.0.1", 99999), [LeavingNode("a", "", DEADLINE)]))


def test_an_empty_answer_holds_no_nodes() -> None:
    assert parse_nodes(b"") == []
    assert not accepted(b"")


def test_the_grpc_library_is_not_loaded_before_it_is_needed() -> None:
    code = "import sys, kuberay.operator.start; sys.exit('grpclib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
