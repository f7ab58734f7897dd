"""The page of limits says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kuberay.api.validation import cluster, cronjob, job, leaving, service
from kuberay.plan.cluster import not_ready
from kuberay.plan.job import conditions, message

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "limits.md").read_text()


def row(begins: str) -> str:
    """The second column of the row whose first column is *begins*."""
    found = re.search(rf"^\| {re.escape(begins)} \| ([^|]*) \|", PAGE, re.MULTILINE)
    assert found, f"no row {begins!r}"
    return found[1].replace(",", "")


@pytest.mark.parametrize(
    ("kinds", "most"),
    [
        ("RayCluster", {cluster.MAX_NAME}),
        ("RayJob, RayService", {job.MAX_NAME, service.MAX_NAME}),
        ("RayCronJob", {cronjob.MAX_NAME}),
    ],
)
def test_names(kinds: str, most: set[int]) -> None:
    assert most == {int(row(kinds).split()[0])}


def test_texts_and_times() -> None:
    assert str(conditions._MAX_SUMMARY) in row("last lines of a failed job's log")
    assert f"{conditions._LAST_LINES} lines" in row("last lines of a failed job's log")
    assert str(message.MAX_BYTES) in row("last lines of a failed job's log")
    assert row("lines of `PodsNotReady`").split()[0] == str(not_ready._MOST_LINES)
    assert leaving.MAX_DRAIN_SECONDS == 7 * 24 * 3600
    assert row("`drainTimeoutSeconds`") == "a week"
