"""Renders ``docs/hooks.md`` from the hook specifications and the types they use, so that the page cannot drift.

``python -m kuberay.plugins.hook_docs`` writes the page to standard output; a test compares it with the file.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from types import ModuleType

from kuberay.hooks import HOOK_API, calls, reload, service_upgrade, spec, tracing
from kuberay.hooks import types as hook_types
from kuberay.plugins import loader

_EXAMPLE = '''\
```python
# src/kuberay_team_label/__init__.py
"""Labels every pod of a cluster with the team that owns its namespace."""

from kuberay.hooks import PodContext, hookimpl

kuberay_hook_api = (1, 0)


@hookimpl
def mutate_pod(ctx: PodContext, pod: dict) -> dict:
    pod["metadata"].setdefault("labels", {})["example.com/team"] = ctx.owner.namespace
    return pod
```

```toml
# pyproject.toml
[project]
name = "kuberay-team-label"
version = "0.1.0"
dependencies = ["kuberay-core>=0.1,<0.2"]

[project.entry-points."kuberay.plugins"]
team-label = "kuberay_team_label"
```
'''


def render() -> str:
    """The whole page."""
    major, minor = HOOK_API
    functions = list(_functions(spec))
    parts = [
        "# Hooks",
        "<!-- Written by `python -m kuberay.plugins.hook_docs`. Change the docstrings, not this page. -->",
        _prose(inspect.getdoc(spec) or ""),
        f"The hook API described here is {major}.{minor}.",
        "## Writing a plugin",
        f"A plugin is an installable package with an entry point in the group `{loader.GROUP}`. The entry point names "
        "a module; the functions in it that carry `@hookimpl` and the name of a hook are its hooks. A hook may take "
        "fewer arguments than listed here; their names count, not their order.",
        _EXAMPLE.strip(),
        _rules(),
        "## All hooks",
        _overview(functions),
        *(_hook(function) for function in functions),
        "## Types",
        _prose(inspect.getdoc(hook_types) or ""),
        *(_type(definition) for definition in _classes(hook_types)),
        "## Upgrades of a RayService",
        _prose(inspect.getdoc(service_upgrade) or ""),
        *(_type(definition) for definition in _classes(service_upgrade)),
        *_aliases(service_upgrade),
        "## Settings that change while the operator runs",
        _prose(inspect.getdoc(reload) or ""),
        "## Tracing",
        _prose(inspect.getdoc(tracing) or ""),
        *(_type(definition) for definition in _classes(tracing)),
        *_aliases(tracing),
        "## When a plugin fails",
        "A hook that raises, or gives back something that cannot be used (another type, no JSON, more than a megabyte, an object "
        "of another namespace, a pod that the operator would not recognise), is recorded as a failure of its plugin:",
        *(_type(definition) for definition in _classes(calls) if definition.name == "PluginFailure"),
    ]
    return "\n\n".join(parts) + "\n"


def _rules() -> str:
    return "\n".join(
        (
            "The operator refuses to start, with one sentence that names the plugin, when an enabled plugin",
            "",
            "- is not installed, or is provided by two distributions;",
            "- is a batch scheduler beside another one that is enabled;",
            "- cannot be imported (plugins that are not enabled are never imported);",
            "- says with `kuberay_hook_api` that it was made for another major version of the hook API, or a newer minor;",
            "- marks a function that is no hook, or leaves out the mark on one that is named like a hook;",
            "- has a hook that is `async def`, a generator or a pluggy wrapper, or asks for an argument its hook lacks.",
            "",
            "Plugins are enabled by their entry point names, in `plugins.enabled` of the configuration. By default that is "
            "`autoscaler-v2` and `gateway-upgrade`, as far as they are installed; `--batch-scheduler=volcano` adds `volcano`, and "
            "any other plugin that has `batch_scheduler` is chosen in the same way. `kuberay plugins` lists what is installed and "
            "what is enabled, [plugins](plugins/README.md) what this project ships, and "
            "[compatibility](plugins/compatibility.md) which plugin works with which operator.",
        )
    )


def _overview(functions: list[ast.FunctionDef]) -> str:
    rows = ["| Hook | What it is for |", "|---|---|"]
    for function in functions:
        first = _prose(ast.get_docstring(function) or "").split("\n\n")[0].split(". ")[0].rstrip(".").replace("\n", " ")
        rows.append(f"| [`{function.name}`](#{function.name}) | {first} |")
    return "\n".join(rows)


def _hook(function: ast.FunctionDef) -> str:
    arguments = ast.unparse(function.args)
    answer = ast.unparse(function.returns) if function.returns else "None"
    signature = f"```python\ndef {function.name}({arguments}) -> {answer}\n```"
    return f"### {function.name}\n\n{signature}\n\n{_prose(ast.get_docstring(function) or '')}"


def _type(definition: ast.ClassDef) -> str:
    text = [f"### {definition.name}", _prose(ast.get_docstring(definition) or "")]
    rows = [f"| {cells} |" for cells in _fields(definition)]
    if rows:
        text.append("\n".join(["| Field | Type | Default | Meaning |", "|---|---|---|---|", *rows]))
    for method in definition.body:
        if isinstance(method, ast.FunctionDef):
            arguments = ast.unparse(method.args).removeprefix("self, ")
            returned = ast.unparse(method.returns) if method.returns else "None"
            doc = _prose(ast.get_docstring(method) or "")
            call = "Called as `(" if method.name == "__call__" else f"`{method.name}("
            text.append(f"{call}{arguments}) -> {returned}`{'.' if call[0] == 'C' else ':'} {doc}")
    return "\n\n".join(text)


def _fields(definition: ast.ClassDef) -> Iterator[str]:
    following: list[ast.stmt | None] = [*definition.body[1:], None]
    for statement, after in zip(definition.body, following, strict=True):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        meaning = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            meaning = _prose(inspect.cleandoc(after.value.value)).replace("\n", " ")
        default = f"`{_default(statement.value)}`" if statement.value else ""
        cells = (f"`{statement.target.id}`", f"`{ast.unparse(statement.annotation)}`", default, meaning)
        yield " | ".join(cell.replace("|", "\\|") for cell in cells)


def _default(value: ast.expr) -> str:
    factory = re.fullmatch(r"field\(default_factory=(\w+)\)", ast.unparse(value))
    if factory:
        return {"dict": "{}", "list": "[]"}.get(factory[1], f"{factory[1]}()")
    return ast.unparse(value)


def _functions(module: ModuleType) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.FunctionDef))


def _classes(module: ModuleType) -> Iterator[ast.ClassDef]:
    return (
        node
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def _aliases(module: ModuleType) -> Iterator[str]:
    """Types that are another name for something, as far as they are explained."""
    body = ast.parse(inspect.getsource(module)).body
    for statement, after in itertools.pairwise(body):
        match statement, after:
            case ast.Assign(targets=[ast.Name(id=name)], value=value), ast.Expr(value=ast.Constant(value=str(text))):
                yield f"### {name}\n\n`{ast.unparse(value)}`\n\n{_prose(inspect.cleandoc(text))}"


def _prose(text: str) -> str:
    """A docstring as Markdown: code in single quotes, emphasis kept, the version as a sentence."""
    text = text.replace("``", "`")
    return re.sub(r"\.\. versionadded:: (\S+)", r"*Since hook API \1.*", text)


def main() -> None:
    """Write the page to standard output."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
