"""How many seeds the simulations play: a fixed short slice by default, a longer one in `make sim`, as many as one likes with
``--sim-seeds``, one with ``--sim-seed``.
"""

from __future__ import annotations

import pytest
from boundaries import Kills, share_of
from examples import LONG

DEFAULT_SEEDS = 5 if LONG else 2


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("simulation")
    group.addoption("--sim-seeds", type=int, default=DEFAULT_SEEDS, help="play seeds 0 to N-1 (default: %(default)s)")
    group.addoption("--sim-seed", type=int, default=None, help="play only this seed: the replay of a failure")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--sim-seed")
        metafunc.parametrize("seed", range(metafunc.config.getoption("--sim-seeds")) if only is None else [only])


@pytest.fixture
def kills(seed: int, request: pytest.FixtureRequest) -> Kills:
    """Request boundaries at which the operator is killed."""
    return share_of(
        seed, request.config.getoption("--sim-seeds") if request.config.getoption("--sim-seed") is None else 1
    )
