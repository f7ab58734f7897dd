"""Decides how Prometheus and promtool are got: from Debian's package, unpacked into the cache and never installed.

Only tests of rules and dashboards need them. Installed, the package would start a server on the machine."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

from devcluster import parts
from devcluster.steps import StepFailed, run

PACKAGE = "prometheus"
COMMANDS = ("prometheus", "promtool")


def prometheus_part() -> parts.Part:
    return parts.Part(PACKAGE, parts.content_hash([PACKAGE, platform.machine()]))


def build_prometheus() -> Path:
    """Fetch it unless it is in the cache; gives the folder with both commands."""

    def make(folder: Path, log: Path) -> None:
        if not shutil.which("apt-get"):
            _use_installed(folder)
            return
        # A broken third-party source must not stop us: the package comes from Debian's own.
        subprocess.run(["apt-get", "update", "-q"], capture_output=True, check=False)
        advice = "look whether Debian's mirror can be reached, then run it again"
        run(
            ["apt-get", "download", "-q", PACKAGE],
            what="apt-get could not fetch it",
            log=log,
            advice=advice,
            cwd=folder,
        )
        (archive,) = folder.glob("*.deb")
        unpacked = folder / "unpacked"
        run(["dpkg-deb", "-x", archive, unpacked], what="the package could not be unpacked", log=log)
        for command in COMMANDS:
            shutil.move(unpacked / "usr" / "bin" / command, folder / command)
        shutil.rmtree(unpacked)
        archive.unlink()

    return parts.build_part(prometheus_part(), "fetching Prometheus", make)


def _use_installed(folder: Path) -> None:
    """Where there is no apt: what is on PATH."""
    for command in COMMANDS:
        found = shutil.which(command)
        if found is None:
            raise StepFailed(f"{command} is not on PATH, and there is no apt to fetch it", advice="install Prometheus")
        (folder / command).symlink_to(found)
