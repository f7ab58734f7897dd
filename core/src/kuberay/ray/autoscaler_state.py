"""The drain client that speaks gRPC with the GCS: Ray's ``AutoscalerStateService``, which its own autoscaler drains with.

Messages have few fields and are put together by hand; the gRPC library is only imported when a node is to be drained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from kuberay.ray.drain import DrainError, DrainState, GcsTarget, LeavingNode

if TYPE_CHECKING:
    from grpclib.client import Channel
    from grpclib.encoding.base import CodecBase

TIMEOUT = 2.0
"""Seconds for an answer."""
CONNECT_TIMEOUT = 0.2
"""Seconds for the connection, which the head's kernel accepts whatever Ray is doing: without one there is nobody to ask,
and a user waits for the worker to go."""
_AT_ONCE = 32
"""How many nodes Ray is asked to drain side by side: the GCS asks each of them before it answers."""

_SERVICE = "/ray.rpc.autoscaler.AutoscalerStateService/"
_PREEMPTION = 2
"""The reason with which running tasks may finish; for the other one, idleness, Ray refuses nodes that do something."""
_DEAD, _DRAINING = 2, 4
_REASON = b"The worker is no longer wanted; its pod will be deleted."


class GrpcDrainClient:
    """A `DrainClient` that opens one connection per call."""

    def __init__(self, *, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout

    async def drain(self, target: GcsTarget, nodes: Sequence[LeavingNode]) -> Mapping[str, DrainState]:
        from grpclib.client import Channel
        from grpclib.exceptions import GRPCError, StreamTerminatedError

        place = f"{target.host}:{target.port}"
        await _reach(target)
        channel = Channel(target.host, target.port, codec=cast("CodecBase", _Bytes()))
        try:
            return await _Conversation(channel, target.token, self._timeout).drain(nodes)
        except TimeoutError as error:
            raise DrainError(f"the GCS at {place} did not answer within {self._timeout:g} s") from error
        except GRPCError as error:
            raise DrainError(f"the GCS at {place} refuses: {error.message or error.status.name}") from error
        except (StreamTerminatedError, OSError, ValueError, OverflowError) as error:
            raise DrainError(f"the GCS at {place} cannot be asked: {error}") from error
        finally:
            channel.close()


async def _reach(target: GcsTarget) -> None:
    place = f"{target.host}:{target.port}"
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, writer = await asyncio.open_connection(target.host, target.port)
    except TimeoutError as error:
        raise DrainError(f"the GCS at {place} cannot be reached within {CONNECT_TIMEOUT:g} s") from error
    except (OSError, OverflowError) as error:  # the second for a port beyond 65535
        raise DrainError(f"the GCS at {place} cannot be asked: {error}") from error
    writer.close()


class _Conversation:
    """What is said on one connection."""

    def __init__(self, channel: Channel, token: str | None, timeout: float) -> None:
        self._channel = channel
        self._timeout = timeout
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self._metadata = {"authorization": f"Bearer {token}"} if token is not None else None

    async def drain(self, nodes: Sequence[LeavingNode]) -> dict[str, DrainState]:
        alive: dict[str, list[RayNode]] = {}
        for each in parse_nodes(await self._call("GetClusterResourceState", b"")):
            if each.status != _DEAD:
                alive.setdefault(each.instance_id or each.ip, []).append(each)
        return dict(await asyncio.gather(*(self._drain(node, alive) for node in nodes)))

    async def _drain(self, node: LeavingNode, alive: Mapping[str, list[RayNode]]) -> tuple[str, DrainState]:
        state: DrainState = "drained"
        for each in alive.get(node.pod) or alive.get(node.ip) or ():
            state = "draining" if each.status == _DRAINING else await self._begin(each, node)
        return node.pod, state

    async def _begin(self, ray_node: RayNode, node: LeavingNode) -> DrainState:
        request = drain_request(ray_node.id, int(node.deadline.timestamp() * 1000))
        async with self._limit:
            try:
                return "draining" if accepted(await self._call("DrainNode", request)) else "refused"
            except TimeoutError:
                return "draining"  # The node itself does not answer the GCS; the next look will tell.

    async def _call(self, method: str, request: bytes) -> bytes:
        from grpclib.client import UnaryUnaryMethod

        call: UnaryUnaryMethod[bytes, bytes] = UnaryUnaryMethod(self._channel, _SERVICE + method, bytes, bytes)
        async with asyncio.timeout(self._timeout):
            return await call(request, metadata=self._metadata)


class _Bytes:
    """grpclib codec: messages are bytes already."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:
        return data


@dataclass(frozen=True, slots=True)
class RayNode:
    """The members of Ray's ``NodeState`` that matter here."""

    id: bytes
    instance_id: str = ""
    """The pod's name, from ``RAY_CLOUD_INSTANCE_ID``."""
    status: int = 0
    ip: str = ""


def drain_request(node_id: bytes, deadline: int) -> bytes:
    """A ``DrainNodeRequest``; *deadline* in milliseconds since the epoch."""
    return (
        _text(1, node_id)
        + _varint(2 << 3)
        + _varint(_PREEMPTION)
        + _text(3, _REASON)
        + _varint(4 << 3)
        + _varint(max(0, deadline))
    )


def accepted(reply: bytes) -> bool:
    """What a ``DrainNodeReply`` says."""
    return any(number == 1 and value == 1 for number, value in _fields(reply))


def parse_nodes(reply: bytes) -> list[RayNode]:
    """The nodes of a ``GetClusterResourceStateReply``, dead ones included."""
    nodes = []
    for number, state in _fields(reply):
        if number == 1 and isinstance(state, bytes):
            nodes += [_node(value) for field, value in _fields(state) if field == 3 and isinstance(value, bytes)]
    return nodes


def _node(message: bytes) -> RayNode:
    found: dict[int, bytes | int] = dict(_fields(message))
    texts = {number: value for number, value in found.items() if isinstance(value, bytes)}
    status = found.get(8, 0)
    return RayNode(
        id=texts.get(1, b""),
        instance_id=texts.get(2, b"").decode(),
        status=status if isinstance(status, int) else 0,
        ip=texts.get(10, b"").decode(),
    )


def _text(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a protobuf message by number: numbers as integers, everything else as bytes. Raises ValueError."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        kind = tag & 7
        if kind == 0:
            number, position = _read_varint(message, position)
            yield tag >> 3, number
            continue
        if kind == 2:
            length, position = _read_varint(message, position)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"the answer is no protobuf message (wire type {kind})")
        if position + length > len(message):
            raise ValueError("the answer is a protobuf message that breaks off")
        yield tag >> 3, message[position : position + length]
        position += length


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(message) or shift > 63:
            raise ValueError("the answer is a protobuf message that breaks off")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
