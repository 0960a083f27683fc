"""Figures of groups that replicate by majority, from what the loads gave."""

from __future__ import annotations

from tests.bench.rows.majority_append import Turn, Turns, compared


def turns(per_core_s: float) -> Turns:
    return Turns([Turn(100.0, per_core_s, 3.0)] * 3, [Turn(50.0, per_core_s / 2, 9.0)] * 3)


def test_the_goal_is_twice_as_many_for_a_second_of_the_leaders_processor() -> None:
    figures = compared(turns(500.0), turns(200.0))
    judged = [one for one in figures if one.goal is not None]
    assert [(one.value, one.peer_value, one.reached) for one in judged] == [
        (500.0, 200.0, True),
        (250.0, 100.0, True),
    ]
    assert not any(one.reached for one in compared(turns(300.0), turns(200.0)) if one.goal)


def test_without_java_nothing_is_compared() -> None:
    assert {one.value for one in compared(turns(500.0), None)} == {None}
