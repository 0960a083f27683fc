"""One delay level: what is due, and what may be told of it."""

import pytest

from brokers.service.delivery.levels import DelayLevel
from brokers.store.queues.entries import FILLER_SIZE, Entry

NOW = 1_000_000


def entry(deliver_ms: int, size: int = 100) -> Entry:
    return Entry(0, size, deliver_ms)


@pytest.mark.parametrize(
    ("times", "due"),
    [
        ([], (0, 0)),
        ([NOW], (1, 1)),
        ([NOW + 1], (0, 0)),
        ([NOW - 5, NOW, NOW + 1, NOW - 9], (2, 2)),
        ([NOW + 5_000], (0, 0)),  # level 2: 5 s
        ([NOW + 5_001], (1, 1)),  # 11: stored under a clock that is ahead
    ],
)
def test_6_what_is_due_is_a_beginning_of_the_queue(times: list[int], due: tuple[int, int]) -> None:
    assert DelayLevel(2, 0).due([entry(one) for one in times], NOW) == due


def test_slots_without_a_message_hold_nothing_up() -> None:
    level, filler = DelayLevel(1, 0), entry(0, FILLER_SIZE)
    assert level.due([filler, entry(NOW), filler, entry(NOW + 9)], NOW) == (3, 1)


def test_a_level_that_waits_is_not_read_until_its_time_or_another_clock() -> None:
    level = DelayLevel(2, 0)
    assert not level.waits(NOW)
    level.due([entry(NOW + 300)], NOW)
    assert level.waits(NOW) and level.waits(NOW + 299)
    assert not level.waits(NOW + 300) and not level.waits(NOW - 60_000)
    level.move_to(1)
    assert not level.waits(NOW)


def test_when_a_message_was_stored_decides_where_its_entry_is_damaged() -> None:
    level = DelayLevel(2, 0)
    assert not level.is_due(NOW - 4_999, NOW) and level.is_due(NOW - 5_000, NOW)
    assert level.is_due(NOW + 1, NOW)


def test_only_what_is_durable_everywhere_is_told() -> None:
    level = DelayLevel(1, 10)
    assert level.safe(0) == 10
    level.delivered(10, 100)
    level.delivered(11, 200)
    level.move_to(13)  # nothing to deliver in 12
    assert (level.next_offset, level.unsafe) == (13, 2)
    assert [level.safe(durable) for durable in (0, 99, 100, 199, 200)] == [10, 10, 11, 11, 13]
    assert level.unsafe == 0
