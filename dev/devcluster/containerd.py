"""Decides how images get into containerd: prepared once in an image store that each node starts from, the rest by import.

A node's copy of the store is hard links, so a cluster with a node starts in seconds; nothing in it is changed in place."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO

from devcluster import archives, parts
from devcluster.images import Image
from devcluster.steps import StepFailed, run, say

NAMESPACE = "k8s.io"


def environment() -> dict[str, str]:
    """containerd finds runc, and the network plugins iptables, in the administrator's folders."""
    return dict(os.environ) | {"PATH": os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"}


def config(folder: Path, socket: Path, cri: str) -> str:
    """containerd's configuration with everything below ``folder``; ``cri`` is the part about Kubernetes."""
    return f"""version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"{"" if cri else ', "io.containerd.grpc.v1.cri"'}]
[grpc]
address = "{socket}"
{cri}"""


def answers(socket: Path) -> bool:
    return _ctr(socket, "version").returncode == 0


def build_store(images: Sequence[Image]) -> Path:
    """A containerd root that has these images unpacked; gives its folder."""
    version = parts.content_hash([archives.image_digest(image) for image in images])

    def make(folder: Path, log: Path) -> None:
        socket = folder / "sock"
        (folder / "config.toml").write_text(config(folder, socket, cri=""))
        argv = ["unshare", "--mount", "--propagation", "private", "containerd", "-c", str(folder / "config.toml")]
        with log.open("ab") as output:
            daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment())
        try:
            deadline = time.monotonic() + 20
            while not answers(socket):
                if daemon.poll() is not None or time.monotonic() > deadline:
                    raise StepFailed("containerd did not start", log=log, advice="is overlayfs there? see the log")
                time.sleep(0.1)
            for image in images:
                import_image(socket, image, log)
        finally:
            daemon.terminate()
            daemon.wait()
        shutil.rmtree(folder / "state", ignore_errors=True)

    return parts.build_part(parts.Part("image-store", version), "unpacking the images for the node", make)


def plant_store(store: Path, folder: Path) -> None:
    """Start a node's containerd root from the store: links where the file system allows, copies elsewhere."""
    root = folder / "root"
    if root.exists():
        return
    folder.mkdir(exist_ok=True)
    linked = subprocess.run(["cp", "-al", str(store / "root"), str(root)], capture_output=True, check=False)
    if linked.returncode:
        say("  the cache is on another file system than the cluster's state: copying the images")
        shutil.rmtree(root, ignore_errors=True)
        run(["cp", "-a", store / "root", root], what="the images could not be copied")
        return
    for database in root.rglob("*.db"):  # the only files that containerd writes in place
        content = database.read_bytes()
        database.unlink()
        database.write_bytes(content)


def image_present(socket: Path, image: Image) -> bool:
    words = [line.split() for line in _ctr(socket, "images", "ls").stdout.splitlines()]
    return any(row[0] == image.name and f"sha256:{archives.image_digest(image)}" in row for row in words if row)


def import_image(socket: Path, image: Image, log: Path) -> None:
    """Import an image, sending only the layers that are not there yet."""
    there = {line.strip().removeprefix("sha256:") for line in _ctr(socket, "content", "ls", "-q").stdout.splitlines()}
    _import(socket, lambda output: archives.write_archive(image, output, there), image.name, log)


def import_file(socket: Path, tar: Path, log: Path) -> None:
    """Import an image from an OCI archive or from what `docker save` writes."""

    def copy(output: IO[bytes]) -> None:
        with tar.open("rb") as content:
            shutil.copyfileobj(content, output, 1 << 20)

    _import(socket, copy, str(tar), log)


def _import(socket: Path, write: Callable[[IO[bytes]], None], what: str, log: Path) -> None:
    with log.open("ab") as output:
        argv = ["ctr", "-a", str(socket), "-n", NAMESPACE, "images", "import", "-"]
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment())
        assert child.stdin is not None
        try:
            write(child.stdin)
            child.stdin.close()
        except BrokenPipeError:
            child.stdin = None
        if child.wait():
            raise StepFailed(f"{what} could not be imported", log=log, advice="is it an OCI or docker archive?")


def _ctr(socket: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv: Iterable[str] = ["ctr", "-a", str(socket), "-n", NAMESPACE, *words]
    return subprocess.run(list(argv), capture_output=True, text=True, check=False, env=environment())
