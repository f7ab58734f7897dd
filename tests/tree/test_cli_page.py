"""Commands and options that pages name exist, and every environment variable that is read is told."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import sources

from dev import cli_docs, gates

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("plugins/*/README.md"),
        *ROOT.glob("charts/*/README.md"),
    ]
)
COMMANDS = dict(cli_docs.commands())
OPTIONS = {
    name: {each for option in cli_docs.options(command) for each in cli_docs.names_of(option)}
    for name, command in COMMANDS.items()
}
GENERAL = {"--help", "--version"}
OF_PLUGINS = re.compile(r"^kuberay acme")
"""Commands in examples of what a plugin may add."""


def named() -> list[tuple[str, str]]:
    """Each command line of `kuberay` in a page, up to a pipe or a comment, and the page."""
    found = []
    for page in PAGES:
        code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL))
        code = code.replace("\\\n", " ")
        for line in re.findall(r"(?:^|[`$(| ])(kuberay [a-z][^\n`]*)", code, re.MULTILINE):
            found.append((re.split(r" [|#>&;] ?|\s{2,}", line)[0].strip(), str(page.relative_to(ROOT))))
    return found


def command_of(line: str) -> str:
    words = line.split()
    known = [name for name in COMMANDS if words[: len(name.split())] == name.split()]
    return max(known, key=len, default="")


def test_pages_were_read() -> None:
    assert len(set(named())) > 30


def fault_of(line: str) -> str:
    """What is wrong with a command line; empty for prose, and for a command that a plugin adds."""
    command, second = command_of(line), line.split()[1]
    groups = {name.split()[1] for name in COMMANDS if len(name.split()) > 1}
    if not re.fullmatch(r"[a-z][a-z-]*", second) or OF_PLUGINS.match(line) or second not in groups:
        return ""
    if not command:
        return "there is no such command"
    given = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", line))
    return ", ".join(sorted(given - OPTIONS[command] - GENERAL))


def test_commands_and_options_exist() -> None:
    assert [f"{page}: {line}: {fault}" for line, page in sorted(set(named())) if (fault := fault_of(line))] == []


def read_variables() -> set[str]:
    """Environment variables that the process reads by name."""
    found = set()
    for module in sources.trees().values():
        texts = {
            target.id: node.value.value
            for node in module.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(module):
            key: ast.expr | None = None
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("get", "getenv") and node.args:
                key = node.args[0] if ast.unparse(node.func) in ("os.environ.get", "os.getenv") else None
            elif isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") == "environ":
                key = node.slice
            if isinstance(key, ast.Constant):
                found.add(str(key.value))
            elif isinstance(key, ast.Name):
                found.add(str(texts[key.id]))
    return found


KUBERNETES_OWN = {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}
"""Set by the kubelet in every pod."""


def test_environment_variables_are_told() -> None:
    told = "".join((ROOT / "docs" / page).read_text() for page in ("settings.md", "cli.md"))
    found = read_variables() - KUBERNETES_OWN
    assert found
    assert sorted(variable for variable in found if variable not in told) == []


def test_gates_are_told_and_those_that_are_named_exist() -> None:
    known = [gate.gate for gate in gates.reports()]
    page = (ROOT / "docs" / "gates.md").read_text()
    assert [gate for gate in known if f"| `{gate}` |" not in page] == []
    lines = re.findall(r"--feature-gates[ =]([A-Za-z=,]+)", "\n".join(each.read_text() for each in PAGES))
    given = {each.partition("=")[0] for line in lines for each in line.split(",") if "=" in each}
    assert given - set(known) - {"AllAlpha", "AllBeta", "Name", "Other"} == set()
