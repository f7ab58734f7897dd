"""Renders ``docs/differences.md`` from the fragments in ``docs/differences.d``: one section a file, one line a fact.

A fragment is Markdown; its first heading, or else its name, is the section's title. Fragments keep the page free of
conflicts when several changes add to it at once.
"""

from __future__ import annotations

import re
from pathlib import Path

_INTRODUCTION = """\
# Differences from KubeRay

<!-- Written by `make generate` from docs/differences.d/*.md. Change those files, not this page. -->

Manifests and tools written for KubeRay work unchanged. Where KubeRay's behaviour is a defect, or another choice serves
users better, this operator differs; every such place is listed here.
"""


def render(folder: Path) -> str:
    """The whole page, sections in the order of their titles."""
    sections = sorted(_section(path) for path in folder.glob("*.md"))
    return "\n".join([_INTRODUCTION, *(f"## {title}\n\n{text}\n" for title, text in sections)])


def _section(path: Path) -> tuple[str, str]:
    text = path.read_text().strip()
    heading = re.match(r"#+ +(.+)\n*", text)
    if heading:
        return heading[1].strip(), text[heading.end() :].strip()
    title = path.stem.replace("-", " ").replace("_", " ")
    return title[:1].upper() + title[1:], text
