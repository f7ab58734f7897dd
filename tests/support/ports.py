"""Ports of this machine that nobody listens on.

Another process may take one before the test does; none of ours asks for ports in between.
"""

from __future__ import annotations

import socket


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
