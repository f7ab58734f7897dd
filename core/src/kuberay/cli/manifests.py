"""The Ray objects in a file, as ``kuberay render`` and ``kuberay diff`` read them, with the schemas they must fit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import typer
import yaml

from kuberay.api.gates import CRON_JOB
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE

Manifest = dict[str, Any]

KINDS = {kind.kind: kind for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)}
_KNOWN = "RayClusters, RayJobs, RayServices and RayCronJobs"
_GROUP = "ray.io/"
_VERSIONS = ("ray.io/v1", "ray.io/v1alpha1")
CRON_JOB_OFF = f"RayCronJobs are served only with the feature gate {CRON_JOB}: --feature-gates={CRON_JOB}=true"


class UnreadableError(Exception):
    """The text is one sentence for the user."""


def place_of(document: Manifest, namespace: str) -> tuple[str, str]:
    """Namespace and name."""
    metadata = document["metadata"]
    return str(metadata.get("namespace") or namespace), str(metadata["name"])


def documents(file: str, *, told: bool = False) -> list[Manifest]:
    """The Ray objects of a file; with *told*, a word on standard error about those that are left out."""
    name = "standard input" if file == "-" else file
    try:
        documents = list(yaml.safe_load_all(sys.stdin.read() if file == "-" else Path(file).read_text()))
    except OSError as error:
        raise UnreadableError(f"Cannot read {file}: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{name} is not YAML: {' '.join(str(error).split())}") from error
    found = []
    for document in _flat(documents):
        kind, metadata = document.get("kind"), document.get("metadata")
        called = metadata.get("name") if isinstance(metadata, dict) else None
        version = str(document.get("apiVersion") or "")
        if kind not in KINDS:
            if told and version.startswith(_GROUP):
                typer.echo(f"kuberay: {kind} {called} is left out: kuberay knows {_KNOWN}.", err=True)
            continue
        if not called:
            raise UnreadableError(f"{name}: a {kind} has no metadata.name.")
        wrong = (
            f"apiVersion is {version}: write ray.io/v1."
            if version and version not in _VERSIONS
            else _not_text(metadata)
        )
        if wrong:
            raise UnreadableError(f"{name}: {kind} {called}: {wrong}")
        found.append(document)
    if not found:
        raise UnreadableError(f"There is no RayCluster, RayJob, RayService or RayCronJob in {name}.")
    return found


def _not_text(metadata: Any) -> str:
    """What of labels and annotations the API server would not even read; empty when they are texts."""
    for part in ("labels", "annotations"):
        values = metadata.get(part)
        if values is not None and not isinstance(values, dict):
            return f"metadata.{part} must be a mapping."
        for key, value in (values or {}).items():
            if not isinstance(value, str | None):
                return f"metadata.{part}[{key}] must be a string, not {value!r}: write it in quotes."
    return ""


def _flat(documents: Sequence[Any]) -> list[Manifest]:
    """The documents, with lists (``kind: List``) taken apart."""
    found = []
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            found += _flat(document["items"])
        elif isinstance(document, dict):
            found.append(document)
    return found


@cache
def spec_schema(kind: str) -> Manifest:
    """The schema of the kind's spec, as in its CRD. The caller must not change it."""
    from kuberay.api.cluster import RayClusterSpec
    from kuberay.api.crd import load_kubernetes_schemas, object_schema
    from kuberay.api.cronjob import RayCronJobSpec
    from kuberay.api.job import RayJobSpec
    from kuberay.api.service import RayServiceSpec

    models: Mapping[str, Any] = {
        "RayCluster": RayClusterSpec,
        "RayJob": RayJobSpec,
        "RayService": RayServiceSpec,
        "RayCronJob": RayCronJobSpec,
    }
    return object_schema(models[kind], load_kubernetes_schemas())
