"""How many seeds the simulations play: a fixed short slice by default, more with ``--sim-seeds``, one with ``--sim-seed``."""

from __future__ import annotations

import pytest

DEFAULT_SEEDS = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--sim-seeds", type=int, default=DEFAULT_SEEDS, help="play seeds 0 to N-1 (default: %(default)s)")
    group.addoption("--sim-seed", type=int, default=None, help="play only this seed: the replay of a failure")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--sim-seed")
        metafunc.parametrize("seed", range(metafunc.config.getoption("--sim-seeds")) if only is None else [only])
