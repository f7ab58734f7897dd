"""What comes of a RayService with some edits made: its plan is played, first at once, then as far as it goes if all goes well."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.names import ANNOTATION_SERVE_CONFIG
from kuberay.cli.diff_job_world import Rules
from kuberay.cli.edited import edited
from kuberay.cli.service_world import SIDES, ServiceSituation, cluster_of, get_ready
from kuberay.operator.foresight import Foresight, Happening
from kuberay.plan.edit.changes import FieldChange

Manifest = dict[str, Any]

WARNING = "a warning is given: "
_MOMENTS = 100
_PLUMBING = ("Service ", "HTTPRoute ", "Gateway ", "Pod ")
"""What these are set to later follows from what is told of RayClusters."""


class Played:
    """What comes about in the world of *live* with *changes* made, and what stands there then. It is played at once as far as
    it goes at once, the rest only when somebody asks."""

    def __init__(self, live: ServiceSituation, changes: Sequence[FieldChange], rules: Rules) -> None:
        self._rules = rules
        self._foresight = foresight = live.edited(edited(live.service, changes, rules.now)).foresight(rules)
        told = [happening.what for happening in foresight.settle(rules.now)]
        self._told = len(told)
        self.at_once = [what for what in told if not what.startswith(WARNING)]
        self.warnings = [what.removeprefix(WARNING) for what in told if what.startswith(WARNING)]
        self.made: dict[str, Manifest] = {
            body["metadata"]["name"]: body["spec"] for body in foresight.world.created if body["kind"] == "RayCluster"
        }
        """Specs of the RayClusters that are made at once, by name."""
        self.status: Mapping[str, Any] = copy.deepcopy((foresight.body or {}).get("status") or {})
        """The RayService's, after what happens at once."""
        active = cluster_of(self.status, SIDES[0])
        serving = foresight.world.bodies.get((RAYCLUSTER, live.service["metadata"]["namespace"], active))
        self.serving: Manifest | None = copy.deepcopy(serving)
        """The RayCluster that serves, after what happens at once."""

    @property
    def later(self) -> list[Happening]:
        """Once RayClusters are ready and applications run, at the moments from then on."""
        return self._rest[0]

    @property
    def given(self) -> dict[str, str]:
        """By RayCluster, what its Serve is given in the end."""
        return self._rest[1]

    @cached_property
    def _rest(self) -> tuple[list[Happening], dict[str, str]]:
        foresight, rules = self._foresight, self._rules
        given = _given(foresight)
        foresight.around = lambda: get_ready(foresight, rules)
        foresight.settle(rules.now)
        given |= _given(foresight)
        later = foresight.look_ahead(rules.now, _MOMENTS)[self._told :]
        told = [each for each in later if not each.what.startswith((*_PLUMBING, WARNING))]
        return told, given | _given(foresight)


def _given(foresight: Foresight) -> dict[str, str]:
    found = {}
    for (kind, _, name), body in foresight.world.bodies.items():
        text = (body["metadata"].get("annotations") or {}).get(ANNOTATION_SERVE_CONFIG)
        if kind == RAYCLUSTER and text is not None:
            found[name] = text
    return found
