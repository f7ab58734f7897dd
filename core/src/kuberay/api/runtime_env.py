"""How ``spec.runtimeEnvYAML`` is read: see `kuberay.api.user_yaml`.

Source: spec rayjob.md 3.3 and 6.2 (S25). What cannot be read is a `RuntimeEnvError`, however odd it is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kuberay.api.user_yaml import UserYamlError, load_mapping


class RuntimeEnvError(ValueError):
    """The runtime environment cannot be read; the text is for the user."""


def load_runtime_env(text: str) -> dict[str, Any] | None:
    """The runtime environment in *text*, in plain JSON values; None when it is only comments. Raises `RuntimeEnvError`."""
    try:
        return load_mapping(text)
    except UserYamlError as error:
        raise RuntimeEnvError(str(error)) from error


@lru_cache(maxsize=256)
def runtime_env_error(text: str) -> str:
    """Why *text* is no runtime environment; empty when it is one."""
    try:
        load_runtime_env(text)
    except RuntimeEnvError as error:
        return str(error)
    return ""
