"""How the dashboard of one RayCluster is asked about Serve, and what tells one call from another.

Source: spec rayservice.md 2.9 and 2.10. Values only; `serving` says when.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from kuberay.api.names import ANNOTATION_SERVE_CONFIG, ANNOTATION_SERVE_CONFIG_GIVEN
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time, parse_time
from kuberay.plan.build.dashboard import dashboard_address, dashboard_token, head_service_of
from kuberay.plan.model import AuthSecret, Manifest, ServeConfigCall, ServeProbe
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.sides import Side


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Whom to ask."""

    address: str
    namespace: str
    service: str
    auth: AuthSecret | None

    def question(self, asked_for: str) -> ServeProbe:
        """How the applications are."""
        return ServeProbe(self.address, self.namespace, self.service, self.auth, asked_for=asked_for)

    def call(self, body: str, occasion: str) -> ServeConfigCall:
        """Here is your configuration."""
        return ServeConfigCall(self.address, body, self.namespace, self.service, self.auth, occasion=occasion)


def dashboard_of(draft: Draft, cluster: RayObject) -> Dashboard | None:
    """The dashboard of *cluster*; None while its head service does not offer one."""
    address = dashboard_address(draft.observed.view, cluster, draft.observed.config.cluster_domain)
    if address is None:
        return None
    return Dashboard(address, cluster.namespace, head_service_of(cluster), dashboard_token(cluster))


LONGEST = 128 * 1024
"""Annotations of an object have room for 256 KiB; of a longer text only a digest is kept."""
_DIGEST = "sha256:"


def stored_form(text: str) -> str:
    """What is stored of *text*."""
    raw = text.encode()
    return text if len(raw) <= LONGEST else f"{_DIGEST}{hashlib.sha256(raw).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Given:
    """What a RayCluster says it was given: text (or its digest), when, and by which start of its head."""

    text: str | None = None
    at: datetime | None = None
    head: str = ""

    def readable(self, present: str) -> str | None:
        """The text itself; None when it is not known, because none was given, or a long one that is not the *present* one."""
        if self.text is not None and self.text.startswith(_DIGEST):
            return present if self.text == stored_form(present) else None
        return self.text

    @property
    def mark(self) -> str:
        """Another value for each time something was given: an answer from before is no answer to this."""
        if self.text is None:
            return ""
        digest = hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()
        return f"{digest} {format_time(self.at) if self.at else ''} {self.head}"


def read_given(cluster: RayObject) -> Given:
    """What the annotations of *cluster* say."""
    annotations = cluster.metadata.annotations
    time, _, head = annotations.get(ANNOTATION_SERVE_CONFIG_GIVEN, "").partition(" ")
    try:
        at = parse_time(time)
    except ValueError:
        at = None
    return Given(annotations.get(ANNOTATION_SERVE_CONFIG), at, head)


def write_given(text: str, now: datetime, head: str) -> Manifest:
    """The annotations that say so."""
    return {ANNOTATION_SERVE_CONFIG: stored_form(text), ANNOTATION_SERVE_CONFIG_GIVEN: f"{format_time(now)} {head}"}


def head_start(side: Side) -> str:
    """Which start of which head it is: what Serve keeps in memory ends with it."""
    head = side.head
    if head is None:
        return ""
    return f"{head.uid}/{sum(container.restart_count for container in head.status.container_statuses)}"
