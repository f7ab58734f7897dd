"""Which services are applied in a pass, and what is told about them.

Source: spec raycluster.md 2.5-2.7 and 7, cases.md RC-20: edits of type, ports and annotations reach owned services.
"""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import RAYCLUSTER, SERVICE
from kuberay.api.names import ANNOTATION_SERVE_SERVICE
from kuberay.plan.build.context import owner_reference
from kuberay.plan.build.head_once import head_submits
from kuberay.plan.build.services import (
    NO_SERVE_PORT,
    changes_headless,
    head_service,
    headless_service,
    keep_form,
    serve_service,
)
from kuberay.plan.cluster.deletions import failure
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.model import Apply, Create, Event, Write


def service_writes(cluster: ClusterPass) -> tuple[list[Write], list[Event]]:
    """Writes of all services the spec wants, and warnings about what cannot be done."""
    obj, spec = cluster.observed.obj, cluster.form.spec
    owner = owner_reference(RAYCLUSTER, obj)
    writes: list[Write] = []
    warnings: list[Event] = []
    head = _head_write(cluster, owner, warnings)
    if head is not None:
        writes.append(head)
    if any(group.num_of_hosts > 1 for group in spec.worker_group_specs):
        writes.append(_apply(cluster, headless_service(obj.name, obj.namespace, owner)))
    if obj.metadata.annotations.get(ANNOTATION_SERVE_SERVICE) == "true":
        body = serve_service(obj.name, obj.namespace, spec, owner)
        if body is None:
            if spec_is_news(cluster):
                warnings.append(Event("FailedToCreateService", NO_SERVE_PORT, type="Warning", action="Create"))
        else:
            writes.append(_apply(cluster, body, told=False))
    return writes, warnings


def spec_is_news(cluster: ClusterPass) -> bool:
    """Whether the status does not speak of this generation yet: the time to tell about the spec, once."""
    obj = cluster.observed.obj
    return obj.status.get("observedGeneration") != obj.metadata.generation


def _head_write(cluster: ClusterPass, owner: dict[str, Any], warnings: list[Event]) -> Write | None:
    obj, live = cluster.observed.obj, cluster.children.head_service
    cluster_ip = cluster.observed.config.head_cluster_ip_service
    submits = head_submits(obj.metadata.labels)
    body = head_service(obj.name, obj.namespace, cluster.form.spec, owner, cluster_ip=cluster_ip, submits=submits)
    if live is None:
        return _apply(cluster, body)
    if live.name not in cluster.children.services:
        return None  # Somebody else's service with our labels: used as it is.
    body["metadata"]["name"] = live.name
    if changes_headless(cluster.children.head_service_body, body):
        if spec_is_news(cluster):
            note = (
                f"Service {obj.namespace}/{live.name} cannot change between headless and not headless; "
                "delete it to have it made anew"
            )
            warnings.append(Event("ServiceNotUpdated", note, type="Warning", action="Update"))
        keep_form(body["spec"], cluster.children.head_service_body.get("spec") or {})
    return _apply(cluster, body)


def _apply(cluster: ClusterPass, body: dict[str, Any], *, told: bool = True) -> Write:
    """An apply; where a foreign service holds the name, a create, which says so instead of taking it over."""
    name = body["metadata"]["name"]
    place = f"service {cluster.namespace}/{name}"
    live = cluster.observed.view.get(SERVICE, cluster.namespace, name)
    # Only a service that is not there yet can be told as created; the fold counts on that.
    done = Event("CreatedService", f"Created {place}", action="Create") if told and live is None else None
    failed = failure("FailedToCreateService", f"Failed creating {place}", action="Create") if told else None
    if live is not None and name not in cluster.children.services:
        return Create(kind=SERVICE, namespace=cluster.namespace, name=name, body=body, done=done, failed=failed)
    updated = Event("UpdatedService", f"Updated {place}", action="Update") if told else None
    return Apply(
        kind=SERVICE,
        namespace=cluster.namespace,
        name=name,
        body=body,
        done=done,
        failed=failed,
        updated=updated,
        guarded=True,
    )
