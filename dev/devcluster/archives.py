"""Decides how an image is handed to a container runtime: an OCI archive, written as a stream from the cached layers.

Layers are not compressed: they never leave the machine, and unpacking is what a node waits for."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Collection
from typing import IO, Any

from devcluster.images import Image

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"


def image_digest(image: Image) -> str:
    """Digest of the image's manifest: the same image always has the same."""
    return _digest(_manifest(image))


def write_archive(image: Image, output: IO[bytes], without: Collection[str] = ()) -> None:
    """Write the image as an OCI archive, without the layers (by digest) that the reader has. Seeks nowhere."""
    manifest, config = _manifest(image), _config(image)
    entry = {"mediaType": MANIFEST_TYPE, "digest": f"sha256:{_digest(manifest)}", "size": len(manifest)}
    tag = image.name.rpartition(":")[2]
    names = {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": tag}
    index = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry | {"annotations": names}]}
    with tarfile.open(fileobj=output, mode="w|") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add(archive, "index.json", _encode(index))
        _add(archive, f"blobs/sha256/{_digest(manifest)}", manifest)
        _add(archive, f"blobs/sha256/{_digest(config)}", config)
        for layer in image.layers:
            if layer.digest in without:
                continue
            header = tarfile.TarInfo(f"blobs/sha256/{layer.digest}")
            header.size = layer.tar.stat().st_size
            with layer.tar.open("rb") as content:
                archive.addfile(header, content)


def _config(image: Image) -> bytes:
    started = {
        "User": image.user,
        "Env": [f"{key}={value}" for key, value in image.env.items()],
        "Entrypoint": list(image.entrypoint) or None,
        "Cmd": list(image.command) or None,
        "WorkingDir": image.folder,
    }
    return _encode(
        {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {key: value for key, value in started.items() if value},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in image.layers]},
        }
    )


def _manifest(image: Image) -> bytes:
    config = _config(image)
    described = {"mediaType": CONFIG_TYPE, "digest": f"sha256:{_digest(config)}", "size": len(config)}
    stack = [
        {"mediaType": LAYER_TYPE, "digest": f"sha256:{layer.digest}", "size": layer.tar.stat().st_size}
        for layer in image.layers
    ]
    return _encode({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": described, "layers": stack})


def _encode(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)
    header.size = len(content)
    archive.addfile(header, io.BytesIO(content))
