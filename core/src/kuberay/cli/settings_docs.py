"""Renders ``docs/settings.md`` from the settings model, the environment model and the flags of ``kuberay run``.

``python -m kuberay.cli.settings_docs`` writes the page to standard output; a test compares it with the file.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from typer.models import OptionInfo

from kuberay.cli import run as run_module
from kuberay.operator.environment import Environment
from kuberay.operator.reload_rules import RELOADED
from kuberay.operator.settings import API_VERSION, FLAGS_KEPT_WITH_FILE, KIND, PluginSettings, Settings

_INTRODUCTION = f"""\
# Settings

<!-- Written by `python -m kuberay.cli.settings_docs`. Change the docstrings, not this page. -->

The operator, `kuberay run`, is told what to do by flags or by a configuration file, and by environment variables.
Names and meanings are KubeRay's, so a deployment written for it works unchanged.

- Flags have one or two dashes: `--name=value` or `--name value`; booleans bare or with `=true` or `=false`.
- With `--config FILE` the file decides, and of the flags below only {{kept}} still count. The file is YAML and must
  say `apiVersion: {API_VERSION}` and `kind: {KIND}`. Unknown keys are ignored, wrong values are refused.
- While the operator runs it reads that file again when it changes ([operating](operating.md#reload)). The column *Reloads* says what then counts:
  a new value at once (`yes`), for pods that are made from then on (`new pods`), or only after a restart (`no`).
- Whatever keeps the operator from starting is one sentence on standard error and exit code 1.
"""

_EXAMPLE = f"""\
```yaml
apiVersion: {API_VERSION}
kind: {KIND}
watchNamespace: team-a,team-b
batchScheduler: volcano
enableMetrics: true
plugins:
  enabled: [autoscaler-v2]
```
"""


OTHER_VARIABLES = {
    "KUBECONFIG": "Kubeconfig file, where `--kubeconfig` is not given.",
    "KUBERNETES_SERVICE_HOST": "Set by Kubernetes in each pod, with `KUBERNETES_SERVICE_PORT`: then the pod's own account is used.",
    "KUBERAY_PLUGINS": "Comma-separated plugins whose commands `kuberay` has. Default: those that are on by default.",
    "TZ": "Time zone of schedules that name none.",
}
"""What libraries and the command line read besides `Environment`."""


@dataclass(frozen=True, slots=True)
class _Row:
    key: str
    flag: str
    kind: str
    default: str
    reloads: str
    meaning: str


def render() -> str:
    """The whole page."""
    flags = _flags()
    rows = list(_rows(Settings, flags))
    kept = [f"`--{flags[name].name}`" for name in FLAGS_KEPT_WITH_FILE]
    parts = [
        _INTRODUCTION.format(kept=", ".join(kept[:-1]) + f" and {kept[-1]}").strip(),
        _EXAMPLE.strip(),
        "## Keys and flags",
        _table(
            ("Key", "Flag", "Type", "Default", "Reloads", "Meaning"),
            ((r.key, r.flag, r.kind, r.default, r.reloads, r.meaning) for r in rows),
        ),
        "### plugins",
        _table(("Key", "Meaning"), ((f"`plugins.{r.key.strip('`')}`", r.meaning) for r in _rows(PluginSettings, {}))),
        "Each plugin reads a section of its own, `plugins.<name>`; its README says what is in it. A section that the "
        "plugin does not understand keeps the operator from starting. What of a section reloads is the plugin's to say; "
        "`plugins.enabled` does not.",
        "## Flags without a key",
        _table(
            ("Flag", "Meaning"),
            ((f"`--{f.name}`", f.help) for f in _parameters() if f.name not in {g.name for g in flags.values()}),
        ),
        "## Environment variables",
        "They always count, with and without a configuration file. Booleans are the words `true` and `false` in any "
        "case; anything else leaves the default.",
        _table(("Variable", "Meaning"), ((f"`{r.key.strip('`')}`", r.meaning) for r in _rows(Environment, {}))),
        "Not of the operator alone:",
        _table(("Variable", "Meaning"), ((f"`{name}`", meaning) for name, meaning in OTHER_VARIABLES.items())),
    ]
    return "\n\n".join(parts) + "\n"


def _rows(of: type[BaseModel], flags: dict[str, _Flag]) -> Iterator[_Row]:
    """One row per field. Fields that follow each other without a docstring share the next one."""
    waiting: list[str] = []
    for statement in _class(of).body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            waiting.append(statement.target.id)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and waiting:
            meaning = _prose(str(statement.value.value))
            for name in waiting:
                yield _row(of, name, meaning, flags)
            waiting = []
    if waiting:
        yield from (_row(of, name, "", flags) for name in waiting)


def _row(of: type[BaseModel], name: str, meaning: str, flags: dict[str, _Flag]) -> _Row:
    field = of.model_fields[name]
    flag = f"`--{flags[name].name}`" if name in flags else ""
    unsaid = field.is_required() or field.default_factory is not None or field.default in ("", None)
    default = "" if unsaid else f"`{_yaml(field.default)}`"
    reloads = {"at once": "yes", "new pods": "new pods", "": "no"}[RELOADED.get(name, "")]
    if name == "plugins":
        reloads = "see below"
    return _Row(f"`{field.alias or name}`", flag, _type(field.annotation), default, reloads, meaning)


def _type(annotation: Any) -> str:
    if typing.get_origin(annotation) is types.UnionType:
        (annotation,) = (each for each in typing.get_args(annotation) if each is not types.NoneType)
    if typing.get_origin(annotation) is typing.Literal:
        return " or ".join(f"`{value}`" for value in typing.get_args(annotation) if value)
    names = {str: "string", bool: "boolean", int: "integer", float: "number"}
    if annotation in names:
        return names[annotation]
    return "list" if typing.get_origin(annotation) is list else "mapping"


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class _Flag:
    name: str
    help: str


def _parameters() -> list[_Flag]:
    """All flags of ``kuberay run``, in the order of its help."""
    hints = typing.get_type_hints(run_module.run, include_extras=True)
    found = []
    for name in inspect.signature(run_module.run).parameters:
        option = next(extra for extra in typing.get_args(hints[name]) if isinstance(extra, OptionInfo))
        found.append(
            _Flag(name.replace("_", "-"), (option.help or "").replace("[default: ", "Default: ").replace("]", "."))
        )
    return found


def _flags() -> dict[str, _Flag]:
    """Flags by the field of `Settings` they fill, read from how ``run`` fills its dictionary of given values."""
    by_name = {flag.name: flag for flag in _parameters()}
    found = {"plugins": by_name["plugins"]}
    for node in ast.walk(ast.parse(inspect.getsource(run_module.run))):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "given":
            assert isinstance(node.value, ast.Dict)
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                first = next(
                    n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id.replace("_", "-") in by_name
                )
                assert isinstance(key, ast.Constant)
                found[str(key.value)] = by_name[first.replace("_", "-")]
    return found


def _class(of: type[BaseModel]) -> ast.ClassDef:
    found = ast.parse(inspect.getsource(of)).body[0]
    assert isinstance(found, ast.ClassDef)
    return found


def _table(heading: tuple[str, ...], rows: typing.Iterable[tuple[str, ...]]) -> str:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _prose(text: str) -> str:
    return " ".join(inspect.cleandoc(text).replace("``", "`").split())


def main() -> None:
    """Write the page to standard output."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
