"""What is read as a runtime environment, and that nothing in it harms who reads it (spec rayjob.md 3.3, 6.2 S25, 8.6)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.runtime_env import RuntimeEnvError, load_runtime_env, runtime_env_error


def laughs(levels: int, line: str) -> str:
    """Each level stands for nine of the one before."""
    lines = ["a0: &a0 {x: 1}", *(line.format(i=i, before=",".join([f"*a{i - 1}"] * 9)) for i in range(1, levels))]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("null", None),
        ("{}", {}),
        ("pip: [a, b]\nworking_dir: ./\n", {"pip": ["a", "b"], "working_dir": "./"}),
        ("env_vars: {A: yes, B: on, C: 'no'}", {"env_vars": {"A": True, "B": True, "C": "no"}}),
        ("{2: a, true: b, null: c, 1.5: d}", {"2": "a", "true": "b", "null": "c", "1.5": "d"}),
        ("since: 2024-01-01", {"since": "2024-01-01"}),
        (
            "{t: 12:30, e: 1e3, o: 010, x: 0x1F, n: 1_000, v: 1.2.3}",
            {"t": "12:30", "e": 1e3, "o": 8, "x": 31, "n": 1000, "v": "1.2.3"},
        ),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x {k: 1}\nb: {<<: *x, l: 2}", {"a": {"k": 1}, "b": {"k": 1, "l": 2}}),
        ("a: ☃", {"a": "☃"}),
    ],
)
def test_read(text: str, value: Any) -> None:
    assert load_runtime_env(text) == value
    assert runtime_env_error(text) == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- a\n- b", "must be a mapping, not a list"),
        ("word", "must be a mapping, not a str"),
        ("3", "must be a mapping, not a int"),
        ("a: [", "while parsing a flow node"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("a: !foo x", "could not determine a constructor"),
        ("a: !!binary aGVsbG8=", "a bytes of its values cannot be written as JSON"),
        ("a: !!set {x}", "a set of its values cannot be written as JSON"),
        ("a: .nan", "a float of its values cannot be written as JSON"),
        ("a: -.inf", "a float of its values cannot be written as JSON"),
        (f"a: 0b{'1' * 20000}", "a int of its values cannot be written as JSON"),
        (f"a: {'1' * 5000}", "a value cannot be read"),
        ('a: "\\ud800"', "half of a surrogate pair"),
        ("a: &a [*a]", "it contains itself"),
        ("a: " + "{a: " * 3000, "nested too deeply"),
        (laughs(12, "a{i}: &a{i} [{before}]"), "stands for more than"),
        (laughs(12, "a{i}: &a{i} {{<<: [{before}]}}"), "stands for more than"),
    ],
    ids=lambda value: value[:25],
)
def test_refused(text: str, told: str) -> None:
    with pytest.raises(RuntimeEnvError) as caught:
        load_runtime_env(text)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert runtime_env_error(text) == str(caught.value)
