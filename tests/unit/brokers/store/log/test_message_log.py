"""The narrow interface of a broker's log, over both kinds: walks, borders, times, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.store.log.message_log import MessageLog
from brokers.store.log.side_reader import SideLog, side_read
from tests.support.message_stores import KINDS, LOG_FILE_BYTES, put
from tests.unit.brokers.store.log_samples import NOW_MS, message

COUNT = 100


@pytest.fixture(params=list(KINDS))
def replica(request: pytest.FixtureRequest, tmp_path: Path):
    one = KINDS[request.param](tmp_path)
    one.lead()
    for number in range(COUNT):
        put(one, message(body=b"%d" % number * 9), now_ms=NOW_MS + number)
    yield one
    one.close(clean=True)


def test_a_walk_meets_each_message_once_wherever_it_begins(replica) -> None:
    log: MessageLog = replica.store.log
    walk = log.walk(log.min_offset, log.end_offset, check_body=True)
    found = list(walk)
    assert [one.queue_offset for one in found] == list(range(COUNT))
    assert (walk.end, walk.reason) == (log.end_offset, "")
    for number in (1, 40, COUNT - 1):
        border = log.border_before(found[number].physical_offset)
        assert list(log.walk(border, log.end_offset, check_body=False)) == found[number:]
        assert log.store_ms_at(found[number].physical_offset) == NOW_MS + number
        assert log.store_ms_at(border) == NOW_MS + number


@pytest.mark.parametrize("short", [1, 7, 8, 40, 60])
def test_a_walk_stops_in_front_of_what_ends_beyond_its_limit(replica, short: int) -> None:
    log: MessageLog = replica.store.log
    found = list(log.walk(0, log.end_offset, check_body=False))
    walk = log.walk(0, log.end_offset - short, check_body=False)
    assert list(walk) == found[:-1]
    assert walk.incomplete and walk.end == found[-2].physical_offset + found[-2].size


def test_a_file_that_is_cut_short_in_its_filler_is_incomplete(replica) -> None:
    log: MessageLog = replica.store.log
    found = list(log.walk(0, log.end_offset, check_body=False))
    last = next(one for one in reversed(found) if one.physical_offset < LOG_FILE_BYTES)
    walk = log.walk(0, LOG_FILE_BYTES - 1, check_body=False)
    assert list(walk)[-1] == last
    assert walk.incomplete and walk.end == last.physical_offset + last.size
    walk = log.walk(0, LOG_FILE_BYTES, check_body=False)
    assert list(walk)[-1] == last and walk.end == LOG_FILE_BYTES and not walk.reason


def test_bytes_are_the_same_for_every_reader(replica) -> None:
    log: MessageLog = replica.store.log
    for at in (0, 100, LOG_FILE_BYTES - 10, log.end_offset - 5):
        data = log.read(at, 300)
        assert data == side_read(log, at, 300)() == SideLog(log).read(at, 300)
        assert len(data) == min(300, LOG_FILE_BYTES - at % LOG_FILE_BYTES, log.end_offset - at)
    assert log.read(log.end_offset, 10) == b"" == log.read(-1, 10)


def test_a_walk_over_other_bytes_reads_those(replica) -> None:
    log: MessageLog = replica.store.log
    data = log.read(0, LOG_FILE_BYTES)
    walk = log.walk(0, 600, check_body=True, read=lambda at, count: data[at : at + count])
    assert list(walk) == list(log.walk(0, 600, check_body=True))


def test_a_flush_says_how_far_it_went(replica) -> None:
    log: MessageLog = replica.store.log
    assert log.flush() == log.end_offset


def test_a_failed_disk_is_remembered(replica) -> None:
    log: MessageLog = replica.store.log
    assert log.io_error is None
    assert "flush failed" in str(log.fail("flush", OSError("no")))
    assert log.io_error is not None and replica.store.io_error == log.io_error


def test_old_files_are_removed_when_asked_and_out_of_use_at_once(replica) -> None:
    replica.confirm()
    log: MessageLog = replica.store.log
    before = dict(log.file_paths)
    remove = log.trim(2 * LOG_FILE_BYTES)
    assert log.min_offset == 2 * LOG_FILE_BYTES and log.read(0, 10) == b""
    assert all(path.exists() for path in before.values())
    remove()
    assert [start for start, path in before.items() if path.exists()] == list(log.file_starts)


def test_where_messages_begin_among_others(replica) -> None:
    log: MessageLog = replica.store.log
    data = log.read(0, LOG_FILE_BYTES)
    places = [one.physical_offset for one in log.walk(0, LOG_FILE_BYTES, check_body=False)]
    if log.starts is None:
        assert places == sorted(places) and places[0] == 0
    else:
        assert log.starts(data) == places
        half = data[: places[3] + 20]
        assert log.starts(half) == places[:3], "whole ones only"
        assert log.starts(data[:10]) == log.starts(b"") == []
