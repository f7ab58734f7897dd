"""Decides whether a part must be built: its folder in the cache is named by the hash of all that it is made from.

A part appears in the cache by one rename, so an interrupted build leaves nothing half done behind."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devcluster import layout
from devcluster.steps import say, step

KEEP_VERSIONS = 2
KEEP_SECONDS = 3600.0


def content_hash(inputs: Sequence[str | Path]) -> str:
    """Hash of texts, files and whole folders (names and contents; caches of Python are not content)."""
    digest = hashlib.sha256()
    for item in inputs:
        if isinstance(item, str):
            digest.update(b"text\0" + item.encode() + b"\0")
            continue
        for path in [item] if item.is_file() else sorted(p for p in item.rglob("*") if p.is_file()):
            relative = path.relative_to(item.parent)
            if "__pycache__" in relative.parts:
                continue
            mode = b"x" if os.access(path, os.X_OK) else b"-"
            digest.update(b"file\0" + str(relative).encode() + b"\0" + mode + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Part:
    """Something that is built once from its inputs: a binary, a layer of an image, an image."""

    name: str
    version: str

    @property
    def folder(self) -> Path:
        return layout.cache_dir() / "parts" / f"{self.name}-{self.version}"

    @property
    def present(self) -> bool:
        return self.folder.is_dir()

    @property
    def log(self) -> Path:
        return layout.cache_dir() / "log" / f"{self.name}.log"


def build_part(part: Part, title: str, make: Callable[[Path, Path], None]) -> Path:
    """Give the part's folder, building it by ``make(folder, log)`` when it is not there yet."""
    if part.present:
        os.utime(part.folder)
        return part.folder
    with _only_one(part.name):
        if part.present:
            return part.folder
        part.log.parent.mkdir(parents=True, exist_ok=True)
        part.log.unlink(missing_ok=True)
        part.folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{part.name}-", dir=part.folder.parent))
        try:
            with step(title, log=part.log):
                make(scratch, part.log)
            scratch.chmod(0o755)
            scratch.rename(part.folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        _forget_old(part)
    return part.folder


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    locks = layout.cache_dir() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"  waiting: someone else is building {name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget_old(part: Part) -> None:
    """Keep the newest versions of a part, and what was used lately and may be in use now."""
    versions = [
        path
        for path in part.folder.parent.glob(f"{part.name}-*")
        if len(path.name) == len(part.name) + 1 + len(part.version)
    ]
    versions.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in versions[KEEP_VERSIONS:]:
        if time.time() - path.stat().st_mtime > KEEP_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
