"""What the operator may not do at present, who waits for it, and when it may again.

A permission that was taken away is asked for every few seconds, once for all objects that need it, so that they go on soon after it
is given back, however long their own back-off has become by then.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, ForbiddenError, raise_for_status
from kuberay.kube.transport import TransportError
from kuberay.operator.keys import Key

log = logging.getLogger("kuberay.operator.refusals")

ASK_EVERY = 3.0
"""Seconds between two rounds of reviews of refused permissions."""
ASKED_AT_ONCE = 20
"""Reviews in a round, small requests one after the other; a role that lost something everywhere is missed in each namespace."""
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NOT_PERMITTED = "NotPermitted"
"""Reason of the event."""

# The API server's own words; quotas and admission, which refuse with 403 too, have others.
_WORDS = re.compile(
    r'cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)


@dataclass(frozen=True, slots=True)
class Permission:
    """One that a role can give. ``resource`` may be ``pods/resize``; no namespace: all of them."""

    verb: str
    group: str
    resource: str
    namespace: str = ""

    @property
    def kind(self) -> tuple[str, str, str]:
        """What it is in any namespace."""
        return self.verb, self.group, self.resource

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group and "/" not in self.resource else self.resource
        return f"{self.verb} {kind} {f'in namespace {self.namespace}' if self.namespace else 'in all namespaces'}"

    @property
    def sentence(self) -> str:
        """For users, in a form that stays the same while it is so."""
        return (
            f"the operator may not {self}: nothing that runs is touched, and what needs it waits. Its role was changed; "
            "`kuberay rbac` prints what it needs"
        )

    def review(self) -> bytes:
        """A SelfSubjectAccessReview."""
        resource, _, subresource = self.resource.partition("/")
        wanted = {"verb": self.verb, "group": self.group, "resource": resource, "subresource": subresource}
        wanted["namespace"] = self.namespace
        attributes = {name: value for name, value in wanted.items() if value}
        return orjson.dumps(
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes},
            }
        )


def missing_permission(error: BaseException | None) -> Permission | None:
    """Which permission the API server missed; None for any other error."""
    found = _WORDS.search(error.message) if isinstance(error, ForbiddenError) else None
    if found is None:
        return None
    return Permission(found["verb"], found["group"], found["resource"], found["namespace"] or "")


class Refusals:
    """Run `run()` as a task."""

    def __init__(self, client: Client, again: Callable[[Key], None], *, known: Callable[[Key], bool]) -> None:
        """*again* is called with each object that can go on; *known* says whether it is still there."""
        self._client = client
        self._again = again
        self._known = known
        self._waiting: dict[Permission, set[Key]] = {}
        """Whoever waits for each; those asked for longest ago come first."""
        self._refused = asyncio.Event()

    def note(self, key: Key, error: BaseException | None) -> Permission | None:
        """*key* got that error. Returns the permission that it waits for, if it is one."""
        permission = missing_permission(error)
        if permission is None:
            return None
        if permission not in self._waiting:
            log.warning("%s", permission.sentence)
            self._waiting[permission] = set()
        self._waiting[permission].add(key)
        self._refused.set()
        return permission

    async def run(self) -> None:
        """Ask until cancelled; costs nothing while nothing is refused."""
        while True:
            await self._refused.wait()
            await asyncio.sleep(ASK_EVERY)
            await self._ask()
            if not self._waiting:
                self._refused.clear()

    async def _ask(self) -> None:
        """One round. Where something was given back, everything of its kind is asked for: most likely it was all one role."""
        pending = deque(list(self._waiting)[:ASKED_AT_ONCE])
        asked: set[Permission] = set()
        extended: set[tuple[str, str, str]] = set()
        while pending:
            permission = pending.popleft()
            keys = self._waiting.get(permission, set())
            keys.intersection_update([key for key in keys if self._known(key)])
            if not keys:
                self._waiting.pop(permission, None)
            elif permission not in asked:
                asked.add(permission)
                given = await self._given_back(permission)
                # To the end of the line, with whoever has come meanwhile.
                self._waiting[permission] = self._waiting.pop(permission)
                if given:
                    self._go_on(permission)
                    if permission.kind not in extended:
                        extended.add(permission.kind)
                        pending.extend(other for other in self._waiting if other.kind == permission.kind)

    def _go_on(self, permission: Permission) -> None:
        keys = self._waiting.pop(permission)
        log.info("the operator may %s again; %d objects go on", permission, len(keys))
        for key in sorted(keys, key=str):
            self._again(key)

    async def _given_back(self, permission: Permission) -> bool:
        try:
            response = await self._client.transport.request("POST", REVIEW, body=permission.review())
            raise_for_status(response)
            return bool((orjson.loads(response.body).get("status") or {}).get("allowed"))
        except (ApiError, TransportError, orjson.JSONDecodeError) as error:
            # Their own back-off brings the objects back, too.
            log.debug("whether the operator may %s cannot be asked: %s", permission, error)
            return False
