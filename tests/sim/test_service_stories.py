"""RayServices of all strategies while users change their minds, and nodes, dashboards, gateways, requests and operators fail: who is
served goes on being served (`kuberay_testkit.sim.service_rules`). `make sim` plays many more seeds.
"""

from __future__ import annotations

import pytest
from examples import LONG
from kuberay_testkit.sim.play import AUTOSCALER, CALM, GATEWAY_UPGRADE, TROUBLES, Plugins, play

STORIES = range(2000, 2004 if LONG else 2002)
"""Seeds whose RayServices have all strategies."""


@pytest.mark.parametrize("trouble", ["", "kills", "replicas", "dashboards-and-faults"])
@pytest.mark.parametrize("story", STORIES)
def test_rayservices_serve_what_their_users_said_last(story: int, trouble: str) -> None:
    """`play` checks the rules after every commit and every configuration that is taken, and at rest."""
    plugins = Plugins.load([AUTOSCALER, GATEWAY_UPGRADE])
    play(story, TROUBLES.get(trouble, CALM), plugins, clusters=0, jobs=0, services=2)


def test_the_slice_has_all_strategies_and_moves() -> None:
    """So that a change of the stories does not silently take them out of the short slice."""
    from kuberay_testkit.sim.service_story import ServiceStory
    from kuberay_testkit.sim.users import write_script

    scripts = [write_script(seed, clusters=0, jobs=0, services=2, incremental=True) for seed in range(2000, 2040)]
    told = {action.what for script in scripts for action in script.actions}
    strategies = {
        (story.spec.get("upgradeStrategy") or {}).get("type") for script in scripts for story in script.services
    }
    assert strategies == {None, "NewCluster", "None", "Rolling", "Recreate", "NewClusterWithIncrementalUpgrade"}
    assert len({what.rsplit(" ", 1)[0] for what in told}) > len(ServiceStory.MOVES)
