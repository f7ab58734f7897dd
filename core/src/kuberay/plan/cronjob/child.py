"""What the RayJob of one start looks like: its name, its labels and annotations, its spec.

Source: spec rayjob.md 5.3; cases.md CJ-01 (the name follows from the start) and CJ-03 (labels for queues and gangs).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime

from kuberay.api import names
from kuberay.api.cronjob import RayCronJobSpec
from kuberay.api.kinds import RAYCRONJOB, RAYJOB
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time
from kuberay.plan.build.context import owner_reference
from kuberay.plan.model import Manifest

_OWN_KEYS = frozenset(
    {
        # What the operator itself writes, and reads to know what an object is part of.
        names.LABEL_CRONJOB_NAME,
        names.ANNOTATION_SCHEDULED_TIMESTAMP,
        names.LABEL_CLUSTER,
        names.LABEL_ORIGIN_NAME,
        names.LABEL_ORIGIN_CRD,
        names.LABEL_SUBMISSION_MODE,
        names.LABEL_CREATED_BY,
        names.ANNOTATION_SUBMISSION_ID,
        # Who keeps the RayCronJob up to date does not keep its RayJobs: such tools delete what they find with their mark.
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/instance",
        "helm.sh/chart",
    }
)
_OWN_PREFIXES = (
    "kubectl.kubernetes.io/",
    "argocd.argoproj.io/",
    "meta.helm.sh/",
    "helm.sh/hook",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "objectset.rio.cattle.io/",
    "kapp.k14s.io/",
)


def child_name(cronjob: str, tick: datetime, *, dense: bool) -> str:
    """KubeRay's ``<name>-<minutes since 1970>``. Starts within a minute, of a *dense* schedule, carry their seconds."""
    seconds = int(tick.timestamp())
    return f"{cronjob}-{seconds if dense and seconds % 60 else seconds // 60}"


def child_labels(obj: RayObject, spec: RayCronJobSpec) -> dict[str, str]:
    """Those of the RayCronJob that are for its RayJobs too, those of the template, and the operator's."""
    return {**_passed_on(obj.metadata.labels), **spec.template_labels, names.LABEL_CRONJOB_NAME: obj.name}


def child_annotations(obj: RayObject, spec: RayCronJobSpec) -> dict[str, str]:
    """As `child_labels`; the one that tells the start comes on top."""
    return {**_passed_on(obj.metadata.annotations), **spec.template_annotations}


def build_child(obj: RayObject, spec: RayCronJobSpec, name: str, tick: datetime) -> Manifest:
    """The RayJob for *tick*."""
    return {
        "apiVersion": RAYJOB.api_version,
        "kind": RAYJOB.kind,
        "metadata": {
            "name": name,
            "namespace": obj.namespace,
            "labels": child_labels(obj, spec),
            "annotations": {
                **child_annotations(obj, spec),
                names.ANNOTATION_SCHEDULED_TIMESTAMP: format_time(tick),
            },
            "ownerReferences": [owner_reference(RAYCRONJOB, obj)],
        },
        "spec": copy.deepcopy(obj.spec["jobTemplate"]),
    }


def _passed_on(pairs: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in pairs.items() if key not in _OWN_KEYS and not key.startswith(_OWN_PREFIXES)}
