"""What plugins have in common that a conformance suite is tried on: each is right but for one place, and caught there.

The sound ones make objects of one kind before pods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from kuberay.api.kinds import Kind
from kuberay.hooks import OwnerContext, PolicyRule, Watch, hookimpl

Manifest = dict[str, Any]


class MakesOneKind:
    """Declares what a plugin needs that makes objects of ``KIND`` before pods."""

    KIND: ClassVar[Kind]

    @hookimpl
    def rbac_rules(self) -> Sequence[PolicyRule]:
        verbs = ["create", "delete", "get", "list", "patch", "watch"]
        return [PolicyRule([self.KIND.group], [self.KIND.plural], verbs)]

    @hookimpl
    def watches(self) -> Sequence[Watch]:
        return [Watch(self.KIND)]


class MakesItBesidePods:
    """To be put before a sound one, whose objects then come too late: pods do not wait for `extra_resources`."""

    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        return None

    @hookimpl
    def extra_resources(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        found: Sequence[Manifest] | None = super().pre_create_pods(ctx)  # type: ignore[misc]
        return found


def assert_caught(case: Callable[[], None], words: str, error: type[Exception] = AssertionError) -> None:
    """By this very *case*, and in these *words*."""
    with pytest.raises(error) as caught:
        case()
    assert words in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
