"""The file of slots: what is in it, what of it is on the disk."""

from pathlib import Path

import pytest

from brokers.service.timers.formats import SLOTS, WHEEL_BYTES, Slot
from brokers.service.timers.wheel import LOOK_SLOTS, Wheel

T = 1_795_413_488_000


@pytest.fixture
def wheel(tmp_path: Path):  # type: ignore[no-untyped-def]
    opened = Wheel(tmp_path / "timerwheel", 1_000)
    yield opened
    opened.close()


def flush(wheel: Wheel) -> None:
    job = wheel.flush_job()
    job()
    wheel.flushed(job)


def test_a_new_wheel_is_empty_and_sparse(tmp_path: Path, wheel: Wheel) -> None:
    status = (tmp_path / "timerwheel").stat()
    assert status.st_size == WHEEL_BYTES and status.st_blocks * 512 < WHEEL_BYTES // 10
    assert wheel.made and wheel.newest() == -1
    assert wheel.next(T, T + 10_000).slot is None


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "timerwheel").write_bytes(bytes(100))
    with pytest.raises(ValueError, match="100 bytes"):
        Wheel(tmp_path / "timerwheel", 1_000)


def test_a_slot_is_found_by_its_time_and_by_no_other_of_its_place(wheel: Wheel) -> None:
    slot = Slot(T, 52, 104, 2)
    wheel.put(slot)
    assert wheel.slot(T) == slot
    assert wheel.slot(T + 1_000) is None
    assert wheel.slot(T + SLOTS * 1_000) is None
    wheel.put(Slot(T + SLOTS * 1_000, 156, 156, 1))
    assert wheel.slot(T) is None


def test_changes_reach_the_file_with_a_flush_and_not_before(tmp_path: Path, wheel: Wheel) -> None:
    wheel.put(Slot(T, 0, 0, 1))
    path = tmp_path / "timerwheel"
    other = Wheel(path, 1_000)
    assert other.slot(T) is None
    job = wheel.flush_job()
    wheel.put(Slot(T + 1_000, 52, 52, 1))
    assert wheel.slot(T) == Slot(T, 0, 0, 1)  # while it is being written
    job()
    wheel.flushed(job)
    assert other.slot(T) == Slot(T, 0, 0, 1) and other.slot(T + 1_000) is None
    assert wheel.unflushed == 1
    other.close()


def test_what_could_not_be_flushed_is_part_of_the_next_flush(tmp_path: Path, wheel: Wheel) -> None:
    wheel.put(Slot(T, 0, 0, 1))
    wheel.flush_job()
    wheel.put(Slot(T + 1_000, 52, 52, 1))
    flush(wheel)
    other = Wheel(tmp_path / "timerwheel", 1_000)
    assert other.slot(T) is not None and other.slot(T + 1_000) is not None
    other.close()


def test_the_end_of_a_flush_that_another_followed_loses_nothing(
    tmp_path: Path, wheel: Wheel
) -> None:
    wheel.put(Slot(T, 0, 0, 1))
    first = wheel.flush_job()
    first()
    wheel.put(Slot(T, 0, 52, 2))
    second = wheel.flush_job()
    wheel.flushed(first)  # it is heard of only now
    assert wheel.slot(T) == Slot(T, 0, 52, 2)
    first()
    second()
    wheel.flushed(second)
    assert wheel.slot(T) == Slot(T, 0, 52, 2) == next(wheel.in_file())


def test_the_next_slot_is_found_in_file_and_memory_and_a_cleared_one_is_not(wheel: Wheel) -> None:
    for seconds in (5, 7, 9):
        wheel.put(Slot(T + seconds * 1_000, 0, 0, 1))
    flush(wheel)
    wheel.put(Slot(T + 6_000, 0, 0, 1))
    wheel.clear(T + 5_000)
    assert wheel.next(T, T + 100_000).time_ms == T + 6_000
    assert wheel.next(T + 7_000, T + 100_000).time_ms == T + 7_000
    assert wheel.next(T + 8_000, T + 9_000) == (T + 9_000, None)
    assert wheel.next(T + 8_000, T + 8_000) == (T + 8_000, None)


def test_one_look_has_an_end_and_goes_over_that_of_the_file(wheel: Wheel) -> None:
    around = (T // 1_000 // SLOTS + 1) * SLOTS * 1_000
    wheel.put(Slot(around + 3_000, 0, 0, 1))
    at, looks = around - 2 * LOOK_SLOTS * 1_000, 0
    while (found := wheel.next(at, around + 10_000)).slot is None:
        assert at < found.time_ms <= at + LOOK_SLOTS * 1_000
        at, looks = found.time_ms, looks + 1
    assert found.time_ms == around + 3_000 and looks >= 2


def test_a_wheel_whose_first_flush_was_not_over_is_made_once_more(
    tmp_path: Path, wheel: Wheel
) -> None:
    wheel.put(Slot(T, 0, 0, 1))
    again = Wheel(tmp_path / "timerwheel", 1_000)
    assert again.made
    again.close()
    wheel.flush_job()()
    again = Wheel(tmp_path / "timerwheel", 1_000)
    assert not again.made and again.slot(T) == Slot(T, 0, 0, 1)
    again.empty()
    again.close()
    again = Wheel(tmp_path / "timerwheel", 1_000)
    assert again.made
    again.close()


def test_the_file_says_what_it_holds_and_how_far_it_points(wheel: Wheel) -> None:
    wheel.put(Slot(T, 0, 0, 1))
    wheel.put(Slot(T + 86_400_000, 52, 520, 2))
    assert list(wheel.in_file()) == [] and wheel.newest() == -1
    wheel.flush_job()()
    assert sorted(wheel.in_file()) == [Slot(T, 0, 0, 1), Slot(T + 86_400_000, 52, 520, 2)]
    assert wheel.newest() == 520
    wheel.empty()
    assert wheel.newest() == -1 and wheel.slot(T) is None
