"""Units in files: places, chains, what a cut and a trim leave."""

import os
from pathlib import Path

import pytest

from brokers.service.timers.formats import BLANK_BYTES, UNIT_BYTES, Unit, is_blank
from brokers.service.timers.timer_log import TimerLog

# Room for five units and the end.
FILE_BYTES = 5 * UNIT_BYTES + BLANK_BYTES + 10


def unit(number: int, previous: int = -1, slot_ms: int = 2_000) -> Unit:
    return Unit(previous, 1, 1_000, slot_ms - 1_000, 100 * number, 91, 7)


def filled(folder: Path, count: int) -> TimerLog:
    log = TimerLog(folder, FILE_BYTES)
    previous = -1
    for number in range(count):
        (place,) = log.places(1)
        log.append([place], [unit(number, previous)])
        previous = place
    return log


def offsets(log: TimerLog, position: int = 0) -> list[int]:
    return [found.offset for _, found in log.scan(position)]


def test_units_lie_behind_one_another_and_a_file_ends_with_a_mark(tmp_path: Path) -> None:
    log = filled(tmp_path, 12)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"{start:020d}" for start in (0, FILE_BYTES, 2 * FILE_BYTES)]
    assert {path.stat().st_size for path in tmp_path.iterdir()} == {FILE_BYTES}
    first = (tmp_path / names[0]).read_bytes()
    assert is_blank(first, 5 * UNIT_BYTES)
    assert int.from_bytes(first[5 * UNIT_BYTES :][:4], "big") == FILE_BYTES - 5 * UNIT_BYTES
    assert offsets(log) == [100 * number for number in range(12)]
    log.close()


def test_many_units_at_once_are_where_one_by_one_would_be(tmp_path: Path) -> None:
    one, many = filled(tmp_path / "one", 13), TimerLog(tmp_path / "many", FILE_BYTES)
    places = many.places(13)
    many.append(places, [unit(n, places[n - 1] if n else -1) for n in range(13)])
    assert many.end == one.end
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "many" / path.name).read_bytes()
    one.close()
    many.close()


def test_a_chain_is_walked_back_over_files(tmp_path: Path) -> None:
    log = filled(tmp_path, 12)
    newest = log.place_before(log.end)
    assert newest is not None
    walked = list(log.back(newest, 2_000))
    assert [found.offset for _, found in walked] == [100 * n for n in reversed(range(12))]
    places = [place for place, _ in reversed(walked)]
    assert [found.offset for found in log.units(places) if found] == [100 * n for n in range(12)]
    assert not list(log.back(newest, 3_000)), "it is of another slot"
    log.close()


def test_a_chain_that_leads_nowhere_ends(tmp_path: Path) -> None:
    log = TimerLog(tmp_path, FILE_BYTES)
    log.append(log.places(2), [unit(0, 52), unit(1, 52)])
    assert len(list(log.back(52, 2_000))) == 1
    assert len(list(log.back(0, 2_000))) == 1
    assert not list(log.back(104, 2_000)) and not list(log.back(-1, 2_000))
    log.close()


def test_a_log_is_opened_where_it_was_left(tmp_path: Path) -> None:
    filled(tmp_path, 7).close()
    log = TimerLog(tmp_path, 1 << 20)  # another size is for new folders
    assert log.file_bytes == FILE_BYTES
    for place, _ in log.scan(0):
        log.end = place + UNIT_BYTES
    assert log.end == FILE_BYTES + 2 * UNIT_BYTES
    log.append(log.places(1), [unit(7)])
    assert offsets(log) == [100 * n for n in range(8)]
    log.close()


@pytest.mark.parametrize("left", [0, 1, 4, 5, 6, 12])
def test_behind_a_cut_nothing_is_found_later(tmp_path: Path, left: int) -> None:
    log = filled(tmp_path, 12)
    places = [place for place, _ in log.scan(0)]
    log.cut(places[left] if left < 12 else log.end)
    assert offsets(log) == [100 * n for n in range(left)]
    log.append(log.places(1), [unit(99)])
    assert offsets(log) == [*(100 * n for n in range(left)), 9_900]
    log.close()
    again = TimerLog(tmp_path, FILE_BYTES)
    assert offsets(again) == [*(100 * n for n in range(left)), 9_900]
    again.close()


def test_old_files_go_when_their_records_are_gone_but_never_the_newest(tmp_path: Path) -> None:
    log = filled(tmp_path, 12)
    assert log.trim(lambda found: found.offset < 400) == 0
    assert log.trim(lambda found: found.offset < 500) == 1
    assert log.start == FILE_BYTES
    assert offsets(log, log.start) == [100 * n for n in range(5, 12)]
    newest = log.place_before(log.end)
    assert newest is not None
    assert len(list(log.back(newest, 2_000))) == 7, "a chain ends where the log begins"
    assert log.trim(lambda found: True) == 1
    assert len(list(tmp_path.iterdir())) == 1
    log.close()


def test_files_that_do_not_follow_one_another_are_refused(tmp_path: Path) -> None:
    filled(tmp_path, 12).close()
    (tmp_path / f"{FILE_BYTES:020d}").unlink()
    with pytest.raises(ValueError, match="does not follow"):
        TimerLog(tmp_path, FILE_BYTES)


def test_a_flush_makes_it_durable_and_what_failed_is_asked_again(tmp_path: Path) -> None:
    log = filled(tmp_path / "timerlog", 2)
    log.flush_job()()
    log.append(log.places(1), [unit(2)])
    job = log.flush_job()
    (tmp_path / "timerlog" / f"{0:020d}").rename(tmp_path / "away")
    job()  # a file that is gone needs no flush
    log.close()


def test_units_whose_flush_has_not_begun_are_flushed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, 1)
    early = log.flush_job()  # another thread's, and the broker ends
    synced: list[str] = []
    monkeypatch.setattr(
        os, "fdatasync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}"))
    )
    log.flush_job()()
    assert synced == [str(tmp_path / f"{0:020d}")]
    early()
    log.close()
