"""The CRDs and the chart fit where they go: annotations, requests and the Secret that holds a release."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import yaml
from helm import OPERATOR, Helm

ROOT = OPERATOR.parents[1]
ANNOTATIONS = 256 * 1024
"""All annotations of an object together, in bytes; a plain ``kubectl apply`` keeps the whole object in one."""
REQUEST = 3 * 512 * 1024
"""What etcd takes at once, 1.5 MiB."""
SECRET = 1024 * 1024


def crds(folder: str) -> dict[str, int]:
    """Bytes of each CRD as it is sent, by file name."""
    files = sorted((ROOT / "config" / "crd" / folder).glob("*.yaml"))
    return {f.name: len(json.dumps(yaml.load(f.read_text(), Loader=yaml.CSafeLoader))) for f in files}


def test_slim_crds_can_be_applied_from_the_client_and_full_ones_by_the_server() -> None:
    """HE-03."""
    slim, full = crds("slim"), crds("full")
    assert slim.keys() == full.keys()
    assert len(slim) == 4
    assert {name: size for name, size in slim.items() if size > ANNOTATIONS // 2} == {}
    assert {name: size for name, size in full.items() if size > REQUEST} == {}


def test_the_chart_installs_the_full_crds() -> None:
    files = sorted(path.name for path in (OPERATOR / "crds").iterdir())
    assert files == sorted(crds("full"))
    assert (OPERATOR / "crds").resolve() == ROOT / "config" / "crd" / "full"


def test_a_release_fits_into_its_secret() -> None:
    """HE-03: Helm keeps the chart with every release, packed and as base64."""
    packed = sum(_packed(path) for path in OPERATOR.rglob("*") if path.is_file())
    packed += sum(_packed(path) for path in (OPERATOR / "crds").iterdir())
    assert packed < SECRET // 2


def _packed(path: Path) -> int:
    # Twice base64: Helm's own, and inside it that of the chart's files.
    return len(base64.b64encode(gzip.compress(base64.b64encode(path.read_bytes()))))


def test_helm_shows_all_crds_as_documents_of_their_own(helm: Helm) -> None:
    """``helm show crds | kubectl apply``: Helm itself puts nothing between the files."""
    shown = yaml.load_all(helm.run("show", "crds", OPERATOR), Loader=yaml.CSafeLoader)
    names = sorted(crd["metadata"]["name"] for crd in shown if crd)
    assert names == ["rayclusters.ray.io", "raycronjobs.ray.io", "rayjobs.ray.io", "rayservices.ray.io"]
