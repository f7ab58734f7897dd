"""``kuberay plugins new``: writes the package of a new plugin, with its tests, from the templates beside this file.

What may be chosen is checked before anything is written; the files are made in one go or not at all.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.resources import files
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from kuberay.api.shipped import PACKAGES

PREFIX = "kuberay-"
"""Distributions of plugins are called ``kuberay-<plugin>``."""

_TAKEN = frozenset((*PACKAGES, *(package.removeprefix(PREFIX) for package in PACKAGES.values()), "core", "testkit"))
_LONGEST = 40
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TOKEN = re.compile(r"@([a-z_]+)@")


class Kind(StrEnum):
    """What the new plugin does; each has a folder of templates."""

    SCHEDULER = "scheduler"
    POD_MUTATOR = "pod-mutator"
    UPGRADE_STRATEGY = "upgrade-strategy"


class License(StrEnum):
    """Which licence file the package gets; ``none`` makes it private."""

    APACHE = "Apache-2.0"
    MIT = "MIT"
    NONE = "none"


class NewPluginError(Exception):
    """Why no package can be written, in one sentence."""


@dataclass(frozen=True, slots=True)
class NewPlugin:
    """Everything the templates are filled with."""

    name: str
    kind: Kind
    license: License
    core_version: str
    """Of the installed core, ``major.minor.patch``: what the package asks for."""
    year: int

    @property
    def distribution(self) -> str:
        return PREFIX + self.name

    @property
    def package(self) -> str:
        return self.distribution.replace("-", "_")

    def words(self) -> dict[str, str]:
        """Token to text."""
        major, minor, *_ = self.core_version.split(".")
        versions = f">={major}.{minor},<{major}.{int(minor) + 1}"
        private = 'classifiers = ["Private :: Do Not Upload", "Typing :: Typed"]'
        open_source = f'license = "{self.license}"\nlicense-files = ["LICENSE"]\nclassifiers = ["Typing :: Typed"]'
        return {
            "name": self.name,
            "distribution": self.distribution,
            "package": self.package,
            "title": "".join(part.capitalize() for part in self.name.split("-")),
            "versions": versions,
            "chosen": "--batch-scheduler" if self.kind == Kind.SCHEDULER else "--plugins",
            "requirements": ", ".join(f'"{each}"' for each in (f"kuberay-core{versions}", *_NEEDS[self.kind])),
            "license_lines": private if self.license == License.NONE else open_source,
            "year": str(self.year),
        }

    def files(self) -> dict[str, str]:
        """Path below the package's folder to content."""
        template = files("kuberay.cli") / "template"
        words = self.words()
        sources = {**_COMMON, **_OF_KIND[self.kind], **_LICENSES[self.license]}
        return {
            fill(path, words): fill((template / source).read_text(encoding="utf-8"), words) if source else ""
            for path, source in sorted(sources.items())
        }


_COMMON: Mapping[str, str] = {
    ".github/workflows/ci.yml": "common/ci.yml.in",
    ".gitignore": "common/gitignore.in",
    "pyproject.toml": "common/pyproject.toml.in",
    "src/@package@/py.typed": "",
}
"""Path in the package to template; empty: an empty file."""

_OF_KIND: Mapping[Kind, Mapping[str, str]] = {
    Kind.SCHEDULER: {
        "README.md": "scheduler/README.md.in",
        "examples/crd.yaml": "scheduler/crd.yaml.in",
        "examples/raycluster.yaml": "common/raycluster.yaml.in",
        "src/@package@/__init__.py": "scheduler/init.py.in",
        "src/@package@/gang.py": "scheduler/gang.py.in",
        "tests/test_conformance.py": "scheduler/test_conformance.py.in",
        "tests/test_gang.py": "scheduler/test_gang.py.in",
    },
    Kind.POD_MUTATOR: {
        "README.md": "pod_mutator/README.md.in",
        "examples/operator.yaml": "pod_mutator/operator.yaml.in",
        "src/@package@/__init__.py": "pod_mutator/init.py.in",
        "tests/test_conformance.py": "pod_mutator/test_conformance.py.in",
        "examples/raycluster.yaml": "common/raycluster.yaml.in",
        "tests/test_labels.py": "pod_mutator/test_labels.py.in",
    },
    Kind.UPGRADE_STRATEGY: {
        "README.md": "upgrade_strategy/README.md.in",
        "src/@package@/__init__.py": "upgrade_strategy/init.py.in",
        "tests/test_conformance.py": "upgrade_strategy/test_conformance.py.in",
        "tests/test_steps.py": "upgrade_strategy/test_steps.py.in",
    },
}

_NEEDS: Mapping[Kind, tuple[str, ...]] = {
    Kind.SCHEDULER: (),
    Kind.POD_MUTATOR: ("pydantic>=2.9",),
    Kind.UPGRADE_STRATEGY: (),
}
"""What the package imports besides the core."""

_LICENSES: Mapping[License, Mapping[str, str]] = {
    License.APACHE: {"LICENSE": "licenses/Apache-2.0.txt"},
    License.MIT: {"LICENSE": "licenses/MIT.txt"},
    License.NONE: {},
}


def fill(text: str, words: Mapping[str, str]) -> str:
    """*text* with every ``@token@`` replaced. Raises KeyError for a token that nobody knows."""
    return _TOKEN.sub(lambda found: words[found.group(1)], text)


def check_name(name: str) -> None:
    """Raises `NewPluginError` unless a new plugin may be called *name*: a normalized name (PEP 503) that is not taken."""
    if not _NAME.fullmatch(name):
        better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        hint = f", for example {better!r}" if _NAME.fullmatch(better) else ""
        raise NewPluginError(
            f"{name!r} is no name for a plugin: use lower-case letters, digits and single dashes, and begin with a letter{hint}."
        )
    if len(name) > _LONGEST:
        raise NewPluginError(f"The name {name!r} is too long: at most {_LONGEST} characters.")
    if name.startswith(PREFIX):
        short = name.removeprefix(PREFIX)
        raise NewPluginError(f"Leave out {PREFIX!r}: a plugin {short!r} gets the distribution {name!r} by itself.")
    if name in _TAKEN:
        raise NewPluginError(f"The name {name!r} belongs to a package of this project; choose another one.")


def write(plugin: NewPlugin, folder: Path) -> list[str]:
    """Write the package into *folder*, which must not exist yet; returns the paths below it.

    Raises `NewPluginError` when it exists or cannot be written; then nothing is left behind.
    """
    if folder.exists() or folder.is_symlink():
        raise NewPluginError(f"{folder} exists already; choose another folder with --directory, or remove it.")
    content = plugin.files()
    draft = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        draft.chmod(0o755)
        for path, text in content.items():
            target = draft / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        draft.rename(folder)
    except OSError as error:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
        raise NewPluginError(f"Cannot write {folder}: {error.strerror or error}.") from error
    return list(content)


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the plugin, for example my-scheduler.")],
    kind: Annotated[Kind, typer.Option(help="What it does.")] = Kind.SCHEDULER,
    licence: Annotated[
        License, typer.Option("--license", help="Licence of the package; none: private, not to be uploaded.")
    ] = License.APACHE,
    directory: Annotated[str, typer.Option("--directory", "-d", help="Folder to write. [default: NAME]")] = "",
) -> None:
    """Write the package of a new plugin: code that works, tests, continuous integration."""
    from kuberay.operator.start import operator_version

    folder = Path(directory or name)
    try:
        check_name(name)
        plugin = NewPlugin(name, kind, licence, operator_version(), datetime.now(UTC).year)
        written = write(plugin, folder)
    except NewPluginError as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error
    for path in written:
        typer.echo(folder / path)
    typer.echo(f"\nNext: cd {folder} && pip install -e '.[test]' && pytest")


def plugins_group(listing: Callable[..., None]) -> typer.Typer:
    """``kuberay plugins``: by itself *listing* with its options, and ``kuberay plugins new``."""
    shown = signature(listing, eval_str=True)
    context = Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *shown.parameters.values()]

    def by_itself(ctx: typer.Context, **options: Any) -> None:
        if ctx.invoked_subcommand is None:
            listing(**options)

    # typer reads from the signature what a command takes, and only its context tells whether a sub-command follows.
    by_itself.__doc__ = listing.__doc__
    by_itself.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    by_itself.__annotations__ = {each.name: each.annotation for each in parameters}
    group = typer.Typer(invoke_without_command=True, callback=by_itself, rich_markup_mode=None, add_completion=False)
    group.command()(new)
    return group
