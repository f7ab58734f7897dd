"""What the Ray container of a pod runs: the ``ray start`` line and how it joins the user's own command.

Source: spec raycluster.md 3.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.names import HEAD, WORKER
from kuberay.plan.build.shell import shell

_ALWAYS_WITH_VALUE = frozenset({"log-color", "include-dashboard", "include-log-monitor"})
_ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; "


def ray_start(node_type: str, params: Mapping[str, str]) -> str:
    """The ``ray start`` line; empty when *node_type* is neither head nor worker."""
    if node_type == HEAD:
        line = "ray start --head "
    elif node_type == WORKER:
        line = "ray start "
    else:
        return ""
    return line + "".join(_flag(key, params[key]) for key in sorted(params))


def _flag(key: str, value: str) -> str:
    if key in _ALWAYS_WITH_VALUE:
        return f" --{key}={value} "
    lowered = value.lower()
    if lowered == "true":
        return f" --{key} "
    if lowered == "false":
        return ""
    return f" --{key}={value} "


def set_command(container: dict[str, Any], start: str, *, overwrite: bool, login: bool) -> None:
    """Make *container* run *start*, after the user's own command when there is one.

    With *overwrite*, or when the user already calls ``ray start``, command and arguments stay as they are.
    """
    own = "".join(f" {part} " for part in [*(container.get("command") or ()), *(container.get("args") or ())])
    if overwrite or "ray start" in own:
        return
    container["command"] = shell(login=login)
    container["args"] = [(f"{own} && " if own else "") + _ULIMIT + start]
