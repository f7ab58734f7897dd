"""The end of a job's log, read from the end of a JSON answer that may be huge."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kuberay.ray.joblogs import MAX_CHARS, MAX_LINES, TAIL_BYTES, last_lines


def answer(log: str) -> bytes:
    return json.dumps({"logs": log}).encode()


def cut(log: str, size: int = TAIL_BYTES) -> bytes:
    return answer(log)[-size:]


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        ("", ""),
        ("\n\n", ""),
        ("one", "one"),
        ("one\r\n\n two \n", "one\n two"),
        ("".join(f"{number}\n" for number in range(50)), "\n".join(str(number) for number in range(30, 50))),
        ('é "quoted" \\n \t end\n', 'é "quoted" \\n \t end'),
    ],
)
def test_whole_answers(log: str, lines: str) -> None:
    assert last_lines(answer(log), cut=False) == lines


def test_long_lines_are_cut_at_their_beginning() -> None:
    lines = last_lines(answer("x" * 9000 + "end"), cut=False)
    assert len(lines) == MAX_CHARS
    assert lines.endswith("end")


def test_the_end_of_a_huge_answer() -> None:
    log = "\n".join(f'{number} "a\\b" ü' for number in range(100_000)) + "\nlast\n"
    lines = last_lines(cut(log), cut=True).split("\n")
    assert len(lines) == MAX_LINES
    assert lines[-2:] == ['99999 "a\\b" ü', "last"]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=8), st.integers(1, 99)
)
def test_wherever_it_is_cut_lines_are_told_as_they_are(parts: list[str], size: int) -> None:
    log = "\n".join(parts)
    try:
        told = last_lines(cut(log, size), cut=True)
    except ValueError:
        return
    assert told in log or told in "\n".join(line.rstrip() for line in log.split("\n") if line.rstrip())


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b"{}", b'{"logs": 7}'])
def test_answers_without_a_log(body: bytes) -> None:
    with pytest.raises(ValueError, match="the answer"):
        last_lines(body, cut=False)


@pytest.mark.parametrize("body", [b"", b"no end", b'no line"}', b'\\\\\\n"}', b'a\\nbad \\x escape"}'])
def test_ends_without_a_log(body: bytes) -> None:
    with pytest.raises(ValueError, match="the"):
        last_lines(body, cut=True)
