"""Edits of a RayService, and what ``kuberay diff`` tells about them: for the tests of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from kuberay.cli.main import app
from kuberay_testkit.builders import build_group, build_rayservice
from typer.testing import CliRunner

Manifest = dict[str, Any]
Edit = Callable[[Manifest], None]

GROUPS = "rayClusterConfig.workerGroupSpecs"
IMAGE = f"{GROUPS}[g].template.spec.containers[ray-worker].image"
HEAD_IMAGE = "rayClusterConfig.headGroupSpec.template.spec.containers[ray-head].image"
FROM_FILE = "The file tells nothing of RayClusters: the service is taken to run as the file says."


def service(**spec: Any) -> Manifest:
    return build_rayservice("s", groups=[build_group("g", 1)], **spec)


OLD = service()
OTHER_CONFIG = OLD["spec"]["serveConfigV2"].replace("app:v1", "app:v2")


def edited(*edits: Edit, old: Manifest = OLD, **spec: Any) -> Manifest:
    new = copy.deepcopy(old)
    new["spec"].update(spec)
    for edit in edits:
        edit(new["spec"]["rayClusterConfig"])
    return new


def image(config: Manifest) -> None:
    config["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = "x:y"


def head_image(config: Manifest) -> None:
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = "x:y"


def field(name: str, value: Any) -> Edit:
    """A field of the worker group."""
    return lambda config: config["workerGroupSpecs"][0].__setitem__(name, value)


def append(config: Manifest) -> None:
    config["workerGroupSpecs"].append(build_group("more", 2))


def tolerate(config: Manifest) -> None:
    config["workerGroupSpecs"][0]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]


def annotated(name: str, value: str, *edits: Edit, **spec: Any) -> Manifest:
    new = edited(*edits, **spec)
    new["metadata"]["annotations"] = {f"ray.io/{name}": value}
    return new


def answer(files: list[str]) -> Manifest:
    text, result = CliRunner().invoke(app, files), CliRunner().invoke(app, [*files, "-o", "json"])
    assert result.exit_code == text.exit_code, result.output
    (told,) = json.loads(result.stdout)
    letters = {told["servingCluster"]: "A", **dict.fromkeys(told["newClusters"], "B")}

    def lettered(words: str) -> str:
        for name, letter in letters.items():
            words = words.replace(name, letter) if name else words
        return words

    (told,) = json.loads(lettered(result.stdout))
    return {**told, "text": lettered(text.stdout), "code": result.exit_code}


def sentences(told: Manifest) -> dict[str, str]:
    return {change["field"].removeprefix("spec."): change["sentence"] for change in told["changes"]}


def effects(told: Manifest) -> dict[str, str]:
    return {change["field"].removeprefix("spec."): change["effect"] for change in told["changes"]}
