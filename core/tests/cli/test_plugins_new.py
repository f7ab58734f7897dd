"""``kuberay plugins new``: names, licences, folders. That what it writes works is shown in tests/packaging."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from kuberay.api.shipped import PACKAGES
from kuberay.cli import plugins_new
from kuberay.cli.main import app
from kuberay.cli.plugins_new import Kind, License, NewPlugin, NewPluginError, check_name, fill, write
from typer.testing import CliRunner

KINDS = pytest.mark.parametrize("kind", list(Kind))


def plugin(name: str = "my-scheduler", kind: Kind = Kind.SCHEDULER, license: License = License.APACHE) -> NewPlugin:  # noqa: A002
    return NewPlugin(name, kind, license, "0.1.0", 2026)


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["a", "my-scheduler", "x2", "gang-2-all", "a" * 40])
def test_good_names(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "My_Scheduler",
            "use lower-case letters, digits and single dashes, and begin with a letter, for example 'my-scheduler'.",
        ),
        ("my--scheduler", "for example 'my-scheduler'."),
        ("-x", "for example 'x'."),
        (
            "2fast",
            "'2fast' is no name for a plugin: use lower-case letters, digits and single dashes, and begin with a letter.",
        ),
        ("", "'' is no name for a plugin"),
        ("a/b", "for example 'a-b'."),
        ("../up", "for example 'up'."),
        ("a\n", "for example 'a'."),
        ("kuberay-gang", "Leave out 'kuberay-': a plugin 'gang' gets the distribution 'kuberay-gang' by itself."),
        ("a" * 41, "is too long: at most 40 characters."),
    ],
)
def test_other_names_are_refused(name: str, sentence: str) -> None:
    with pytest.raises(NewPluginError) as refused:
        check_name(name)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("name", sorted({*PACKAGES, "kai", "core", "testkit"}))
def test_names_of_this_project_are_taken(name: str) -> None:
    with pytest.raises(NewPluginError, match="belongs to a package of this project"):
        check_name(name)


@KINDS
def test_every_file_is_what_its_name_says(kind: Kind) -> None:
    found = plugin(kind=kind).files()
    for path, text in found.items():
        assert "@" not in path
        assert not re.search(r"@[a-z_]+@", text), f"{path} has a token that was not replaced"
        match path.rpartition(".")[2]:
            case "py":
                ast.parse(text)
            case "toml":
                tomllib.loads(text)
            case "yaml" | "yml":
                assert list(yaml.safe_load_all(text))
    needed = {"pyproject.toml", "README.md", "LICENSE", ".gitignore", ".github/workflows/ci.yml"}
    assert needed <= set(found)
    assert {"src/kuberay_my_scheduler/__init__.py", "src/kuberay_my_scheduler/py.typed"} <= set(found)
    assert "tests/test_conformance.py" in found


@KINDS
def test_the_package_asks_for_the_core_that_wrote_it(kind: Kind) -> None:
    project = tomllib.loads(NewPlugin("a-b", kind, License.MIT, "0.12.3", 2026).files()["pyproject.toml"])["project"]
    assert project["name"] == "kuberay-a-b"
    assert project["dependencies"][0] == "kuberay-core>=0.12,<0.13"
    assert "kuberay-testkit>=0.12,<0.13" in project["optional-dependencies"]["test"]
    assert project["entry-points"]["kuberay.plugins"] == {"a-b": "kuberay_a_b"}


def test_no_template_is_left_out() -> None:
    """Each file beside the command is used by some kind or licence."""
    used = {
        source
        for table in (plugins_new._COMMON, *plugins_new._OF_KIND.values(), *plugins_new._LICENSES.values())
        for source in table.values()
        if source
    }
    top = Path(str(files("kuberay.cli") / "template"))
    assert {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file()} == used


def test_licences() -> None:
    texts = {each: plugin(license=each).files() for each in License}
    assert "Version 2.0, January 2004" in texts[License.APACHE]["LICENSE"]
    assert "Copyright (c) 2026 the authors of kuberay-my-scheduler" in texts[License.MIT]["LICENSE"]
    assert "LICENSE" not in texts[License.NONE]
    projects = {each: tomllib.loads(found["pyproject.toml"])["project"] for each, found in texts.items()}
    assert projects[License.APACHE]["license"] == "Apache-2.0"
    assert projects[License.MIT]["license"] == "MIT"
    assert "license" not in projects[License.NONE]
    assert "Private :: Do Not Upload" in projects[License.NONE]["classifiers"]


def test_an_unknown_token_is_a_mistake_of_the_template() -> None:
    assert fill("@name@ at example.com, uses: a@v4", {"name": "x"}) == "x at example.com, uses: a@v4"
    with pytest.raises(KeyError):
        fill("@nobody@", {})


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("nowhere")])
def test_what_exists_is_not_touched(tmp_path: Path, make: object) -> None:
    folder = tmp_path / "there"
    make(folder)  # type: ignore[operator]
    with pytest.raises(NewPluginError, match=r"exists already; choose another folder with --directory, or remove it\."):
        write(plugin(), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_folder_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        NewPluginError, match=r"Cannot write .*file/x: Not a directory\.|Cannot write .*file/x: File exists\."
    ):
        write(plugin(), tmp_path / "file" / "x")
    assert content(tmp_path) == {"file": ""}


def test_a_write_that_fails_half_way_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Path.write_text

    def fails(path: Path, *given: str, **options: str) -> int:
        if path.name == "pyproject.toml":
            raise OSError(28, "No space left on device")
        return whole(path, *given, **options)

    monkeypatch.setattr(Path, "write_text", fails)
    with pytest.raises(NewPluginError, match="No space left on device"):
        write(plugin(), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_where_it_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["plugins", "new", "gangs", "-d", str(tmp_path / "a" / "b"), "--license", "MIT"])
    assert done.exit_code == 0, done.output
    written = content(tmp_path / "a" / "b")
    assert {line for line in done.output.splitlines() if line.startswith(str(tmp_path))} == {
        str(tmp_path / "a" / "b" / path) for path in written
    }
    assert "pip install -e '.[test]' && pytest" in done.output


def test_the_command_refuses_with_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["plugins", "new", "volcano"])
    assert done.exit_code == 1
    assert done.output == "kuberay: The name 'volcano' belongs to a package of this project; choose another one.\n"
    assert list(tmp_path.iterdir()) == []


def test_plugins_alone_still_lists() -> None:
    listed = CliRunner().invoke(app, ["plugins", "--json", "--plugins", "volcano"])
    assert listed.exit_code == 0, listed.output
    assert {"volcano"} <= {row["name"] for row in json.loads(listed.output) if row["enabled"]}
    assert "volcano" in CliRunner().invoke(app, ["plugins"]).output
    assert CliRunner().invoke(app, ["plugins", "list"]).exit_code == 2
