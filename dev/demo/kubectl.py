"""How the demo and the end-to-end tests talk to a cluster: kubectl, behind the words that select the cluster.

Errors carry kubectl's own message, which is what the reader needs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


class KubectlError(Exception):
    """kubectl said no; the text is its message."""


@dataclass(frozen=True)
class Kubectl:
    """``words`` come before every command, for example ``("kubectl", "--context", "name")``."""

    words: tuple[str, ...] = ("kubectl",)

    def run(self, *arguments: str, stdin: str | None = None, seconds: float = 120.0) -> str:
        """Standard output of one command. Raises `KubectlError` when it fails or takes longer than *seconds*."""
        command = [*self.words, *arguments]
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False)
        except FileNotFoundError as error:
            raise KubectlError(f"{command[0]} is not installed") from error
        except subprocess.TimeoutExpired as error:
            raise KubectlError(f"kubectl {' '.join(arguments)}: no answer within {seconds:.0f} s") from error
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def try_run(self, *arguments: str) -> str:
        """Standard output, or the error as text: for gathering what may not be there."""
        try:
            return self.run(*arguments, seconds=30)
        except KubectlError as error:
            return str(error)

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """One object, or None when it does not exist."""
        text = self.run("get", kind, name, *_in(namespace), "-o", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else None

    def list(self, kind: str, namespace: str = "", selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind in a namespace, or everywhere; none when the cluster does not know the kind."""
        words = ["get", kind, *(_in(namespace) or ["--all-namespaces"]), "-o", "json"]
        try:
            items = json.loads(self.run(*words, *(["-l", selector] if selector else [])))["items"]
        except KubectlError as error:
            if "the server doesn't have a resource type" in str(error):
                return []
            raise
        return list(items)

    def apply(self, manifests: str, *options: str) -> str:
        return self.run("apply", *options, "-f", "-", stdin=manifests)

    def delete(self, kind: str, name: str, namespace: str = "", *, seconds: float = 120.0) -> None:
        """Delete and wait until it is gone; fine when it never was."""
        words = ["delete", kind, name, *_in(namespace), "--ignore-not-found", f"--timeout={seconds:.0f}s"]
        self.run(*words, seconds=seconds + 10)

    def lines(self, *arguments: str) -> Iterator[str]:
        """Lines of a long-running command as they come; what it says on standard error is among them."""
        command: Sequence[str] = [*self.words, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
            assert child.stdout is not None
            try:
                yield from (line.rstrip("\n") for line in child.stdout)
            finally:
                if child.poll() is None:
                    child.terminate()


def _in(namespace: str) -> list[str]:
    return ["-n", namespace] if namespace else []
