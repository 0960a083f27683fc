"""Wheel and log together, and a folder as a start finds it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from brokers.service.sending.timed import TimerRules
from brokers.service.timers import timer_files
from brokers.service.timers.formats import UNIT_BYTES, Slot, Unit
from brokers.service.timers.time_rules import Target
from brokers.service.timers.timer_files import Entry, TimerFiles, has_files, open_files

T = 1_795_413_488_000
RULES = TimerRules(log_file_bytes=UNIT_BYTES * 10 + 16)


def entry(number: int, slot_ms: int = T, *, rolls: bool = False, deletes: bool = False) -> Entry:
    return Entry(Target(slot_ms, rolls), T - 5_000, 100 * number, 91, 7, deletes)


def there(unit: Unit) -> int | None:
    """Record `n` lies at 100 n, at offset n of the queue."""
    return unit.offset // 100


def opened(
    root: Path,
    flushed: int = 0,
    enqueued: int = 0,
    rules: TimerRules = RULES,
    queue_offset_of: Callable[[Unit], int | None] = there,
) -> TimerFiles:
    return open_files(
        root, rules, flushed=flushed, enqueued=enqueued, now_ms=T, queue_offset_of=queue_offset_of
    )


def flush(files: TimerFiles) -> int:
    files.log.flush_job()()
    job = files.wheel.flush_job()
    job()
    files.wheel.flushed(job)
    return files.log.end


def held(files: TimerFiles, slot_ms: int = T) -> list[int]:
    slot = files.wheel.slot(slot_ms)
    if slot is None:
        return []
    return [unit.offset // 100 for _, unit in files.log.back(slot.last, slot_ms)][::-1]


def test_messages_of_a_slot_hang_together_in_their_order(tmp_path: Path) -> None:
    files = opened(tmp_path)
    assert has_files(tmp_path) and files.next_offset == 0
    files.put([entry(0), entry(1, T + 1_000), entry(2)])
    files.put([entry(3), entry(4, deletes=True), entry(5, rolls=True)])
    assert held(files) == [0, 2, 3, 4, 5] and held(files, T + 1_000) == [1]
    assert files.wheel.slot(T) == Slot(T, 0, 5 * UNIT_BYTES, 3)
    magics = [unit.magic for _, unit in files.log.scan(0)]
    assert magics == [1, 1, 1, 1, 5, 3]
    files.close()


def test_32_a_wheel_that_is_gone_is_made_again_from_the_log(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.put([entry(n, T + n % 3 * 1_000) for n in range(25)])
    end = flush(files)
    files.close()
    (tmp_path / "timerwheel").unlink()
    again = opened(tmp_path, end, 25)
    assert held(again) == list(range(0, 25, 3)) and again.next_offset == 25
    assert again.wheel.slot(T) == files_slot(again, 9)
    again.close()


def files_slot(files: TimerFiles, number: int) -> Slot | None:
    slot = files.wheel.slot(T)
    return None if slot is None else Slot(T, slot.first, slot.last, number)


@pytest.mark.parametrize("also_the_wheel", [True, False])
def test_32_without_the_log_everything_is_read_again(tmp_path: Path, also_the_wheel: bool) -> None:
    files = opened(tmp_path)
    files.put([entry(n) for n in range(25)])
    end = flush(files)
    files.close()
    for path in (tmp_path / "timerlog").iterdir():
        path.unlink()
    if also_the_wheel:
        (tmp_path / "timerwheel").unlink()
    again = opened(tmp_path, end, 25)
    assert held(again) == [] and again.next_offset == 0
    again.close()


def test_31_what_was_not_flushed_is_found_in_the_log_or_read_again(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.put([entry(0), entry(1)])
    end = flush(files)
    files.put([entry(2), entry(3, T + 1_000)])
    files.close()  # as after a kill: the slots of the last two are lost
    again = opened(tmp_path, end, 2)
    assert held(again) == [0, 1, 2] and held(again, T + 1_000) == [3]
    assert again.next_offset == 4 and again.wheel.slot(T) == Slot(T, 0, 2 * UNIT_BYTES, 3)
    again.close()


def test_a_slot_that_the_wheel_has_already_is_not_counted_twice(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.put([entry(0), entry(1)])
    flush(files)
    files.close()
    again = opened(tmp_path, 0, 0)  # its check point was not written any more
    assert again.wheel.slot(T) == Slot(T, 0, UNIT_BYTES, 2) and held(again) == [0, 1]
    assert again.next_offset == 2
    again.close()


@pytest.mark.parametrize("lost", range(0, 3 * UNIT_BYTES, 13))
def test_a_log_that_was_torn_anywhere_is_read_as_far_as_it_goes(tmp_path: Path, lost: int) -> None:
    files = opened(tmp_path)
    files.put([entry(n) for n in range(8)])
    end = flush(files)
    files.close()
    path = tmp_path / "timerlog" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data[: end - lost].ljust(len(data), b"\0"))
    left = (end - lost) // UNIT_BYTES
    again = opened(tmp_path, 4 * UNIT_BYTES, 4)
    # a unit of which only reserved zeros are missing is whole
    assert again.next_offset in (left, left + 1)
    again.put([entry(n) for n in range(again.next_offset, 9)])
    assert held(again) == list(range(9))
    again.close()


def test_32_a_long_log_without_its_wheel_is_read_again_from_the_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = opened(tmp_path)
    files.put([entry(n) for n in range(25)])
    end = flush(files)
    files.close()
    (tmp_path / "timerwheel").unlink()
    monkeypatch.setattr(timer_files, "UNITS_AT_ONCE_MAX", 20)
    again = opened(tmp_path, end, 25)
    assert again.next_offset == 0 and again.log.end == 0 and held(again) == []
    again.put([entry(0)])
    assert held(again) == [0]
    again.close()


def test_units_whose_records_the_log_lost_are_taken_back(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.put([entry(0), entry(1, T + 1_000), entry(2), entry(3, T + 2_000)])
    end = flush(files)
    files.close()

    def cut(unit: Unit) -> int | None:
        return there(unit) if unit.offset < 200 else None

    again = opened(tmp_path, end, 4, queue_offset_of=cut)
    assert held(again) == [0] and held(again, T + 1_000) == [1]
    assert held(again, T + 2_000) == [] and again.wheel.slot(T + 2_000) is None
    assert again.check_tail(cut) == 2 and again.log.end == 2 * UNIT_BYTES
    again.put([entry(2)])
    assert held(again) == [0, 2] and again.wheel.slot(T) == Slot(T, 0, 2 * UNIT_BYTES, 2)
    again.close()


def test_records_that_are_older_than_the_log_tell_nothing_and_stay(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.put([entry(0)])
    end = flush(files)
    files.close()
    again = opened(tmp_path, end, 1, queue_offset_of=lambda unit: -1)
    assert held(again) == [0] and again.next_offset == 1
    again.close()


def test_a_wheel_of_another_precision_is_made_again(tmp_path: Path) -> None:
    files = opened(tmp_path)
    files.put([entry(0)])
    end = flush(files)
    files.close()
    again = opened(tmp_path, end, 1, TimerRules(precision_ms=100))
    assert again.log.end == 0 and again.next_offset == 0
    again.put([entry(0)])
    assert held(again) == [0]
    again.close()


@pytest.mark.parametrize("name", ["timerwheel", "timerlog"])
def test_files_that_do_not_fit_are_made_again(tmp_path: Path, name: str) -> None:
    files = opened(tmp_path)
    files.put([entry(n) for n in range(25)])
    end = flush(files)
    files.close()
    if name == "timerwheel":
        (tmp_path / name).write_bytes(b"short")
    else:
        sorted((tmp_path / name).iterdir())[1].write_bytes(b"short")
    again = opened(tmp_path, end, 25)
    assert again.next_offset == 0 and again.log.end == 0
    again.close()
