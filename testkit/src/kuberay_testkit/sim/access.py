"""Who may do what: RBAC rules per client, and the access reviews a client asks about itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from kuberay.api.kinds import Kind

from kuberay_testkit.sim.calls import Call, missing_permissions
from kuberay_testkit.sim.environment import Outcome
from kuberay_testkit.sim.paths import Subject
from kuberay_testkit.sim.status import forbidden

REVIEW = ("authorization.k8s.io", "selfsubjectaccessreviews")


class Access:
    """Clients without rules may do everything."""

    def __init__(self) -> None:
        self.rules: dict[str, Sequence[Mapping[str, Any]]] = {}

    def _allows(self, subject: Subject) -> bool:
        rules = self.rules.get(subject.client)
        if rules is None:
            return True
        call = Call(
            verb=subject.verb,
            group=subject.group,
            resource=subject.resource,
            subresource=subject.subresource,
            namespace=subject.namespace,
            name=subject.name,
            status=0,
            manager="",
            client=subject.client,
            at=0.0,
        )
        return not missing_permissions([call], rules)

    def check(self, subject: Subject) -> None:
        """Raise a 403. Discovery, health and reviews of one's own access are free."""
        free = subject.resource.startswith("/") or (subject.group, subject.resource) == REVIEW
        if free or self._allows(subject):
            return
        verb = "patch" if subject.verb == "apply" else subject.verb
        where = f' in the namespace "{subject.namespace}"' if subject.namespace else " at the cluster scope"
        resource = f"{subject.resource}/{subject.subresource}" if subject.subresource else subject.resource
        why = f'User "{subject.client}" cannot {verb} resource "{resource}" in API group "{subject.group}"{where}'
        raise forbidden(Kind(subject.group, "", subject.resource, ""), subject.name, why)

    def review(self, review: Any, client: str) -> Outcome:
        """Answer a SelfSubjectAccessReview."""
        wanted = (review.get("spec") or {}).get("resourceAttributes") or {}

        def part(name: str) -> str:
            return str(wanted.get(name, ""))

        subject = Subject(
            part("verb"), part("group"), part("resource"), part("subresource"), part("namespace"), part("name"), client
        )
        body = {**review, "status": {"allowed": self._allows(subject)}}
        return Outcome(201, orjson.dumps(body), changed=False)
