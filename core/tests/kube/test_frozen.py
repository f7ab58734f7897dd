"""A frozen view shows what was there when it was made, whatever the store learns meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kuberay.api.kinds import POD
from kuberay.api.objects import Object, from_dict
from kuberay.kube.store import Store

OWNERS, NAMES = ("u1", "u2"), ("a", "b", "c")


def pod(name: str, uid: str, version: int, owner: str = "", **metadata: Any) -> Object:
    owners = [{"apiVersion": "v1", "kind": "X", "name": owner, "uid": owner, "controller": True}] if owner else []
    body = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(version), "ownerReferences": owners}
    return from_dict(POD, {"metadata": {**body, **metadata}})


def seen(view: Any) -> Any:
    """All that can be read, by identity: objects are never changed in place."""
    objects = {name: view.get(POD, "n", name) for name in NAMES}
    return objects, {owner: list(view.owned(owner, POD)) for owner in OWNERS}


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "remove", "mark", "replace"]), st.sampled_from(NAMES), st.sampled_from(["", *OWNERS])
    ),
    max_size=12,
)


def play(store: Store, moves: list[tuple[str, str, str]], first: int) -> None:
    for number, (move, name, owner) in enumerate(moves, start=first):
        known = store.get(POD, "n", name)
        if move == "upsert":
            store.upsert(POD, pod(name, known.uid if known else f"uid-{number}", number, owner))
        elif move == "replace":
            store.upsert(POD, pod(name, f"uid-{number}", number, owner))
        elif known is not None and move == "remove":
            store.remove(POD, "n", name, known.uid)
        elif known is not None:
            store.mark(POD, pod(name, known.uid, number, owner, deletionTimestamp="2026-01-01T00:00:00Z"))


@given(before=MOVES, meanwhile=MOVES)
def test_a_frozen_view_stays_as_it_is(before: Any, meanwhile: Any) -> None:
    store = Store()
    play(store, before, 1)
    with store.frozen() as view:
        was = seen(view)
        assert was == seen(store)
        play(store, meanwhile, 100)
        assert seen(view) == was
        with store.frozen() as later:
            assert seen(later) == seen(store)
    after = seen(store)
    play(store, [("upsert", "a", "u1")], 1000)
    assert seen(store) != after, "the store went on"


def test_a_view_that_was_closed_costs_nothing_any_more() -> None:
    store = Store()
    with store.frozen():
        pass
    assert store._frozen == []


@pytest.mark.parametrize("children", [200])
def test_a_thread_reads_while_the_store_changes(children: int) -> None:
    store = Store()
    for number in range(children):
        store.upsert(POD, pod(f"p{number}", f"uid-{number}", 1, "u1"))
    stop = threading.Event()
    wrong: list[Any] = []

    def read(view: Any) -> None:
        while not stop.is_set():
            found = view.owned("u1", POD)
            if len(found) != children or any(found[0] is not view.get(POD, "n", found[0].name) for _ in range(3)):
                wrong.append(len(found))

    with store.frozen() as view:
        reader = threading.Thread(target=read, args=(view,))
        reader.start()
        for version in range(2, 40):
            for number in range(children):
                store.upsert(POD, pod(f"p{number}", f"uid-{number}", version, "u1" if version % 2 else "u2"))
        for number in range(children):
            store.remove(POD, "n", f"p{number}", f"uid-{number}")
        stop.set()
        reader.join()
        assert wrong == []
        assert len(view.owned("u1", POD)) == children
    assert list(store.owned("u1", POD)) == []
