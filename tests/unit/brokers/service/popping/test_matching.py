"""Check points and acknowledgements of one revive queue."""

import pytest

from brokers.service.popping import matching
from brokers.service.popping.matching import MARGIN_MS, OpenPoints
from brokers.service.popping.records import Ack, CheckPoint, Key


def point(start: int = 0, count: int = 2, topic: str = "T", done: int = 0) -> CheckPoint:
    offsets = tuple(range(start, start + count))
    return CheckPoint(Key(topic, "g", 0, start, 1_000, "b"), 9_000, offsets, done)


def test_59_what_nobody_acknowledged_is_due_when_all_its_records_can_be_there() -> None:
    points = OpenPoints(0, -1)
    first = points.check_point(point(), 0)
    points.read_until(10_000 + MARGIN_MS)
    assert points.due(20_000) is None
    points.read_until(10_001 + MARGIN_MS)
    assert points.due(10_000 + MARGIN_MS) is None  # the clock stepped back
    assert points.due(20_000) is first and list(first.left) == [0, 1]


def test_60_what_is_acknowledged_in_any_order_is_never_due() -> None:
    points = OpenPoints(0, -1)
    points.check_point(point(count=3), 0)
    assert points.ack(Ack(point().key, (2,))) and points.ack(Ack(point().key, (0, 1)))
    assert not points.ack(Ack(point().key, (0,))) and points.open == 0
    points.read_until(60_000)
    assert points.due(60_000) is None and points.safe(0) == 0


def test_an_acknowledgement_of_a_message_that_is_not_of_it_changes_nothing() -> None:
    points = OpenPoints(0, -1)
    known = points.check_point(point(), 0)
    assert points.ack(Ack(point().key, (77,))) and list(known.left) == [0, 1]


def test_an_acknowledgement_in_front_of_its_check_point_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "OVER_MAX", 2)
    points = OpenPoints(0, -1)
    points.ack(Ack(point(7, topic="forgotten").key, (7, 8)))
    points.ack(Ack(point().key, (1,)))
    points.ack(Ack(point(5).key, (5, 6)))
    assert list(points.check_point(point(), 3).left) == [0]
    assert not points.check_point(point(5), 4).is_open
    assert points.check_point(point(7, topic="forgotten"), 5).is_open


def test_messages_done_before_are_not_due() -> None:
    points = OpenPoints(0, -1)
    assert list(points.check_point(point(done=1), 0).left) == [1]
    points.check_point(point(5, done=3), 1)
    assert points.open == 1


def test_a_second_check_point_of_the_same_pop_adds_nothing() -> None:
    points = OpenPoints(0, -1)
    first = points.check_point(point(), 3)
    points.check_point(point(), 4)
    points.read_until(60_000)
    assert points.due(60_000) is first
    points.settle(first, 100)
    assert points.due(60_000) is None
    assert points.safe(99) == -1 and points.safe(100) == 4
    assert not points.check_point(point(), 5).is_open  # it came back already
    noted_anew = CheckPoint(point().key, 19_000, (0,), re_puts=1)
    assert points.check_point(noted_anew, 6).is_open


@pytest.mark.parametrize("larger_first", [False, True])
def test_59_check_points_of_one_name_lose_no_message_of_either(larger_first: bool) -> None:
    # given: a change of the invisible time of the message at 8, and a pop of it and the next one,
    # in one millisecond
    changed = CheckPoint(Key("T", "g", 0, 8, 1_000, "b"), 1_000, (8,))
    popped = CheckPoint(changed.key, 9_000, (8, 9))
    points = OpenPoints(0, -1)
    both = (popped, changed) if larger_first else (changed, popped)
    known = [points.check_point(one, at) for at, one in enumerate(both)]
    # when: the time of both is over, and nothing was acknowledged
    points.read_until(60_000)
    due = []
    while (one := points.due(60_000)) is not None:
        due.append((one.point.invisible_ms, list(one.left)))
        assert points.safe(100) < known.index(one)
        points.settle(one, 50)
    # then: each message comes back, once, and not before the time of its own
    assert due == ([(9_000, [8, 9])] if larger_first else [(1_000, [8]), (9_000, [9])])
    assert points.open == 0 and points.safe(100) == 1


def test_60_an_acknowledgement_is_of_all_check_points_of_its_name() -> None:
    key = Key("T", "g", 0, 8, 1_000, "b")
    points = OpenPoints(0, -1)
    points.check_point(CheckPoint(key, 1_000, (8,)), 0)
    rest = points.check_point(CheckPoint(key, 9_000, (8, 9)), 1)
    assert points.ack(Ack(key, (8,))) and rest.is_open
    assert points.ack(Ack(key, (9,))) and points.open == 0
    # and what comes twice of either adds nothing
    assert not points.check_point(CheckPoint(key, 9_000, (8, 9)), 2).is_open


def test_a_check_point_that_waits_again_is_not_done_by_another_one_of_its_name() -> None:
    key = Key("T", "g", 0, 8, 1_000, "b")
    points = OpenPoints(0, -1)
    early = points.check_point(CheckPoint(key, 1_000, (8,)), 0)
    points.settle(points.check_point(CheckPoint(key, 9_000, (8, 9)), 1), 50)
    points.settle(early, 60, comes_again=True)
    assert list(points.check_point(CheckPoint(key, 1_000, (8,)), 2).left) == [8]


def test_two_check_points_that_begin_at_the_same_offset_are_two() -> None:
    points = OpenPoints(0, -1)
    points.check_point(point(topic="A"), 0)
    points.check_point(point(topic="B"), 1)
    points.ack(Ack(point(topic="B").key, (0, 1)))
    assert points.open == 1 and points.safe(0) == -1


@pytest.mark.parametrize("durable", [499, 500])
def test_86_a_place_is_safe_behind_what_was_done_for_it(durable: int) -> None:
    points = OpenPoints(10, 9)
    first, second = points.check_point(point(0), 10), points.check_point(point(5), 12)
    points.settle(second, 300)
    assert points.safe(durable) == 9
    points.settle(first, 500)
    assert points.safe(durable) == (12 if durable == 500 else 9)


def test_a_full_queue_decides_its_oldest_though_more_may_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matching, "OPEN_MAX", 1)
    points = OpenPoints(0, -1)
    known = points.check_point(point(), 0)
    assert points.full and points.due(10_000 + matching.FULL_WAIT_MS) is None
    assert points.due(10_001 + matching.FULL_WAIT_MS) is known


def test_what_is_acknowledged_stays_so_when_a_check_point_waits_again() -> None:
    points = OpenPoints(0, -1)
    early = points.check_point(point(count=3), 0)
    points.ack(Ack(point().key, (1,)))
    points.settle(early, 500, comes_again=True)
    assert list(points.check_point(point(count=3), 5).left) == [0, 2]
