"""How ``serveConfigV2`` is read, what of it is wrong, and what Serve is sent for it.

Source: spec rayservice.md 2.9-2.10. The text is YAML 1.1 as Kubernetes reads it (`kuberay.api.user_yaml`).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import Any

import orjson

from kuberay.api.problems import Problem
from kuberay.api.serve_schema import application_name, schema_problems
from kuberay.api.user_yaml import UserYamlError, load_mapping

PATH = "spec.serveConfigV2"

_MOST_TOLD = 20
"""Problems of one text; a list of applications that are all wrong says nothing more by its length."""


class ServeConfigError(ValueError):
    """The configuration cannot be read; the text is for the user."""


def load_serve_config(text: str) -> dict[str, Any]:
    """The configuration in *text*, in plain JSON values; empty when it is only comments. Raises `ServeConfigError`.

    The caller must not change it: reading takes long, so the last ones are kept.
    """
    config, error = _read(text)
    if error:
        raise ServeConfigError(error)
    return config


@lru_cache(maxsize=256)
def _read(text: str) -> tuple[dict[str, Any], str]:
    """The configuration, or why there is none."""
    try:
        return load_mapping(text) or {}, ""
    except UserYamlError as error:
        where = f"line {error.line}, column {error.column}: " if error.line else ""
        return {}, f"{where}{error.detail}"


@lru_cache(maxsize=256)
def serve_config_problems(text: str) -> tuple[Problem, ...]:
    """Why Serve would refuse *text*, each problem as ``spec.serveConfigV2: applications[1].import_path is missing``.

    What passes may still be refused: the version of Ray that runs has the last word.
    """
    try:
        config = load_serve_config(text)
    except ServeConfigError as error:
        return (Problem(PATH, str(error)),)
    if not config:
        return (Problem(PATH, "it is empty; it must name the applications that Serve is to run"),)
    found = islice(schema_problems(config), _MOST_TOLD)
    return tuple(Problem(PATH, f"{where} {what}".strip()) for where, what in found)


@lru_cache(maxsize=256)
def serve_body(text: str, target_capacity: int | None = None) -> str:
    """The body of the PUT for *text*, as JSON; with *target_capacity*, that in place of what the text says.

    Raises `ServeConfigError` when the text cannot be read.
    """
    config = load_serve_config(text)
    if target_capacity is not None:
        config = {**config, "target_capacity": target_capacity}
    return orjson.dumps(config).decode()


def application_names(text: str) -> tuple[str, ...]:
    """Names of the applications that *text* has Serve run; none when it cannot be read."""
    try:
        applications = load_serve_config(text).get("applications")
    except ServeConfigError:
        return ()
    if not isinstance(applications, list):
        return ()
    return tuple(application_name(each) for each in applications if isinstance(each, dict))
