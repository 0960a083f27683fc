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
        ([NOW + 5_001], (0, 0)),  # 11: stored under a clock that is ahead
    ],
)
def test_6_what_is_due_is_a_beginning_of_the_queue(times: list[int], due: tuple[int, int]) -> None:
    assert DelayLevel(2, 0).due([entry(one) for one in times], NOW, 10) == due


def test_slots_without_a_message_hold_nothing_up() -> None:
    level, filler = DelayLevel(1, 0), entry(0, FILLER_SIZE)
    assert level.due([filler, entry(NOW), filler, entry(NOW + 9)], NOW, 4) == (3, 1)


def test_a_level_that_waits_is_not_read_until_its_time_or_another_clock() -> None:
    level = DelayLevel(2, 0)
    assert not level.waits(NOW)
    level.due([entry(NOW + 300)], NOW, 1)
    assert level.waits(NOW) and level.waits(NOW + 299)
    assert not level.waits(NOW + 300) and not level.waits(NOW - 60_000)
    level.move_to(1)
    assert not level.waits(NOW)


def test_when_a_message_was_stored_decides_where_its_entry_is_damaged() -> None:
    level = DelayLevel(2, 0)
    assert not level.is_due(0, NOW - 4_999, NOW) and level.is_due(0, NOW - 5_000, NOW)
    assert level.is_due(0, NOW + 1, NOW)


HOUR_MS = 3_600_000


def waiting_since(level: DelayLevel, stored: list[int], now_ms: int) -> int:
    """How many of the messages, stored at these times of the clock, are due."""
    entries = [entry(one + level.delay_ms) for one in stored[level.next_offset :]]
    _, messages = level.due(entries, now_ms, len(stored))
    assert all(
        level.is_due(level.next_offset + number, stored[level.next_offset + number], now_ms)
        for number in range(messages)
    )
    return messages


def test_11_what_was_stored_under_a_clock_ahead_waits_its_level_from_when_it_is_seen() -> None:
    level, ahead = DelayLevel(2, 0), NOW + HOUR_MS
    stored = [ahead, ahead + 100, ahead + 2_000]
    assert waiting_since(level, stored, NOW) == 0
    # what is stored later is of the clock of now, however late that is
    stored.append(NOW + 3_000)
    found = [waiting_since(level, stored, NOW + ms) for ms in (4_999, 5_000, 5_099, 5_100, 6_999)]
    assert found == [0, 1, 1, 2, 2]
    level.move_to(2)
    assert [waiting_since(level, stored, NOW + ms) for ms in (6_999, 7_000, 7_999)] == [0, 1, 1]
    level.move_to(3)
    assert [waiting_since(level, stored, NOW + ms) for ms in (7_999, 8_000)] == [0, 1]


def test_11_what_stands_behind_it_under_the_clock_of_now_is_not_early() -> None:
    level = DelayLevel(2, 0)
    stored = [NOW + HOUR_MS, NOW, NOW + 10]  # seen 10 ms after the clock was set back
    assert waiting_since(level, stored, NOW + 10) == 0
    assert [waiting_since(level, stored, NOW + 10 + ms) for ms in (4_999, 5_000)] == [0, 3]


def test_11_stored_an_hour_after_the_clock_was_set_back_it_waits_as_long() -> None:
    level = DelayLevel(18, 0)
    stored = [NOW + HOUR_MS]
    assert waiting_since(level, stored, NOW) == 0
    stored.append(NOW + HOUR_MS + 60_000)
    assert waiting_since(level, stored, NOW + 2 * HOUR_MS) == 1
    level.move_to(1)
    assert waiting_since(level, stored, stored[1] + 2 * HOUR_MS - 1) == 0
    assert waiting_since(level, stored, stored[1] + 2 * HOUR_MS) == 1


def test_11_a_clock_that_is_set_back_twice_brings_nothing_forward() -> None:
    level = DelayLevel(18, 0)
    first, second = NOW + HOUR_MS, NOW + 90_000
    stored = [first]
    assert waiting_since(level, stored, second) == 0
    stored.append(second + 1_000)
    assert waiting_since(level, stored, NOW) == 0, "set back again"
    assert waiting_since(level, stored, NOW + 2 * HOUR_MS - 1) == 0
    assert waiting_since(level, stored, NOW + 2 * HOUR_MS) == 1
    level.move_to(1)
    seen = NOW + 2 * HOUR_MS
    assert waiting_since(level, stored, seen) == 0, "its own time, or a level from when it is seen"
    assert waiting_since(level, stored, second + 1_000 + 2 * HOUR_MS) == 1


def test_only_what_is_durable_everywhere_is_told() -> None:
    level = DelayLevel(1, 10)
    assert level.safe(0) == 10
    level.delivered(10, 100)
    level.delivered(11, 200)
    level.move_to(13)  # nothing to deliver in 12
    assert (level.next_offset, level.unsafe) == (13, 2)
    assert [level.safe(durable) for durable in (0, 99, 100, 199, 200)] == [10, 10, 11, 11, 13]
    assert level.unsafe == 0
