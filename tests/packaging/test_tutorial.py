"""``docs/plugins/write-a-scheduler.md`` does what it says: its files are written and its commands run, in the order of the page.

``pip`` is played by uv, and the port is a free one; all else is as written, in an environment that has only pytest-xdist.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from packages import CORE, ROOT, Environment, uv, uv_command
from ports import free_port

PAGE = ROOT / "docs" / "plugins" / "write-a-scheduler.md"
PORT = "16443"
SECONDS = 90

PIP = """\
#!/bin/sh
case "$1" in
  wheel) exec {uv} build --quiet --wheel --out-dir dist . ;;
  *) exec {uv} pip "$@" ;;
esac
"""


@dataclass(frozen=True)
class Block:
    """One fenced block of the page."""

    language: str
    text: str
    line: int

    @property
    def stays(self) -> bool:
        """Whether it starts a program that goes on."""
        return self.text.rstrip().endswith("&")

    @property
    def only_looks(self) -> bool:
        """Whether it can be run again until it shows what is expected."""
        return all(line.startswith(("kuberay why", "curl")) for line in self.text.splitlines())


def blocks() -> list[Block]:
    text = PAGE.read_text()
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        for found in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


class Reader:
    """Somebody who does what the page says, in a shell that stands where the last command left it."""

    def __init__(self, folder: Path, wheels: Path) -> None:
        self.at = folder / "work"
        self.at.mkdir()
        self.environment = Environment(folder / "venv")
        self.environment.install([], "pytest-xdist")
        shims = folder / "shims"
        shims.mkdir()
        (shims / "pip").write_text(PIP.format(uv=shlex.quote(uv_command())))
        (shims / "pip").chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_", "http"))}
        self.variables = self.environment.variables(
            **kept,
            UV_CACHE_DIR=uv("cache", "dir").strip(),
            UV_FIND_LINKS=str(wheels),
            VIRTUAL_ENV=str(self.environment.folder),
            PYTEST_ADDOPTS="-n 2 --dist worksteal -p no:cacheprovider",
        )
        self.variables["PATH"] = f"{shims}:{self.variables['PATH']}"
        self.place = folder / "place"
        self.groups: list[int] = []
        self.outputs = 0
        self.folder = folder
        self.port = str(free_port())

    def write(self, block: Block) -> None:
        first = re.match(r"# (\S+)\n", block.text)
        assert first is not None, f"line {block.line}: the block does not say which file it is"
        target = self.at / first[1]
        assert target.exists(), f"line {block.line}: {first[1]} is no file of the package"
        target.write_text(block.text.partition("\n")[2])

    def run(self, block: Block) -> Path:
        """Returns the file that has, or will have, what it prints."""
        self.outputs += 1
        output = self.folder / f"output-{self.outputs}"
        text = block.text.replace(PORT, self.port)
        script = f"set -e\ncd {shlex.quote(str(self.at))}\n{text}\npwd > {shlex.quote(str(self.place))}\n"
        with output.open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", script], env=self.variables, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.groups.append(process.pid)
        code = process.wait(300)
        assert code == 0, f"line {block.line}: exit code {code} of\n{text}\n{output.read_text()[-4000:]}"
        self.at = Path(self.place.read_text().strip())
        return output

    def expect(self, wanted: Block, block: Block, output: Path) -> None:
        """Every line of *wanted* is in what *block* printed, at once or soon where that can be."""
        deadline = time.monotonic() + SECONDS
        while True:
            shown = output.read_text()
            lines = [line.strip().replace(PORT, self.port) for line in wanted.text.splitlines()]
            missing = [line for line in lines if line not in shown]
            if not missing:
                return
            late = time.monotonic() >= deadline
            if late or not (block.stays or block.only_looks):
                pytest.fail(f"line {wanted.line}: {missing} is not in\n{shown[-4000:]}\n{self._told()}")
            time.sleep(0.3)
            if block.only_looks:
                output = self.run(block)

    def _told(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-500:]}" for path in sorted(self.folder.glob("output-*")))

    def leave(self) -> None:
        """End what still runs."""
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGTERM)
            except ProcessLookupError:
                continue


@pytest.fixture
def reader(wheels: dict[Path, Path], tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path, wheels[CORE].parent)
    yield reader
    reader.leave()


def test_the_page_can_be_followed(reader: Reader) -> None:
    ran: tuple[Block, Path] | None = None
    for block in blocks():
        match block.language:
            case "bash":
                ran = (block, reader.run(block))
            case "python" | "yaml":
                reader.write(block)
            case "text":
                assert ran is not None
                reader.expect(block, *ran)
            case "dockerfile":
                assert list(reader.at.glob("dist/*.whl")), "there is no wheel to copy"
            case other:
                pytest.fail(f"line {block.line}: nobody knows what to do with a block of {other!r}")


def test_the_page_has_what_it_promises() -> None:
    """Else the test above could pass on a page without commands."""
    found = [block.language for block in blocks()]
    assert found.count("bash") >= 7
    assert found.count("text") >= 5
    assert found.count("python") >= 2
    minutes = sum(map(int, re.findall(r"^## .*\((\d+) minutes\)$", PAGE.read_text(), re.MULTILINE)))
    assert 0 < minutes <= 15
