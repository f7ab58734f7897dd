"""What a listen address says: host and port, or that there is no listener; and whether only this machine can reach it."""

from __future__ import annotations

import ipaddress


def parse_address(address: str) -> tuple[str | None, int] | None:
    """``:8080``, ``127.0.0.1:0`` or ``0`` (None: off). Raises ValueError with one sentence."""
    if address in ("0", ""):
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not a listen address; write host:port, :port, or 0 for none")
    return host.strip("[]") or None, int(port)


def check_loopback(address: str) -> None:
    """Raises ValueError with one sentence unless *address* is one of the loopback interface, or none at all."""
    where = parse_address(address)
    if where is None or where[0] == "localhost":
        return
    try:
        inside = where[0] is not None and ipaddress.ip_address(where[0]).is_loopback
    except ValueError:
        inside = False
    if not inside:
        raise ValueError(
            f"{address!r} could be reached from outside the pod; write 127.0.0.1:{where[1]} and use kubectl port-forward"
        )
