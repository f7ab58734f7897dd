"""What KubeRay left running, and this operator starts: nothing is deleted, restarted or made anew, and statuses go on.

Every recorded case of KubeRay 1.7 is loaded as it was, before an operator runs.
"""

from __future__ import annotations

import pytest
from golden_scope import CASES
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, RAYSERVICE
from sim_takeover import AREAS, CHANGED, CONTROLLED, CORRECTED, NOT_LOADED, Takeover, play

LOADED = [name for name in CASES if name.partition("/")[0] in AREAS and name not in NOT_LOADED]


@pytest.mark.parametrize("name", [name for name in LOADED if name not in CHANGED])
def test_what_runs_is_left_alone(name: str) -> None:
    """RS-02 and RC-04 for another operator's objects."""

    async def story(takeover: Takeover) -> None:
        await takeover.load(**({"jobStatusCheckFailureStartTime": None} if name.startswith("rayjob/") else {}))
        await takeover.start()
        takeover.expect_untouched()
        for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE):
            for key in [key for key in takeover.before if key[0] == kind.kind]:
                takeover.expect_status_kept(kind, key[1])
        if name.startswith("raycluster/"):
            assert not [call for call in await takeover.operator.idle_calls() if call.changed], "it comes to rest"

    play(name, story)


@pytest.mark.parametrize("name", CHANGED)
def test_where_it_differs_on_purpose_it_does_so_at_once(name: str) -> None:
    async def story(takeover: Takeover) -> None:
        await takeover.load()
        await takeover.start()
        expected = CHANGED[name]
        assert takeover.gone() == list(expected.get("deleted", ()))
        assert takeover.made() == list(expected.get("made", ()))

    play(name, story)


def test_every_recorded_case_is_accounted_for() -> None:
    named = {*NOT_LOADED, *CHANGED, *CORRECTED, *CONTROLLED}
    assert named <= set(CASES)
    assert {name.partition("/")[0] for name in LOADED} == set(AREAS)
