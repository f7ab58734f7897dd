"""What pages show their readers, so that tests can do it: command lines of a section, and its code blocks.

A line that ends with a backslash goes on; a comment after two blanks is not part of a command.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def section(page: str, heading: str) -> str:
    """The text below *heading* of a page in docs/, up to the next heading of its level or a higher one."""
    text = (ROOT / "docs" / page).read_text()
    found = re.search(rf"^(#+) {re.escape(heading)}$\n(.*?)(?=^#{{1,2}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no heading {heading}"
    return found[2]


def blocks(text: str, language: str = "") -> list[str]:
    """Code blocks of *text* that are marked with *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[tuple[str, str]]:
    """Command lines of the code blocks of *text* that are marked with no language, each with its comment."""
    joined = "\n".join(blocks(text)).replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip()]
    return [
        (" ".join(command.split()), comment.strip()) for command, _, comment in (s.partition("  # ") for s in lines)
    ]
