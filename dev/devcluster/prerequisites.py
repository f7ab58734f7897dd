"""Decides whether this machine can build and run the cluster: root, Debian packages, Go, kubectl.

Missing Debian packages are installed; anything else that is missing is named in one line."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from devcluster import layout
from devcluster.steps import StepFailed, run, step

# A file or command that shows that a package is there, so that a prepared machine needs no apt at all.
CONTROL_PLANE_PACKAGES = {"iproute2": "ip", "util-linux": "nsenter"}
NODE_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/bridge",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ipset": "ipset",
    "socat": "socat",
    "mount": "mount",
}
MINIMUM_GO = (1, 24)


def require_root() -> None:
    if os.geteuid() != 0:
        raise StepFailed(
            "the development cluster needs root: it makes network namespaces and mounts",
            advice="run it again with sudo",
        )


def install_debian_packages(*, node: bool) -> None:
    """Install what is missing of the Debian packages, and say so in one line when that is impossible."""
    wanted = CONTROL_PLANE_PACKAGES | (NODE_PACKAGES if node else {})
    missing = sorted(package for package, proof in wanted.items() if not _found(proof))
    if _python_with_pip() is None:
        missing.append("python3-pip")
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise StepFailed(
            f"missing Debian packages: {' '.join(missing)}", advice="install them with your package manager"
        )
    log = layout.cache_dir() / "log" / "apt.log"
    log.unlink(missing_ok=True)
    advice = f"install them by hand: apt-get install {' '.join(missing)}"
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    with step(f"installing Debian packages: {' '.join(missing)}", log=log):
        # A broken third-party source must not stop us: the packages come from Debian's own.
        subprocess.run(["apt-get", "update", "-q"], env=env, capture_output=True, check=False)
        run(
            ["apt-get", "install", "-qq", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", *missing],
            what="apt-get could not install missing Debian packages",
            log=log,
            advice=advice,
            env=env,
        )


def _found(proof: str) -> bool:
    return Path(proof).exists() if proof.startswith("/") else find_command(proof) is not None


def find_command(name: str) -> str | None:
    """Where a command is, the administrator's folders included, which are not on every user's PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")


def pip_install(target: Path, requirement: str, *, log: Path, what: str) -> None:
    """Install a package from PyPI into a folder of its own."""
    python = _python_with_pip()
    if python is None:
        raise StepFailed(f"{what}: pip is not installed", advice="apt-get install python3-pip")
    argv = [python, "-m", "pip", "install", "-q", "--target", str(target), requirement]
    run(argv, what=what, log=log, advice="look whether PyPI can be reached, then run it again")


def _python_with_pip() -> str | None:
    for python in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
                return python
    return None


@functools.cache
def go_version() -> str:
    """The Go that would build, as `go1.26.1`."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    wanted = ".".join(map(str, MINIMUM_GO))
    if go is None:
        raise StepFailed(
            f"Go {wanted} or newer is not on PATH", advice="install Go from go.dev/dl or your distribution"
        )
    env = os.environ | {"GOTOOLCHAIN": "local"}
    text = run([go, "env", "GOVERSION"], what="go does not run", env=env, cwd=Path("/")).strip()
    found = re.match(r"go(\d+)\.(\d+)", text)
    if not found or tuple(map(int, found.groups())) < MINIMUM_GO:
        raise StepFailed(f"Go {wanted} or newer is needed, this is {text}", advice="install a newer Go")
    return text


def go_command() -> str:
    return shutil.which("go") or "/usr/local/go/bin/go"
