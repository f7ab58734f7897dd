"""The store: the newest version wins, writes are read back at once, removed objects stay removed, owners are indexed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from kuberay.api.kinds import POD, SERVICE, Kind
from kuberay.api.objects import Object, from_dict
from kuberay.kube.store import REMEMBERED, Store


def pod(name: str, version: int, *, uid: str = "", owner: str = "", **labels: str) -> Object:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": labels,
    }
    if owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "not-the-controller"},
            {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": owner, "uid": owner, "controller": True},
        ]
    return from_dict(POD, {"metadata": metadata})


class Heard:
    """A listener that notes (kind, version before, version after)."""

    def __init__(self, store: Store) -> None:
        self.changes: list[tuple[Kind, str | None, str | None]] = []
        store.subscribe(self._note)

    def _note(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        self.changes.append((kind, *(o.metadata.resource_version if o else None for o in (before, after))))


def held(store: Store, name: str = "a") -> str | None:
    obj = store.get(POD, "ns", name)
    return obj.metadata.resource_version if obj else None


@pytest.mark.parametrize(
    ("versions", "expected", "news"),
    [
        ([5, 7], "7", [True, True]),
        ([7, 5], "7", [True, False]),
        ([7, 7], "7", [True, False]),
        # Versions are numbers, not texts.
        ([9, 10], "10", [True, True]),
        ([10, 9], "10", [True, False]),
    ],
)
def test_the_higher_version_wins(versions: list[int], expected: str, news: list[bool]) -> None:
    store = Store()
    assert [store.upsert(POD, pod("a", version)) for version in versions] == news
    assert held(store) == expected
    assert store.count(POD) == 1


def test_listeners_hear_every_change_but_no_stale_one() -> None:
    store = Store()
    heard = Heard(store)
    store.upsert(POD, pod("a", 5))
    store.upsert(POD, pod("a", 7))
    store.upsert(POD, pod("a", 6))
    store.remove(POD, "ns", "a", "uid-a")
    store.remove(POD, "ns", "a", "uid-a")
    assert heard.changes == [(POD, None, "5"), (POD, "5", "7"), (POD, "7", None)]


def test_the_writers_own_answer_is_held_at_once_and_its_late_watch_event_is_no_news() -> None:
    store = Store()
    heard = Heard(store)
    store.upsert(POD, pod("a", 5), notify=False)
    assert held(store) == "5"
    assert not store.upsert(POD, pod("a", 5))
    assert heard.changes == []


def test_a_late_event_does_not_undo_a_write() -> None:
    store = Store()
    store.upsert(POD, pod("a", 5))
    store.upsert(POD, pod("a", 9, step="written"), notify=False)
    assert not store.upsert(POD, pod("a", 7, step="late"))
    written = store.get(POD, "ns", "a")
    assert written is not None
    assert written.metadata.labels == {"step": "written"}


def test_a_removed_object_does_not_come_back() -> None:
    store = Store()
    store.upsert(POD, pod("a", 5))
    assert store.remove(POD, "ns", "a", "uid-a")
    assert not store.upsert(POD, pod("a", 6)), "a late event of the same object"
    assert held(store) is None
    assert store.upsert(POD, pod("a", 8, uid="another")), "another object of that name"
    assert held(store) == "8"


def test_names_of_removed_pods_are_remembered() -> None:
    store = Store()
    store.upsert(POD, pod("a", 1))
    store.upsert(POD, pod("b", 2))
    assert not store.was_pod("ns", "a")
    store.remove(POD, "ns", "a", "uid-a")
    assert store.was_pod("ns", "a")
    assert not store.was_pod("ns", "b")
    assert not store.was_pod("other", "a")
    store.remove(POD, "ns", "b", "uid-of-another")
    assert not store.was_pod("ns", "b")


def test_an_object_removed_before_it_was_seen_does_not_appear() -> None:
    store = Store()
    assert not store.remove(POD, "ns", "a", "uid-a")
    assert not store.upsert(POD, pod("a", 6))
    assert held(store) is None


def test_an_object_that_left_a_watchs_selector_comes_back_when_it_matches_again() -> None:
    store = Store()
    store.upsert(POD, pod("a", 5))
    # Servers say DELETED, with the version of the change, when an object stops matching the selector.
    assert store.remove(POD, "ns", "a", "uid-a", at=8)
    assert held(store) is None
    assert not store.upsert(POD, pod("a", 7))
    assert store.upsert(POD, pod("a", 9))
    assert held(store) == "9"


@pytest.mark.parametrize("left_first", [True, False])
def test_an_object_that_left_one_watchs_selector_but_not_anothers_stays(left_first: bool) -> None:
    store = Store()
    store.upsert(POD, pod("a", 5, step="old"))
    moves = [
        lambda: store.remove(POD, "ns", "a", "uid-a", at=8),
        lambda: store.upsert(POD, pod("a", 8, step="new")),
    ]
    for move in moves if left_first else reversed(moves):
        move()
    obj = store.get(POD, "ns", "a")
    assert obj is not None
    assert obj.metadata.labels == {"step": "new"}


def test_the_delete_of_an_older_namesake_leaves_the_new_object() -> None:
    store = Store()
    store.upsert(POD, pod("a", 5, uid="old"))
    store.upsert(POD, pod("a", 8, uid="new"))
    assert not store.remove(POD, "ns", "a", "old")
    assert held(store) == "8"


def test_a_late_event_of_an_older_namesake_does_not_replace_the_new_object() -> None:
    store = Store()
    store.upsert(POD, pod("a", 8, uid="new", owner="o2"))
    assert not store.upsert(POD, pod("a", 6, uid="old", owner="o1"))
    assert held(store) == "8"
    assert store.owned("o1", POD) == ()


def test_replacement_by_another_uid_is_indexed_anew() -> None:
    store = Store()
    store.upsert(POD, pod("a", 5, uid="old", owner="o1"))
    store.upsert(POD, pod("a", 8, uid="new", owner="o2"))
    assert list(store.owned("o1", POD)) == []
    assert [o.uid for o in store.owned("o2", POD)] == ["new"]


def test_owned_lists_by_name_and_follows_re_parenting() -> None:
    store = Store()
    for number, name in enumerate(("c", "a", "b")):
        store.upsert(POD, pod(name, 5 + number, owner="o1"))
    store.upsert(SERVICE, from_dict(SERVICE, {"metadata": {"name": "s", "namespace": "ns", "uid": "s"}}))
    assert [o.name for o in store.owned("o1", POD)] == ["a", "b", "c"]
    assert list(store.owned("o1", SERVICE)) == []
    assert list(store.owned("not-the-controller", POD)) == []

    store.upsert(POD, pod("b", 10, owner="o2"))
    assert [o.name for o in store.owned("o1", POD)] == ["a", "c"]
    assert [o.name for o in store.owned("o2", POD)] == ["b"]

    store.upsert(POD, pod("b", 11))
    assert list(store.owned("o2", POD)) == []
    store.remove(POD, "ns", "a", "uid-a")
    assert [o.name for o in store.owned("o1", POD)] == ["c"]


def test_kinds_are_apart() -> None:
    store = Store()
    store.upsert(POD, pod("a", 5))
    assert store.get(SERVICE, "ns", "a") is None
    assert (store.count(POD), store.count(SERVICE)) == (1, 0)
    assert [o.name for o in store.all(POD)] == ["a"]


def test_a_full_list_removes_only_what_is_in_scope_and_not_younger() -> None:
    store = Store()
    heard = Heard(store)
    store.upsert(POD, pod("kept", 5, mine="yes"), notify=False)
    store.upsert(
        POD,
        pod(
            "gone",
            6,
            mine="yes",
        ),
        notify=False,
    )
    store.upsert(POD, pod("younger", 30, mine="yes"), notify=False)
    store.upsert(POD, pod("others", 7), notify=False)
    listed = [pod("kept", 5, mine="yes"), pod("new", 9, mine="yes")]
    differences = store.replace(POD, listed, 20, lambda obj: "mine" in obj.metadata.labels)
    assert differences == 2
    assert sorted(o.name for o in store.all(POD)) == ["kept", "new", "others", "younger"]
    assert heard.changes == [(POD, None, "9"), (POD, "6", None)]
    assert not store.upsert(POD, pod("gone", 8, mine="yes")), "a late event"


def test_a_full_list_does_not_undo_a_later_write() -> None:
    store = Store()
    store.upsert(POD, pod("a", 25), notify=False)
    assert store.replace(POD, [pod("a", 5)], 20, lambda _: True) == 0
    assert held(store) == "25"


def test_a_full_list_repairs_a_replacement_that_was_missed() -> None:
    store = Store()
    store.upsert(POD, pod("a", 5, uid="old"))
    assert store.replace(POD, [pod("a", 15, uid="new")], 20, lambda _: True) == 1
    assert held(store) == "15"


def test_mark_replaces_the_same_version_silently_and_only_the_same_object() -> None:
    store = Store()
    store.upsert(POD, pod("a", 5, owner="o1"))
    heard = Heard(store)
    store.mark(POD, pod("a", 5, owner="o1", marked="yes"))
    assert [o.metadata.labels for o in store.owned("o1", POD)] == [{"marked": "yes"}]
    store.mark(POD, pod("a", 5, uid="another"))
    store.mark(POD, pod("b", 5))
    marked = store.get(POD, "ns", "a")
    assert marked is not None
    assert marked.metadata.labels == {"marked": "yes"}
    assert heard.changes == []
    assert store.upsert(POD, pod("a", 6, owner="o1")), "the event that follows is news"


def test_a_version_from_before_a_marked_delete_does_not_bring_the_object_back_to_life() -> None:
    """A pod was deleted by what was known of it; the news that it runs is older than the delete, and arrives later."""
    store = Store()
    store.upsert(POD, pod("a", 1, uid="u"))
    held_now = store.get(POD, "ns", "a")
    assert held_now is not None
    metadata = msgspec.structs.replace(held_now.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
    store.mark(POD, msgspec.structs.replace(held_now, metadata=metadata))
    assert store.upsert(POD, pod("a", 2, uid="u"))
    found = store.get(POD, "ns", "a")
    assert found is not None
    assert found.deleting
    store.upsert(POD, pod("a", 3, uid="other"))
    found = store.get(POD, "ns", "a")
    assert found is not None
    assert not found.deleting


def test_a_kind_that_was_served_once_counts_as_served() -> None:
    store = Store()
    assert store.serves(SERVICE), "nothing is known of it"
    store.note_served(SERVICE, False)
    assert not store.serves(SERVICE)
    assert store.serves(POD)
    store.note_served(SERVICE, True)
    store.note_served(SERVICE, False)
    assert store.serves(SERVICE)


def test_what_has_gone_is_forgotten_when_every_kind_was_listed_again() -> None:
    now = 1000.0
    store = Store(lambda: now)
    store.upsert(POD, pod("a", 5))
    store.remove(POD, "ns", "a", "uid-a")
    now += REMEMBERED - 1
    store.upsert(POD, pod("b", 6))
    store.remove(POD, "ns", "b", "uid-b")
    store.forget_old()
    assert (store.was_pod("ns", "a"), store.was_pod("ns", "b")) == (True, True)
    assert not store.upsert(POD, pod("a", 7)), "it came back"

    now += 2
    store.forget_old()
    assert (store.was_pod("ns", "a"), store.was_pod("ns", "b")) == (False, True)
    assert not store.upsert(POD, pod("b", 8)), "it came back"
    assert store.upsert(POD, pod("a", 7))


def test_what_goes_again_is_remembered_from_then_on() -> None:
    now = 1000.0
    store = Store(lambda: now)
    store.remove(POD, "ns", "a", "uid-a", at=5)
    store.remove(POD, "ns", "b", "uid-b", at=6)
    now += REMEMBERED
    store.remove(POD, "ns", "a", "uid-a", at=9)
    now += 1
    store.forget_old()
    assert not store.upsert(POD, pod("a", 8)), "it came back"
    assert store.upsert(POD, pod("b", 4))
