"""YuniKorn keeps what every gang scheduler promises: its gang is written on each pod, and it holds the places itself."""

from __future__ import annotations

import json

from kuberay.hooks.types import Manifest
from kuberay_testkit.conformance import GangSchedulerConformance, SchedulerUnderTest
from kuberay_yunikorn.task_groups import ANNOTATION_GROUPS


def gang_of(pod: Manifest) -> str:
    """A gang is an application; a pod that carries no task groups is in none."""
    metadata = pod["metadata"]
    in_gang = ANNOTATION_GROUPS in (metadata.get("annotations") or {})
    return str(metadata["labels"]["applicationId"]) if in_gang else ""


class TestYunikorn(GangSchedulerConformance):
    def scheduler(self) -> SchedulerUnderTest:
        return SchedulerUnderTest(
            plugin="yunikorn",
            scheduler_name="yunikorn",
            gang_of=gang_of,
            gang_size=lambda pod: sum(
                group["minMember"] for group in json.loads(pod["metadata"]["annotations"][ANNOTATION_GROUPS])
            ),
            opt_in_labels={"ray.io/gang-scheduling-enabled": "true"},
            sizes="minimum",
            counts_submitter=True,
            reserves="placeholders",
        )
