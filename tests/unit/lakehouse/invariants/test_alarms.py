"""An alarm stands from when it was first seen until a check that looks for it does not find it any
more.
"""

from lakehouse.invariants.alarms import (
    EXPLANATIONS,
    Alarm,
    merged,
    of_commands_ahead,
    of_example,
    of_gap,
)
from lakehouse.invariants.rows import CounterExample

HOLE = of_gap("regent.commands", 0, 5, 6)
BREACH = of_example(
    CounterExample("epochs_only_grow", "broker-a", "regent.commands", 0, 9, "epoch 1 after 1")
)


def seen(alarm: Alarm, at_ms: int) -> list[Alarm]:
    return merged([], [alarm], at_ms, judged_anew=True)


def test_what_is_found_again_was_first_seen_before() -> None:
    for alarm in (HOLE, BREACH):
        [again] = merged(seen(alarm, 1_000), [alarm], 2_000, judged_anew=True)
        assert (again.first_seen_ms, again.stands) == (1_000, True)


def test_a_gap_that_is_gone_is_cleared_and_a_breach_only_when_all_was_judged_anew() -> None:
    before = [*seen(HOLE, 1_000), *seen(BREACH, 1_000)]
    assert [one.cleared_ms for one in merged(before, [], 2_000, judged_anew=False)] == [2_000, None]
    assert [one.cleared_ms for one in merged(before, [], 2_000, judged_anew=True)] == [2_000, 2_000]


def test_what_comes_back_is_another_alarm() -> None:
    cleared = merged(seen(HOLE, 1_000), [], 2_000, judged_anew=True)
    found = merged(cleared, [HOLE], 3_000, judged_anew=True)
    assert [(one.first_seen_ms, one.cleared_ms) for one in found] == [(1_000, 2_000), (3_000, None)]


def test_each_says_what_does_not_hold() -> None:
    for alarm in (HOLE, BREACH, of_commands_ahead("regent.commands", 7, 9)):
        assert alarm.explanation == EXPLANATIONS[alarm.invariant] and alarm.as_dict()["explanation"]
