"""Decides how a layer of an image is made: a script in a chroot, where what it writes over the layers below is the layer.

A layer is a part of the cache: its tar, the tar's digest, and its files when other layers stand on it."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devcluster import layout, parts
from devcluster.prerequisites import pip_install
from devcluster.steps import run

MIRROR = os.environ.get("KUBERAY_DEV_DEBIAN_MIRROR", "http://deb.debian.org/debian")
SUITE = "bookworm"
BASE_PACKAGES = "bash,ca-certificates,python3,wget"
UV_REQUIREMENT = "uv>=0.8"
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
NETWORK_ADVICE = "look whether the package registries can be reached, then run it again"

# What of this machine's environment says how the registries are reached, and so holds inside a chroot too.
NETWORK_VARIABLES = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "UV_DEFAULT_INDEX", "UV_INDEX_URL"]


@dataclass(frozen=True)
class Layer:
    """A layer that is to be: the layers below it, and the script that runs as root in a chroot on top of them.

    The script finds the folder of its inputs at /srv and uv at /mnt/bin/uv."""

    name: str
    title: str
    script: str
    below: tuple[Layer, ...] = ()
    ingredients: tuple[str, ...] = ()
    stood_upon: bool = False
    files: Mapping[str, str | Path] = field(default_factory=dict)

    @property
    def part(self) -> parts.Part:
        below = [layer.part.version for layer in self.below]
        return parts.Part(f"layer-{self.name}", parts.content_hash([self.script, MIRROR, *below, *self.ingredients]))

    @property
    def tar(self) -> Path:
        return self.part.folder / "layer.tar"

    @property
    def digest(self) -> str:
        return (self.part.folder / "digest").read_text()


BASE = Layer(
    name="base",
    title=f"Debian {SUITE} for the images",
    script=f"debootstrap {SUITE} {BASE_PACKAGES}",
    stood_upon=True,
)


def build_uv() -> Path:
    """uv, which installs the Python packages of the images; gives the folder that has it in `bin`."""

    def make(folder: Path, log: Path) -> None:
        pip_install(folder, UV_REQUIREMENT, log=log, what="uv could not be fetched from PyPI")

    return parts.build_part(parts.Part("uv", parts.content_hash([UV_REQUIREMENT])), "fetching uv", make)


def build_base() -> None:
    def make(folder: Path, log: Path) -> None:
        files = folder / "fs"
        command: list[str | Path] = [
            "debootstrap",
            "--variant=minbase",
            f"--include={BASE_PACKAGES}",
            SUITE,
            files,
            MIRROR,
        ]
        run(command, what="debootstrap failed", log=log, advice=NETWORK_ADVICE)
        for waste in (
            "var/cache/apt/archives",
            "var/lib/apt/lists",
            "usr/share/doc",
            "usr/share/man",
            "usr/share/locale",
        ):
            for path in (files / waste).iterdir() if (files / waste).is_dir() else []:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        (files / "etc" / "resolv.conf").write_text("")
        _pack(folder, log)

    parts.build_part(BASE.part, f"making {BASE.title}", make)


def build_plain(layer: Layer) -> None:
    """Make a layer that stands on nothing and is only its files."""

    def make(folder: Path, log: Path) -> None:
        (folder / "fs").mkdir()
        _lay_files(layer, folder / "fs")
        _pack(folder, log)

    parts.build_part(layer.part, f"making {layer.title}", make)


def _lay_files(layer: Layer, folder: Path) -> None:
    for name, content in layer.files.items():
        if isinstance(content, Path):
            shutil.copy2(content, folder / name)
        else:
            (folder / name).write_text(content)


def build_layer(layer: Layer) -> None:
    """Make a layer, given that those below it are made."""

    def make(folder: Path, log: Path) -> None:
        inputs = folder / "inputs"
        inputs.mkdir()
        _lay_files(layer, inputs)
        for name in ("fs", "work", "root"):
            (folder / name).mkdir()
        (inputs / ".build").write_text(f"set -e\n{layer.script}\nrm -rf /tmp/* /root/.cache\n")
        (folder / "script").write_text(_entering_script(layer, folder))
        argv: list[str | Path] = ["unshare", "--mount", "--propagation", "private", "sh", "-e", folder / "script"]
        run(argv, what=f"{layer.title} could not be made", log=log, advice=NETWORK_ADVICE)
        _write_whiteouts(folder / "fs")
        _pack(folder, log)
        for name in ("inputs", "work", "root", *([] if layer.stood_upon else ["fs"])):
            shutil.rmtree(folder / name)
        (folder / "script").unlink()

    parts.build_part(layer.part, f"making {layer.title}", make)


def _entering_script(layer: Layer, folder: Path) -> str:
    root = folder / "root"
    lower = ":".join(str(below.part.folder / "fs") for below in reversed(layer.below))
    tools, uv_cache = layout.cache_dir() / "chroot", layout.cache_dir() / "uv"
    (tools / "bin").mkdir(parents=True, exist_ok=True)
    (tools / "cache").mkdir(exist_ok=True)
    uv_cache.mkdir(exist_ok=True)
    passed = {name: os.environ[name] for name in NETWORK_VARIABLES if name in os.environ}
    env = passed | {
        "HOME": "/root",
        "PATH": "/mnt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "SSL_CERT_FILE": CERTIFICATES,
        "UV_CACHE_DIR": "/mnt/cache",
        "UV_LINK_MODE": "copy",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    words = " ".join(f"'{key}={value}'" for key, value in env.items())
    return f"""
mount -t overlay overlay -o 'lowerdir={lower},upperdir={folder}/fs,workdir={folder}/work' '{root}'
mount --bind /etc/resolv.conf '{root}/etc/resolv.conf'
if [ -e {CERTIFICATES} ]; then mount --bind /etc/ssl/certs '{root}/etc/ssl/certs'; fi
mount -t proc proc '{root}/proc'
mount --bind /dev '{root}/dev'
mount --bind '{tools}' '{root}/mnt'
mount --bind '{build_uv()}/bin' '{root}/mnt/bin'
mount --bind '{uv_cache}' '{root}/mnt/cache'
mount --bind '{folder}/inputs' '{root}/srv'
chroot '{root}' env -i {words} sh /srv/.build
"""


def _write_whiteouts(files: Path) -> None:
    """Say in the way of images what overlay says by a device 0/0: this file of a lower layer is gone."""
    for folder, names, plain in os.walk(files):
        for name in [*names, *plain]:
            path = Path(folder) / name
            found = path.lstat()
            if stat.S_ISCHR(found.st_mode) and found.st_rdev == 0:
                path.unlink()
                (path.parent / f".wh.{name}").write_text("")


def _pack(folder: Path, log: Path) -> None:
    """Pack `fs`. Times are kept: Python compares them with what its compiled files say."""
    tar = folder / "layer.tar"
    run(["tar", "--sort=name", "--numeric-owner", "-C", folder / "fs", "-cf", tar, "."], what="tar failed", log=log)
    with tar.open("rb") as content:
        (folder / "digest").write_text(hashlib.file_digest(content, "sha256").hexdigest())


def layers_to_build(wanted: Sequence[Layer]) -> list[Layer]:
    """The layers that are not in the cache, the lower ones first."""
    ordered: list[Layer] = []
    for layer in wanted:
        for candidate in [*layers_to_build(layer.below), layer]:
            if not candidate.part.present and candidate not in ordered:
                ordered.append(candidate)
    return ordered
