"""Which labels and annotations of a RayJob its submitter Job and the submitter's pods get, too.

Source: cases.md RJ-32. What addresses a controller stays on the RayJob: a queue's label would queue the submitter again.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.plan.job.draft import Draft
from kuberay.plan.model import Manifest

_DOMAINS = (
    "ray.io",
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "volcano.sh",
    "yunikorn.apache.org",
    "kai.scheduler",
    "argoproj.io",
    "helm.sh",
    "fluxcd.io",
)
"""Reserved with their subdomains: keys by which the operator, Kubernetes, queues and what installs things steer."""
_RECOMMENDED = "app.kubernetes.io/"
"""Kubernetes' recommended labels name an application; people pick pods by them."""
_RESERVED = frozenset(
    (
        names.LABEL_CREATED_BY,
        "app.kubernetes.io/managed-by",
        "controller-uid",
        "job-name",
        "applicationid",
        "runai/queue",
    )
)


def pass_on(draft: Draft, manifest: Manifest) -> Manifest:
    """Add to *manifest* (a Job or a pod template) what it does not say itself. Turned off by a setting."""
    if not draft.observed.config.propagate_job_metadata:
        return manifest
    given = draft.obj.metadata
    metadata = manifest.setdefault("metadata", {})
    for field, values in (("labels", given.labels), ("annotations", given.annotations)):
        inherited = {key: value for key, value in values.items() if not reserved(key)}
        if inherited:
            metadata[field] = {**inherited, **(metadata.get(field) or {})}
    return manifest


def reserved(key: str) -> bool:
    """Whether a key of a RayJob is for the RayJob (and its RayCluster) alone."""
    if key in _RESERVED:
        return True
    domain, slash, _ = key.partition("/")
    if not slash or key.startswith(_RECOMMENDED):
        return False
    return any(domain == known or domain.endswith(f".{known}") for known in _DOMAINS)
