"""Which Secrets with random content have to be made for plugins, and the changes of pods' annotations they ask for.

Source: hooks/types.py, `RandomSecret` and `PodAnnotations`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kuberay.api.kinds import POD, SECRET
from kuberay.api.names import LABEL_PLUGIN
from kuberay.hooks.types import PodAnnotations, RandomSecret
from kuberay.plan.model import Create, Event, Patch, Write
from kuberay.plan.observed import Observed


def random_secrets(
    observed: Observed, owner_reference: Mapping[str, Any], wanted: Iterable[tuple[str, RandomSecret]]
) -> list[Write]:
    """Creates of those that are not there. What others have under such a name is left alone, and fails the create."""
    obj = observed.obj
    writes: list[Write] = []
    for plugin, secret in wanted:
        live = observed.view.get(SECRET, obj.namespace, secret.name)
        controller = live.metadata.controller if live is not None else None
        if controller is not None and controller.uid == obj.uid:
            continue
        place = f"{obj.namespace}/{secret.name}"
        metadata = {
            "name": secret.name,
            "namespace": obj.namespace,
            "labels": {**secret.labels, LABEL_PLUGIN: plugin},
            "ownerReferences": [dict(owner_reference)],
        }
        writes.append(
            Create(
                kind=SECRET,
                namespace=obj.namespace,
                name=secret.name,
                body={"apiVersion": "v1", "kind": "Secret", "metadata": metadata},
                random_data=secret.keys,
                failed=_failed(place),
            )
        )
    return writes


def _failed(place: str) -> Callable[[str], Event]:
    def failed(error: str) -> Event:
        note = f"Failed creating Secret {place}, {error}"
        return Event("FailedToCreateSecret", note, type="Warning", action="Create")

    return failed


def pod_annotations(observed: Observed, wanted: Sequence[PodAnnotations]) -> list[Write]:
    """Patches of pods that do not say it yet. Pods that *observed.obj* does not control are not touched."""
    obj = observed.obj
    writes: list[Write] = []
    for note in wanted:
        pod = observed.view.get(POD, obj.namespace, note.pod)
        if pod is None or pod.metadata.controller is None or pod.metadata.controller.uid != obj.uid:
            continue
        annotations = pod.metadata.annotations
        if any(annotations.get(key) != value for key, value in note.annotations.items()):
            body = {"metadata": {"uid": pod.uid, "annotations": dict(note.annotations)}}
            writes.append(Patch(kind=POD, namespace=obj.namespace, name=pod.name, body=body, optional=True))
    return writes
