"""Renders ``docs/differences.md`` from the fragments in ``docs/differences.d``: one line a fact, grouped by topic.

A line is ``- Topic: fact``, the topic one word (or ``feature gates``); without a topic it counts as general. Fragments
keep the page free of conflicts when several changes add to it at once; which file a line stands in does not matter.
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

_GENERAL = "In general"
_LINE = re.compile(r"- (?:(\w+|feature gates): )?(.+)", re.DOTALL)


def render(folder: Path) -> str:
    """The whole page; raises ValueError for a line that is none of ours."""
    topics: dict[str, list[str]] = {_GENERAL: []}
    for path in sorted(folder.glob("*.md")):
        for line in path.read_text().splitlines():
            if not line.strip():
                continue
            found = _LINE.fullmatch(line.strip())
            if found is None:
                raise ValueError(f"{path}: a line must begin with '- ': {line[:60]!r}")
            topic = found[1] or _GENERAL
            topics.setdefault(topic[:1].upper() + topic[1:], []).append(found[2][:1].upper() + found[2][1:])
    sections = [
        f"## {topic}\n\n" + "\n".join(f"- {fact}" for fact in facts) + "\n" for topic, facts in topics.items() if facts
    ]
    return "\n".join([_INTRODUCTION, *sections])
