"""What a new pod or replica is called: the first free name of a fixed sequence, so that two actors collide.

Source: architecture "Names are deterministic", cases.md AS-03.
"""

from __future__ import annotations

from collections.abc import Collection

from kuberay.api.kinds import POD
from kuberay.api.names import suffix
from kuberay.api.objects import RayObject
from kuberay.plan.observed import View


class PodNamer:
    """Gives names for one pass over one cluster; each name is given once."""

    def __init__(self, obj: RayObject, view: View) -> None:
        self._namespace = obj.namespace
        self._seed = (obj.uid, obj.metadata.generation)
        self._view = view
        self._given: set[str] = set()

    def pod(self, generate_name: str, group: str, replica: int, host: int, avoid: str = "") -> str:
        """A pod name that no pod of the view has or is remembered to have had, and that is not *avoid*: whoever watches
        pods by name, as autoscaler v2 does, takes a reused one for the pod that has gone."""
        number = 0
        while True:
            name = generate_name + suffix(*self._seed, group, replica, host, number)
            if name != avoid and not self.taken(name) and not self._view.was_pod(self._namespace, name):
                self._given.add(name)
                return name
            number += 1

    def taken(self, name: str) -> bool:
        """Whether a pod of that name exists or was named in this pass."""
        return name in self._given or self._view.get(POD, self._namespace, name) is not None

    def replica(self, group: str, index: int, used: Collection[str]) -> str:
        """``<group>-<5 characters>``, not in *used*, and short enough for a label."""
        number = 0
        while (name := f"{group[:57]}-{suffix(*self._seed, group, index, 'replica', number)}") in used:
            number += 1
        return name
