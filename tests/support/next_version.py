"""The operator as a later version of it might be: `python next_version.py run …` builds pods and services that differ a little.

What differs is what versions differ in: an environment variable and a label of pods, an annotation of services, and the version
that is noted on what is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.cli.main import main
from kuberay.operator import start
from kuberay.plan.build import services
from kuberay.plan.build.pods import PodFactory, PodPlace

VERSION = "99.0.0"
MARK = "example.com/later"
VARIABLE = "SET_BY_A_LATER_VERSION"


def build_differently() -> None:
    """Have this process build as that version would."""
    build_pod, build_service = PodFactory._build_core, services._service

    def pod(self: PodFactory, place: PodPlace, forced: Mapping[str, str]) -> dict[str, Any]:
        body = build_pod(self, place, forced)
        body["metadata"].setdefault("labels", {})[MARK] = "true"
        body["spec"]["containers"][0].setdefault("env", []).append({"name": VARIABLE, "value": "1"})
        return body

    def service(*arguments: Any) -> dict[str, Any]:
        body = build_service(*arguments)
        body["metadata"].setdefault("annotations", {})[MARK] = "true"
        return body

    PodFactory._build_core = pod  # type: ignore[method-assign]
    services._service = service  # type: ignore[assignment]
    start.operator_version = lambda: VERSION


if __name__ == "__main__":
    build_differently()
    main()
