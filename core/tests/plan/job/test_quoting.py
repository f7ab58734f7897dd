"""Entrypoints and JSON reach Ray as they were written, through a real shell and Ray's way of joining arguments."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kuberay.plan.job.quoting import double_quoted, entrypoint_arguments, joined

KEPT = [
    "python a.py",
    "  python -m demo.train --lr=0.1 \n",
    """echo no quote 'single quote' "double quote\"""",
    '''python -c "import ray; ray.init(); print(f\\"{1+1}\\")"''',
]
CHANGED = [
    "echo one && echo two; echo `echo hi`",
    "echo $HOME $(echo sub) ${HOME}",
    """python3 -c "import os; print('a b', \\"$HOME\\")" && echo `echo x` | tee "/dev/null\"""",
    'python3 -c "print(1)"',
    """cd /tmp && N="3  4" && echo "$N" "\\$5" 'it is'  x""",
    'A=1 && printf "%s\\n" "a\tb"',
    "for i in 1 2; do\n  echo $i\ndone",
    "echo a*b 'c*' \"d e*\" ~ # gone",
    "echo 'a'\\''b' \"tail\\\\\"",
    """echo --x="$HOME" "" 'q'""",
    "echo 'cost $5' \"cost \\$5\"",
]


def received(tmp_path: Path, entrypoint: str) -> str:
    """What the job's entrypoint is after the submitter's shell and ``ray job submit``."""
    ray = tmp_path / "ray"
    if not ray.exists():
        ray.write_text(
            "#!/usr/bin/env python3\nimport subprocess, sys\nsys.stdout.write(subprocess.list2cmdline(sys.argv[1:]))\n"
        )
        ray.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": "/submitter"}
    line = f"ray {entrypoint_arguments(entrypoint)}"
    done = subprocess.run(["/bin/bash", "-ce", "--", line], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def outcome(command: str) -> tuple[str, int]:
    done = subprocess.run(
        ["/bin/sh", "-c", command], env={**os.environ, "HOME": "/cluster"}, capture_output=True, text=True
    )
    return done.stdout, done.returncode


@pytest.mark.parametrize("entrypoint", KEPT)
def test_plain_entrypoints_stay_as_they_are(entrypoint: str) -> None:
    assert entrypoint_arguments(entrypoint) == entrypoint.strip()


@pytest.mark.parametrize("entrypoint", [*KEPT[2:3], *CHANGED])
def test_the_job_does_what_was_written(tmp_path: Path, entrypoint: str) -> None:
    assert outcome(received(tmp_path, entrypoint)) == outcome(entrypoint)


@pytest.mark.parametrize("entrypoint", CHANGED[:2])
def test_the_text_itself_arrives_where_it_can_be_written(tmp_path: Path, entrypoint: str) -> None:
    assert received(tmp_path, entrypoint) == entrypoint


WORDS = st.lists(st.text(alphabet="ab \t\"'\\$`&;|()*\n", max_size=6), min_size=1, max_size=4)


@given(WORDS)
def test_joined_is_what_ray_does(words: list[str]) -> None:
    assert joined(words) == subprocess.list2cmdline(words)


@given(st.lists(st.text(alphabet="ab \"'\\$`&;|()*", min_size=1, max_size=6), min_size=1, max_size=4))
def test_any_words_survive(words: list[str]) -> None:
    entrypoint = " ".join(shlex.quote(word) for word in words)
    arrived = joined(shlex.split(entrypoint_arguments(entrypoint)))
    if arrived.startswith("set -f;"):
        return  # the evaluated form; `test_the_job_does_what_was_written` runs it
    assert shlex.split(arrived) == words


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('{"a":"b"}', '"{\\"a\\":\\"b\\"}"'),
        ("a\\b", '"a\\\\b"'),
        ("\a\b\f\n\r\t\v\x01\x7f", '"\\a\\b\\f\\n\\r\\t\\v\\x01\\x7f"'),
        ("müller ☃", '"müller ☃"'),
        ("\u200b\U000e0001", '"\\u200b\\U000e0001"'),
        ("$5 `x`", '"\\$5 \\`x\\`"'),
    ],
)
def test_double_quoted(text: str, quoted: str) -> None:
    assert double_quoted(text) == quoted
