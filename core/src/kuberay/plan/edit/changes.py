"""Which fields an edit of a RayCluster changes, under the paths users would give them.

Lists of named things are compared by name (``spec.workerGroupSpecs[gpu].template.spec.containers[ray-worker].image``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_NAMES = ("groupName", "name", "mountPath", "containerPort", "port", "key", "ip")
"""Fields that tell the items of a list apart, the first that all items have."""


@dataclass(frozen=True, slots=True)
class Place:
    """An item of a list: by name or by number."""

    label: str
    item: Mapping[str, Any] | None = None
    """What names it, for example ``{"groupName": "gpu"}``."""

    def matches(self, number: int, item: Any) -> bool:
        """Whether this is the place of the item with that number."""
        if self.item is None:
            return str(number) == self.label
        return isinstance(item, Mapping) and all(item.get(key) == value for key, value in self.item.items())


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field before and after; None where it is absent."""

    steps: tuple[str | Place, ...]
    before: Any
    after: Any
    named_by: str = ""
    """Set where only the order of a list changes: the field whose values ``before`` and ``after`` list."""

    @property
    def path(self) -> str:
        """For example ``spec.workerGroupSpecs[gpu].replicas``."""
        path = ""
        for step in self.steps:
            if isinstance(step, Place):
                path += f"[{step.label}]"
            elif "." in step or "/" in step:
                path += f"[{step}]"
            else:
                path += f".{step}" if path else step
        return path

    @property
    def group(self) -> str:
        """The worker group it belongs to, ``headgroup`` for the head's, empty for those of the cluster."""
        if len(self.steps) > 1 and self.steps[1] == "headGroupSpec":
            return "headgroup"
        if len(self.steps) > 2 and self.steps[1] == "workerGroupSpecs" and isinstance(self.steps[2], Place):
            return self.steps[2].label
        return ""

    @property
    def in_group(self) -> tuple[str, ...]:
        """The steps below the group, or below ``spec``; places of lists left out."""
        below = 2 if self.group == "headgroup" else 3 if self.group else 1
        return tuple(step for step in self.steps[below:] if isinstance(step, str))

    def made_in(self, manifest: Mapping[str, Any], *, backwards: bool = False) -> Mapping[str, Any]:
        """A copy of *manifest* with this one change made, or taken back: for asking a rule whether the field counts."""
        value = self.before if backwards else self.after
        changed = _put(manifest, self.steps, value, self.named_by)
        assert isinstance(changed, Mapping)
        return changed


def _put(node: Any, steps: Sequence[str | Place], value: Any, named_by: str) -> Any:
    """*node* with *value* at *steps*; only what lies on the way is copied."""
    if not steps:
        if not named_by or not isinstance(node, list):
            return value
        order = {name: number for number, name in enumerate(value)}
        return sorted(node, key=lambda item: order.get(str(item[named_by]), len(order)))
    step, below = steps[0], steps[1:]
    if isinstance(step, str):
        children = dict(node) if isinstance(node, Mapping) else {}
        child = _put(children.get(step), below, value, named_by)
        if child is None:
            children.pop(step, None)
        else:
            children[step] = child
        return children
    items = list(node) if isinstance(node, list) else []
    at = next((number for number, item in enumerate(items) if step.matches(number, item)), None)
    child = _put(items[at] if at is not None else None, below, value, named_by)
    if at is None:
        return items if child is None else [*items, child]
    items[at : at + 1] = [] if child is None else [child]
    return items


def field_changes(before: Any, after: Any, steps: tuple[str | Place, ...]) -> Iterator[FieldChange]:
    """All fields in which the two differ, in the order of the newer one."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*after, *(key for key in before if key not in after)]:
            yield from field_changes(before.get(key), after.get(key), (*steps, key))
    elif isinstance(before, list | None) and isinstance(after, list | None) and (before or after):
        yield from _list_changes(before or [], after or [], steps)
    else:
        yield FieldChange(steps, before, after)


def _list_changes(before: list[Any], after: list[Any], steps: tuple[str | Place, ...]) -> Iterator[FieldChange]:
    key = _naming_field(before, after)
    if key:
        old = {str(item[key]): item for item in before}
        new = {str(item[key]): item for item in after}
        for label in [*new, *(label for label in old if label not in new)]:
            item = new.get(label, old.get(label))
            assert item is not None
            place = Place(label, {key: item[key]})
            yield from field_changes(old.get(label), new.get(label), (*steps, place))
        kept_before = [label for label in old if label in new]
        kept_after = [label for label in new if label in old]
        if kept_before != kept_after:
            yield FieldChange(steps, kept_before, kept_after, named_by=key)
    elif len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from field_changes(one, other, (*steps, Place(str(number))))
    else:
        yield FieldChange(steps, before or None, after or None)


def _naming_field(*lists: Sequence[Any]) -> str:
    """The field by which the items of all these lists can be told apart; empty when there is none."""
    for key in _NAMES:
        if all(isinstance(item, Mapping) and key in item for items in lists for item in items) and all(
            len({str(item[key]) for item in items}) == len(items) for items in lists
        ):
            return key
    return ""
