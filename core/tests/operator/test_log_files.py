"""The log file begins anew when it is full, and former ones go after ten, or after thirty days."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from kuberay.operator.log_files import KEPT, LARGEST, OLDEST, LogFile

DAY = 24 * 3600


def write(file: LogFile, text: str) -> None:
    file.emit(logging.LogRecord("x", logging.INFO, "", 0, text, None, None))


def test_the_numbers_are_kuberays() -> None:
    """operator.md 7."""
    assert (LARGEST, KEPT, OLDEST) == (500 * 1024 * 1024, 10, 30 * DAY)


def test_a_full_file_is_kept_under_a_number_and_ten_of_them_at_most(tmp_path: Path) -> None:
    file = LogFile(str(tmp_path / "operator.log"), largest=20)
    for number in range(15):
        write(file, f"message {number:02}...")
    file.close()
    assert {path.name for path in tmp_path.iterdir()} == {
        "operator.log",
        *(f"operator.log.{number}" for number in range(1, 11)),
    }
    assert (tmp_path / "operator.log").read_text() == "message 14...\n"
    assert (tmp_path / "operator.log.10").read_text() == "message 04...\n"


def test_what_is_older_than_thirty_days_goes_at_start_and_with_each_new_file(tmp_path: Path) -> None:
    now = time.time()
    for number, days in ((1, 1), (2, 29), (3, 31), (7, 400)):
        path = tmp_path / f"operator.log.{number}"
        path.write_text("old")
        os.utime(path, (now - days * DAY,) * 2)
    times = [now]
    file = LogFile(str(tmp_path / "operator.log"), largest=20, clock=lambda: times[0])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["operator.log", "operator.log.1", "operator.log.2"]
    write(file, "message 1.....")
    times[0] += 2 * DAY
    write(file, "message 2.....")
    file.close()
    # .2 became .3 and is 31 days old by now.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["operator.log", "operator.log.1", "operator.log.2"]
