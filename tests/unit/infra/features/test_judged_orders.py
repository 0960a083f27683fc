"""What orderly consumers are promised."""

from __future__ import annotations

from infra.features.counts import Blow, Counts, Sent
from infra.features.judged_orders import Handed, judge_orders

QUEUE = ("a", 0)


def sent(*numbers: int, calls: int = 1) -> dict[int, Sent]:
    return {number: Sent(0, 0, calls, answered_ms=5) for number in numbers}


def handed(*rows: tuple[int, int, int]) -> list[Handed]:
    """(offset, number, when)."""
    return [Handed(QUEUE, offset, number, at_ms, "h:1") for offset, number, at_ms in rows]


def judged(messages: dict[int, Sent], rows: list[Handed], blows: tuple[Blow, ...] = ()) -> Counts:
    counts = Counts("orders")
    judge_orders(counts, messages, rows, blows)
    return counts


def test_each_once_and_in_turn_is_good() -> None:
    found = judged(sent(0, 8), handed((0, 0, 10), (1, 8, 20)))
    assert (found.good, found.lost, found.wrong, found.twice_ms) == (2, [], [], [])


def test_what_was_acknowledged_and_nobody_got_is_lost() -> None:
    assert judged(sent(0, 8), handed((0, 0, 10))).lost == [8]


def test_an_earlier_one_behind_a_later_one_is_out_of_order() -> None:
    found = judged(sent(0, 8), handed((0, 8, 10), (1, 0, 20)))
    assert found.wrong == ["0 was handed out behind 8"]


def test_a_place_that_is_handed_out_again_needs_somebody_who_was_hit() -> None:
    rows = handed((0, 0, 10), (0, 0, 30))
    assert judged(sent(0), rows, (Blow(20, 20),)).twice_ms == [10]
    unhit = judged(sent(0), rows)
    assert unhit.unhit == [0] and unhit.wrong == [
        "0 was handed out twice, and nobody was hit between"
    ]


def test_another_message_at_the_same_place_is_wrong() -> None:
    assert judged(sent(0, 8), handed((0, 0, 10), (0, 8, 20))).wrong == [
        "one place had 0, and then 8"
    ]


def test_a_message_that_was_sent_twice_may_stand_in_its_queue_twice() -> None:
    rows = handed((0, 0, 10), (1, 0, 20), (2, 8, 30))
    assert judged(sent(0, 8, calls=2), rows).wrong == []
    assert judged(sent(0, 8), rows).wrong == ["0 stands in its queue 2 times"]


def test_what_nobody_sent_is_wrong() -> None:
    assert judged(sent(0), handed((0, 0, 10), (1, 99, 20))).wrong == ["nobody sent 99"]
