"""Which shell runs a generated command line, and with which options.

Source: spec raycluster.md 3.7, rayjob.md 4.1 and 8.4 (case 78).
"""

from __future__ import annotations


def shell(options: str = "c", login: bool = False) -> list[str]:
    """``["/bin/bash", "-c", "--"]``; extra *options* (``"e"``) come after the ``c``, ``l`` for *login* comes last."""
    return ["/bin/bash", f"-c{options.replace('c', '')}{'l' if login else ''}", "--"]
