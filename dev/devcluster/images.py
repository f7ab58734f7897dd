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


IMAGE = layout.PROJECT / "image"
"""The scripts that the operator's image is made by, here and in its Dockerfile."""


def _scripts(*names: str) -> dict[str, str | Path]:
    return {name: (IMAGE / name).read_text() for name in names}


def _dependencies_layer() -> Layer:
    scripts = _scripts("user.sh", "dependencies.sh")
    locked = _requirements()
    return Layer(
        name="operator-dependencies",
        title="what the operator image needs",
        script="sh /srv/user.sh\nsh /srv/dependencies.sh /srv",
        below=(BASE,),
        ingredients=(locked, *map(str, scripts.values())),
        stood_upon=True,
        files={"requirements.txt": locked, **scripts},
    )


def _requirements(form: str = "requirements.txt") -> str:
    """What the image needs beside our own packages, in a format of ``uv export``."""
    if not (layout.PROJECT / "uv.lock").exists():
        raise StepFailed("uv.lock is missing, so the operator image has no list of dependencies", advice="run: uv lock")
    env = os.environ | {"UV": str(layers.build_uv() / "bin" / "uv"), "FORMAT": form}
    advice = "is every package of the workspace in uv.lock? run: uv lock"
    argv: list[str | Path] = ["sh", IMAGE / "requirements.sh"]
    return run(argv, what="the locked dependencies cannot be read", advice=advice, cwd=layout.PROJECT, env=env)


def operator_image() -> Image:
    """The operator with every plugin, as uid 65532, ready for a read-only root filesystem."""
    dependencies = _dependencies_layer()
    wheels = _build_wheels()
    scripts = _scripts("operator.sh", "sbom.py")
    code = Layer(
        name="operator",
        title="the operator image",
        script="sh /srv/operator.sh /srv",
        below=(BASE, dependencies),
        ingredients=(wheels.name, *map(str, scripts.values())),
        files={
            "sbom.cdx.json": _requirements("cyclonedx1.5"),
            **scripts,
            **{wheel.name: wheel for wheel in sorted(wheels.glob("*.whl"))},
        },
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
    sources: list[str | Path] = [IMAGE / "wheels.sh"]
    for folder in distributions():
        sources.append(str(folder.relative_to(layout.PROJECT)))
        sources += [
            path for name in ("pyproject.toml", "README.md", "LICENSE", "src") if (path := folder / name).exists()
        ]

    def make(folder: Path, log: Path) -> None:
        env = os.environ | {"UV": str(layers.build_uv() / "bin" / "uv")}
        argv: list[str | Path] = ["sh", IMAGE / "wheels.sh", folder]
        run(
            argv,
            what="our wheels could not be built",
            log=log,
            advice="read the log's end",
            cwd=layout.PROJECT,
            env=env,
        )

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
