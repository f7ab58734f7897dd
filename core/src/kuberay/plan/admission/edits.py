"""Which problems of an edited object the edit made, so that nobody is kept from repairing or removing what was wrong before.

KubeRay refuses each edit of an object that breaks a rule, even the one that takes its finalizer off.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from kuberay.api.objects import RayObject
from kuberay.api.problems import Problem

_INDEX = re.compile(r"\[\d+\]")


def is_judged(before: RayObject, after: RayObject) -> bool:
    """Whether the edit touches anything that is judged: the spec, labels or annotations of an object that stays."""
    if after.deleting:
        return False
    old, new = before.metadata, after.metadata
    return (before.spec, old.labels, old.annotations) != (after.spec, new.labels, new.annotations)


def new_problems(before: Sequence[Problem], after: Sequence[Problem]) -> list[Problem]:
    """Those of *after* that are not among *before*. A problem is the same in another place of its list: entries move when
    one is taken out."""
    known = Counter(map(_same, before))
    found = []
    for problem in after:
        key = _same(problem)
        if known[key]:
            known[key] -= 1
        else:
            found.append(problem)
    return found


def _same(problem: Problem) -> tuple[str, str]:
    return _INDEX.sub("[]", problem.path), _INDEX.sub("[]", problem.message)
