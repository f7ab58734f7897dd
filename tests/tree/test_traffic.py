"""The counting of requests that end-to-end tests and the Serve demo rely on: nothing that went wrong counts as answered."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dev.demo.traffic import Count, Traffic
from dev.demo.upgrade_view import Sender, Shares, View


@contextmanager
def server(*answers: str) -> Iterator[str]:
    """Answers with each of *answers* in turn, then with the last: ``200 body``, ``500 body``, or ``lost``."""
    left = list(answers)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with lock:
                answer = left.pop(0) if len(left) > 1 else left[0]
            if answer == "lost":
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            code, _, body = answer.partition(" ")
            self.send_response(int(code))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{serving.server_port}/"
    finally:
        serving.shutdown()
        serving.server_close()
        thread.join(5)


def asked(url: str, requests: int, again: int = 0) -> Count:
    with Traffic(url, rate=200, again=again) as traffic:
        traffic.wait_for(requests, seconds=10)
        return traffic.stop()


GOOD = '200 {"version": "one", "cluster": "a"}'


@pytest.mark.parametrize(
    ("answers", "again", "failed", "repeated", "error"),
    [
        ((GOOD,), 0, 0, 0, ""),
        ((GOOD, "500 broken", GOOD), 0, 1, 0, "500 broken"),
        ((GOOD, "500 broken", GOOD), 2, 1, 0, "500 broken"),
        ((GOOD, "200 not JSON", GOOD), 0, 1, 0, "JSONDecodeError"),
        ((GOOD, "lost", GOOD), 0, 1, 0, "ServerDisconnectedError"),
        ((GOOD, "lost", GOOD), 2, 0, 1, ""),
    ],
)
def test_what_went_wrong_is_counted(
    answers: tuple[str, ...], again: int, failed: int, repeated: int, error: str
) -> None:
    with server(*answers) as url:
        count = asked(url, 20, again)
    assert count.sent >= 20
    assert (count.failed, count.again) == (failed, repeated)
    assert error in count.first_error
    assert bool(count.first_error) == bool(failed)
    assert count.versions["one"] == count.clusters["a"] == count.ok


def test_nobody_there_is_a_failure() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        count = asked(f"http://127.0.0.1:{taken.getsockname()[1]}/", 3)
    assert count.ok == 0
    assert count.failed >= 3


def test_the_sender_tells_what_its_process_counts() -> None:
    words = [sys.executable, "-m", "dev.demo.traffic"]
    with server(GOOD, "500 broken", GOOD) as url, Sender([*words, url, "--rate", "50"]) as sender:
        deadline = time.monotonic() + 20
        while sender.count().sent < 50:
            assert not sender.ended
            assert time.monotonic() < deadline
            time.sleep(0.1)
        count = sender.stop()
    assert sender.ended
    assert count.failed == 1
    assert count.first_error.startswith("500 broken")
    assert count.versions["one"] == count.ok >= 49


def test_a_row_is_a_time_of_the_same_shares() -> None:
    service = {
        "status": {
            "activeServiceStatus": {"rayClusterName": "old", "targetCapacity": 50},
            "pendingServiceStatus": {"rayClusterName": "new", "targetCapacity": 100},
        }
    }
    backends = [{"name": "old-serve-svc", "weight": 25}, {"name": "new-serve-svc", "weight": 75}]
    route = {"spec": {"rules": [{"backendRefs": backends}]}}
    moved = Shares.read(service, route, "old")
    assert moved == Shares((25, 75), (50, 100))
    view = View(("blue", "green"))
    first = Count(ok=10)
    first.versions["blue"] = 10
    second = Count(ok=29, failed=1)
    second.versions.update({"blue": 15, "green": 14})
    assert view.see(0, Shares(), Count()) is None
    assert view.see(1, Shares(), first) is None
    ended = view.see(2, moved, second)
    assert ended is view.rows[0]
    assert (ended.requests, ended.failed, ended.answered_by("blue"), ended.answered_by("green")) == (30, 1, 15, 14)
    assert (view.rows[1].shares, view.rows[1].requests) == (moved, 0)
    assert view.table().row_count == 2
