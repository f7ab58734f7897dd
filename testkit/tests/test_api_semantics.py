"""The simulated API server passes the same cases as a real one."""

import pytest
from kuberay_testkit.conformance import api_semantics
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.world import SimWorld


@pytest.mark.parametrize("case", api_semantics.cases(), ids=lambda case: case.__name__.removeprefix("case_"))
def test_case(case):
    async def main():
        async with SimWorld() as world:
            await case(world.transport("tests"), "conformance")

    run_sim(main)
