"""Decides what is in the images: the pause image, Ray's and the operator's, each a stack of layers with a start command.

The operator's dependencies are a layer of their own, so a change of our code rebuilds only the small layer on top."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from devcluster import layers, layout, parts
from devcluster.layers import BASE, Layer
from devcluster.steps import StepFailed, run

DEFAULT_RAY_VERSION = "2.60.0"
REDIS_IMAGE = "docker.io/library/redis:7"
OPERATOR_IMAGE = "docker.io/kuberay/operator:dev"
PAUSE_IMAGE = "localhost/pause:1"
OPERATOR_USER = 65532
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """A stack of layers and how its containers start."""

    name: str
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    folder: str = "/"
    env: dict[str, str] = field(default_factory=dict)


def ray_versions() -> list[str]:
    """The versions of Ray that there are images of; ``KUBERAY_DEV_RAY_VERSION`` (one, or several with commas) changes it."""
    return (os.environ.get("KUBERAY_DEV_RAY_VERSION") or DEFAULT_RAY_VERSION).replace(" ", "").split(",")


def ray_image(version: str, suffix: str = "") -> Image:
    """Ray as `rayproject/ray:<version>`, from Debian and PyPI: bash, wget, python and ray on PATH, user `ray`.

    *suffix* gives the same image another tag, for tests of upgrades."""
    script = f"""
useradd --create-home --uid 1000 --gid users --shell /bin/bash ray
uv venv --quiet --seed --python /usr/bin/python3 /opt/ray
uv pip install --quiet --compile-bytecode --python /opt/ray/bin/python "ray[default,serve]=={version}"
echo "export PATH=/opt/ray/bin:\\$PATH" > /etc/profile.d/ray.sh
"""
    layer = Layer(name=f"ray-{version}", title=f"the Ray {version} image", script=script, below=(BASE,))
    path = f"/opt/ray/bin:{SYSTEM_PATH}"
    env = {"PATH": path, "HOME": "/home/ray", "LANG": "C.UTF-8", "RAY_USAGE_STATS_ENABLED": "0"}
    name = f"docker.io/rayproject/ray:{version}{suffix}"
    return Image(name, (BASE, layer), command=("/bin/bash",), user="1000:100", folder="/home/ray", env=env)


NEXT_RAY = "-next"
"""Tag suffix of the image that tests upgrade to."""


def redis_image() -> Image:
    """Redis as Debian packages it, under the name of the usual image; for fault tolerance of Ray heads."""
    script = """
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends redis-server > /dev/null
rm -rf /usr/sbin/policy-rc.d /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc /usr/share/man
"""
    layer = Layer(name="redis", title="the Redis image", script=script, below=(BASE,))
    command = ("redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "")
    return Image(
        REDIS_IMAGE, (BASE, layer), command=command, user="65534:65534", folder="/tmp", env={"PATH": SYSTEM_PATH}
    )


def distributions() -> list[Path]:
    """The folders of the packages that go into the operator's image: the core and every plugin."""
    plugins = sorted(path.parent for path in (layout.PROJECT / "plugins").glob("*/pyproject.toml"))
    return [layout.PROJECT / "core", *plugins]


def _dependencies_layer() -> Layer:
    locked = _locked_requirements()
    script = f"""
groupadd --gid {OPERATOR_USER} kuberay
useradd --uid {OPERATOR_USER} --gid kuberay --no-create-home --home-dir /tmp --shell /usr/sbin/nologin kuberay
uv venv --quiet --python /usr/bin/python3 /opt/kuberay
uv pip install --quiet --compile-bytecode --no-deps --python /opt/kuberay/bin/python -r /srv/requirements.txt
"""
    return Layer(
        name="operator-dependencies",
        title="what the operator image needs",
        script=script,
        below=(BASE,),
        ingredients=(locked,),
        stood_upon=True,
        files={"requirements.txt": locked},
    )


def _locked_requirements() -> str:
    if not (layout.PROJECT / "uv.lock").exists():
        raise StepFailed("uv.lock is missing, so the operator image has no list of dependencies", advice="run: uv lock")
    names = [word for path in distributions() for word in ("--package", _distribution_name(path))]
    uv = layers.build_uv() / "bin" / "uv"
    argv: list[str | Path] = [
        uv,
        "export",
        "--quiet",
        "--frozen",
        "--no-dev",
        "--no-emit-workspace",
        "--no-hashes",
        "--no-header",
        *names,
    ]
    advice = "is every package of the workspace in uv.lock? run: uv lock"
    exported = run(argv, what="the locked dependencies cannot be read", advice=advice, cwd=layout.PROJECT)
    return "".join(f"{line}\n" for line in exported.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def _distribution_name(folder: Path) -> str:
    for line in (folder / "pyproject.toml").read_text().splitlines():
        if line.startswith("name = "):
            return line.split('"')[1]
    raise StepFailed(f"{folder}/pyproject.toml has no name")


def operator_image() -> Image:
    """The operator with every plugin, as uid 65532, ready for a read-only root filesystem."""
    dependencies = _dependencies_layer()
    wheels = _build_wheels()
    script = """
uv pip install --quiet --compile-bytecode --no-deps --no-index --python /opt/kuberay/bin/python /srv/*.whl
"""
    code = Layer(
        name="operator",
        title="the operator image",
        script=script,
        below=(BASE, dependencies),
        ingredients=(wheels.name,),
        files={wheel.name: wheel for wheel in sorted(wheels.glob("*.whl"))},
    )
    env = {
        "PATH": f"/opt/kuberay/bin:{SYSTEM_PATH}",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    user = f"{OPERATOR_USER}:{OPERATOR_USER}"
    return Image(OPERATOR_IMAGE, (BASE, dependencies, code), ("kuberay", "run"), user=user, env=env)


def operator_dependencies_image() -> Image:
    """What stands below the operator's own layer, so that a node can have it unpacked beforehand."""
    return Image("localhost/operator-dependencies:dev", (BASE, _dependencies_layer()))


def _build_wheels() -> Path:
    """The wheels of the core and the plugins, as they are in the tree now."""
    sources: list[str | Path] = []
    for folder in distributions():
        sources.append(str(folder.relative_to(layout.PROJECT)))
        sources += [
            path for name in ("pyproject.toml", "README.md", "LICENSE", "src") if (path := folder / name).exists()
        ]

    def make(folder: Path, log: Path) -> None:
        uv = layers.build_uv() / "bin" / "uv"
        for source in distributions():
            argv: list[str | Path] = [uv, "build", "--wheel", "--quiet", "--out-dir", folder, source]
            run(argv, what=f"the wheel of {source.name} could not be built", log=log, advice="read the log's end")

    return parts.build_part(parts.Part("wheels", parts.content_hash(sources)), "building our wheels", make)


def pause_image(pause: Path) -> Image:
    layer = Layer(
        name="pause",
        title="the pause image",
        script="cp",
        ingredients=(pause.parent.name,),
        files={"pause": pause},
    )
    return Image(PAUSE_IMAGE, (layer,), entrypoint=("/pause",), user="65535:65535")


def build_image(image: Image) -> Image:
    """Make the layers of an image that are not made yet."""
    for layer in layers.layers_to_build(image.layers):
        if layer.name == BASE.name:
            layers.build_base()
        elif not layer.below:
            layers.build_plain(layer)
        else:
            layers.build_layer(layer)
    return image
