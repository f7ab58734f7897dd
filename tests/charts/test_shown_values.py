"""What pages tell somebody to give Helm is taken by Helm: every ``helm install`` and ``upgrade``, and the values of install.md's table."""

from __future__ import annotations

import re
import shlex

import pytest
import yaml
from helm import KUBERNETES, OPERATOR, ROOT, Helm, of_kind, started_with
from shown import commands, section

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LATER = {"--create-namespace", "--install"}
"""Words that `helm template` has no use for."""
DIGEST = "sha256:" + "0" * 64


def shown() -> list[str]:
    found = {
        line for page in PAGES for line, _ in commands(page.read_text()) if re.match(r"helm (install|upgrade)\b", line)
    }
    return sorted(found)


def rows() -> list[tuple[str, str]]:
    """What somebody wants, and the values for it."""
    table = section("install.md", "With Helm")
    return re.findall(r"^\| ([^|]+) \| `([^|`]+)` \|$", table, re.MULTILINE)


@pytest.mark.parametrize("line", shown(), ids=lambda line: line[:60])
def test_commands_render(helm: Helm, line: str) -> None:
    words = [word for word in shlex.split(line.replace("sha256:…", DIGEST)) if word not in LATER]
    given = [position for position, word in enumerate(words) if word in ("--values", "-f")]
    for position in reversed(given):
        del words[position : position + 2]  # a file of the reader's
    charts = {str(path.relative_to(ROOT)): str(path) for path in (ROOT / "charts").iterdir()}
    rendered = helm.run("template", "--kube-version", KUBERNETES, *(charts.get(word, word) for word in words[2:]))
    assert of_kind(
        [each for each in yaml.safe_load_all(rendered) if each], "Deployment" if "operator" in line else "RayCluster"
    )


def test_there_are_commands_and_rows() -> None:
    assert len(shown()) > 4
    assert len(rows()) > 5


@pytest.mark.parametrize(("wanted", "values"), rows(), ids=[values for _, values in rows()])
def test_rows_of_the_table_render(helm: Helm, wanted: str, values: str) -> None:
    given = yaml.safe_load(values if values.startswith("{") else "{" + values + "}")
    made = helm.template(OPERATOR, given)
    assert made != helm.template(OPERATOR), f"{wanted}: the values change nothing"
    assert started_with(made) is not None
