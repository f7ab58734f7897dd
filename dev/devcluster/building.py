"""Decides what `build` makes and in which order: compiling in one line, fetching from the network in another.

Compiling needs the processors and the images need the network, so the two lines run side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from devcluster import binaries, containerd, coscheduling, images, prerequisites
from devcluster.images import Image
from devcluster.steps import StepFailed, say


@dataclass(frozen=True)
class Built:
    """All that a cluster with a real node is made of."""

    kubelite: Path
    coredns: Path
    images: tuple[Image, ...]
    image_store: Path


def build_control_plane() -> Path:
    """What a cluster without nodes needs: kubelite and kubectl. Gives the path of kubelite."""
    prerequisites.install_debian_packages(node=False)
    binaries.build_kubectl()
    return binaries.build_kubelite()


def build_everything() -> Built:
    """What a cluster with a real node needs."""
    prerequisites.install_debian_packages(node=True)
    binaries.build_kubectl()
    made: dict[str, Image] = {}
    rays: list[Image] = []
    paths: dict[str, Path] = {}

    def compile_all() -> None:
        made["pause"] = images.build_image(images.pause_image(binaries.build_pause()))
        paths["kubelite"] = binaries.build_kubelite()
        paths["coredns"] = binaries.build_coredns()
        coscheduling.build_kind()

    def fetch_all() -> None:
        rays.extend(images.build_image(images.ray_image(version)) for version in images.ray_versions())
        rays.append(images.ray_image(images.ray_versions()[0], images.NEXT_RAY))
        made["redis"] = images.build_image(images.redis_image())
        made["below"] = images.build_image(images.operator_dependencies_image())
        made["operator"] = images.build_image(images.operator_image())

    _side_by_side(compile_all, fetch_all)
    store = containerd.build_store([made["pause"], *rays, made["redis"], made["below"]])
    return Built(paths["kubelite"], paths["coredns"], (made["pause"], *rays, made["redis"], made["operator"]), store)


def _side_by_side(*lines: Callable[[], None]) -> None:
    """Run all to their end; the first failure is raised when the others, whose work is kept, have ended too."""
    with ThreadPoolExecutor(len(lines)) as pool:
        running = [pool.submit(line) for line in lines]
        failures = [failure for one in running if (failure := one.exception()) is not None]
    for failure in failures[1:]:
        if isinstance(failure, StepFailed):
            say(failure.describe())
    if failures:
        raise failures[0]
