from datetime import UTC, datetime, timedelta

from kuberay.api.conditions import find_condition, is_true, remove_condition, set_condition

T0 = datetime(2024, 1, 1, tzinfo=UTC)
T1 = T0 + timedelta(minutes=1)


def test_new_condition_is_sorted_in_by_type() -> None:
    first = set_condition([], "Zeta", "True", "Because", "text", T0)
    both = set_condition(first, "Alpha", "False", "Reason", "", T1, generation=3)
    assert both == [
        {
            "type": "Alpha",
            "status": "False",
            "reason": "Reason",
            "message": "",
            "lastTransitionTime": "2024-01-01T00:01:00Z",
            "observedGeneration": 3,
        },
        {
            "type": "Zeta",
            "status": "True",
            "reason": "Because",
            "message": "text",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        },
    ]


def test_time_moves_only_with_the_status() -> None:
    conditions = set_condition([], "Ready", "False", "A", "one", T0)
    changed = set_condition(conditions, "Ready", "False", "B", "two", T1)
    assert changed[0]["lastTransitionTime"] == "2024-01-01T00:00:00Z"
    assert (changed[0]["reason"], changed[0]["message"]) == ("B", "two")
    flipped = set_condition(changed, "Ready", "True", "C", "", T1)
    assert flipped[0]["lastTransitionTime"] == "2024-01-01T00:01:00Z"


def test_lists_are_not_changed_in_place() -> None:
    conditions = set_condition([], "Ready", "False", "A", "", T0)
    before = [dict(condition) for condition in conditions]
    set_condition(conditions, "Ready", "True", "B", "", T1)
    assert remove_condition(conditions, "Ready") == []
    assert conditions == before


def test_looking_up() -> None:
    conditions = set_condition([], "Ready", "True", "A", "", T0)
    assert is_true(conditions, "Ready")
    assert not is_true(conditions, "Other")
    assert find_condition(conditions, "Other") is None


def test_long_messages_fit_the_schema() -> None:
    assert len(set_condition([], "Ready", "False", "A", "x" * 40_000, T0)[0]["message"]) == 32_768
