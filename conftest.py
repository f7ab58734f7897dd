"""All tests: the garbage collector leaves alone what lives as long as the process, as in the operator itself (`kuberay.operator.start`).

A test makes thousands of short-lived objects and hardly any cycles; with Python's defaults a sixth of the time goes into looking at
the same modules again and again.
"""

from __future__ import annotations

import gc

gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
