"""The commit log's files: borders, cuts, flushing, refusals."""

import errno
import os
import threading
from pathlib import Path

import pytest

from brokers.store.files.errors import DiskFull, LogError
from brokers.store.log.commit_log import CommitLog
from brokers.store.log.records import encode_blank
from brokers.store.log.scan import end_of_valid_log
from brokers.store.log.segment_files import OPEN_SEGMENTS_MAX
from tests.support.descriptors import none_left, open_count
from tests.unit.brokers.store.log_samples import encoded, message, sized

FILE = 1024


def open_log(root: Path) -> CommitLog:
    """Opens and recovers as the store does."""
    log = CommitLog(root, FILE)
    if log.file_starts:
        log.set_recovered_end(end_of_valid_log(log.read, log.min_offset, log.capacity_end, FILE)[0])
    return log


def append(log: CommitLog, size: int) -> int:
    fields = sized(size)
    return log.append(size, lambda at: encoded(fields, 0, at))


def contents(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(root.iterdir()))


def test_records_follow_each_other_in_preallocated_files(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert [append(log, 300) for _ in range(4)] == [0, 300, 600, 1024]
    assert log.end_offset == 1324
    assert [path.name for path in sorted(tmp_path.iterdir())] == [f"{0:020d}", f"{1024:020d}"]
    assert contents(tmp_path)[900:1024] == encode_blank(124) + bytes(116)


def test_a_log_whose_older_files_have_expired_and_whose_newest_was_cut_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    for _ in range(4):
        append(log, 300)
    for path in log.forget_before(FILE):
        path.unlink()
    log.close()
    (tmp_path / f"{FILE:020d}").write_bytes(bytes(FILE))  # a loss of power took what was in it
    for _ in range(2):
        log = open_log(tmp_path)
        assert (log.min_offset, log.end_offset) == (FILE, FILE)
        log.close()


@pytest.mark.parametrize("offset", [0, 100, FILE, 3 * FILE + 7])
def test_an_empty_log_begins_inside_a_file(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path)
    log.begin_within(offset)
    log.append_raw(offset, b"first")
    assert (log.min_offset, log.end_offset) == (offset // FILE * FILE, offset + 5)
    assert log.read(offset, 9) == b"first" and not any(log.read(log.min_offset, offset % FILE))
    with pytest.raises(LogError, match="not empty"):
        log.begin_within(offset)


def test_a_log_of_another_format_closes_its_files_with_its_own_blank(tmp_path: Path) -> None:
    log = CommitLog(tmp_path, FILE, lambda left: b"left%4d" % left)
    log.append(1000, lambda at: bytes(1000))
    assert log.append(100, lambda at: bytes(100)) == FILE
    assert contents(tmp_path)[1000:FILE] == b"left  24" + bytes(16)


@pytest.mark.parametrize("left", range(92, 118))
def test_the_blank_record_at_every_distance_from_the_border(tmp_path: Path, left: int) -> None:
    log = open_log(tmp_path)
    append(log, FILE - left)
    at = append(log, 100)
    fits = left >= 108
    assert at == (FILE - left if fits else FILE)
    log.close()
    assert open_log(tmp_path).end_offset == at + 100


def test_a_file_that_is_full_but_for_the_blank_record_is_reopened_at_its_end(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    append(log, FILE - 8)
    assert log.reserve(100) == FILE
    log.close()
    assert open_log(tmp_path).end_offset == FILE


def test_a_record_too_large_for_a_file_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, FILE - 8)
    with pytest.raises(LogError, match="does not fit"):
        append(log, FILE - 7)


def test_a_replica_copies_bytes_and_splits_at_file_ends(tmp_path: Path) -> None:
    master, slave = open_log(tmp_path / "master"), open_log(tmp_path / "slave")
    for size in (500, 400, 700, 700):
        append(master, size)
    data = contents(tmp_path / "master")[: master.end_offset]
    for at in range(0, len(data), 333):
        slave.append_raw(at, memoryview(data)[at : at + 333])
    assert slave.end_offset == master.end_offset
    assert contents(tmp_path / "slave") == contents(tmp_path / "master")


def test_an_empty_replica_begins_at_a_file_start_and_nowhere_else(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(LogError, match="not the start of a file"):
        log.append_raw(3 * FILE + 1, b"x")
    log.append_raw(3 * FILE, encoded(message(), 7, 3 * FILE))
    assert (log.min_offset, log.file_starts) == (3 * FILE, (3 * FILE,))
    end = log.end_offset
    log.close()
    assert open_log(tmp_path).end_offset == end


@pytest.mark.parametrize("offset", [299, 301, 0])
def test_replicated_bytes_must_continue_the_log(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path)
    append(log, 300)
    with pytest.raises(LogError, match="the log ends at 300"):
        log.append_raw(offset, b"x")


def test_ranges_for_sendfile_never_cross_a_file_or_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(4):
        append(log, 300)
    seen, at = b"", 0
    while (piece := log.file_range(at, 200)) is not None:
        assert piece.position // FILE == (piece.position + piece.count - 1) // FILE
        seen += os.pread(piece.fileno, piece.count, piece.position)
        at += piece.count
    assert at == log.end_offset
    assert seen == contents(tmp_path)[: log.end_offset]
    assert log.file_range(log.end_offset, 1) is None
    assert log.read(-1, 10) == b""


@pytest.mark.parametrize(
    ("to", "reopened"),
    [(0, 0), (300, 300), (600, 600), (900, 900), (1024, 1024), (1324, 1324), (1624, 1624)],
)
def test_cut_bytes_never_come_back(tmp_path: Path, to: int, reopened: int) -> None:
    log = open_log(tmp_path)
    for _ in range(5):
        append(log, 300)
    log.truncate(to)
    assert log.end_offset == to
    log.close()
    assert contents(tmp_path)[to:] == bytes(len(contents(tmp_path)) - to)
    again = open_log(tmp_path)
    assert again.end_offset == reopened
    assert append(again, 100) == reopened


def test_a_cut_takes_a_whole_file_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(7):
        append(log, 300)
    log.truncate(300)
    assert log.file_starts == (0,)
    assert append(log, 100) == 300


def test_a_cut_below_the_first_file_empties_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_raw(2 * FILE, encoded(message(), 0, 2 * FILE))
    log.truncate(FILE)
    assert (log.min_offset, log.end_offset, log.file_starts) == (0, 0, ())


def test_a_cut_at_the_begin_of_the_first_file_leaves_the_place_where_the_log_goes_on(
    tmp_path: Path,
) -> None:
    """A promoted replica may have had no more in it than the first bytes of a record."""
    log = open_log(tmp_path)
    log.append_raw(2 * FILE, encoded(message(), 0, 2 * FILE)[:50])
    log.truncate(2 * FILE)
    assert (log.min_offset, log.end_offset, log.file_starts) == (2 * FILE, 2 * FILE, (2 * FILE,))
    assert append(log, 100) == 2 * FILE


def test_a_cut_above_the_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="ends at 0"):
        open_log(tmp_path).truncate(1)


def test_recovered_end_wipes_what_an_earlier_life_left(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 300)
    append(log, 300)
    append(log, 300)
    log.close()
    path = tmp_path / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[450] ^= 1  # the second message breaks, the third is whole
    path.write_bytes(data)
    again = open_log(tmp_path)
    assert again.end_offset == 300
    append(again, 300)
    again.close()
    assert open_log(tmp_path).end_offset == 600  # and not 900: the third message is gone for good


def test_files_of_another_size_are_refused_with_the_way_out(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 300)
    log.close()
    with pytest.raises(LogError, match="set the file size the log was written with"):
        CommitLog(tmp_path, 2 * FILE)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(7):
        append(log, 300)
    log.close()
    (tmp_path / f"{1024:020d}").unlink()
    with pytest.raises(LogError, match="00000000000000001024 is missing"):
        CommitLog(tmp_path, FILE)


@pytest.mark.parametrize("size", [0, 500])
def test_a_last_file_that_was_never_finished_is_removed(tmp_path: Path, size: int) -> None:
    log = open_log(tmp_path)
    append(log, 300)
    log.close()
    (tmp_path / f"{1024:020d}").write_bytes(bytes(size))
    assert open_log(tmp_path).file_starts == (0,)


def test_a_short_last_file_with_data_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}").write_bytes(encoded(sized(300)))
    with pytest.raises(LogError, match="has 300 bytes"):
        CommitLog(tmp_path, FILE)


def test_flush_may_run_beside_appends(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    stop = threading.Event()

    def flush() -> None:
        while not stop.is_set():
            log.flush()

    worker = threading.Thread(target=flush)
    worker.start()
    for number in range(60):
        append(log, 300)
        if number % 20 == 19:
            log.truncate(log.end_offset - 300)
            assert log.flushed_offset <= log.end_offset
    stop.set()
    worker.join()
    assert log.flush() == log.end_offset


def test_an_io_error_closes_the_log_for_good(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 300)
    segment = log._segments[0]
    broken = os.open(segment.path, os.O_RDONLY)
    os.dup2(broken, segment.fd)  # writes now fail as on a dead disk
    os.close(broken)
    with pytest.raises(LogError, match="write failed"):
        append(log, 100)
    with pytest.raises(LogError, match="closed for writing"):
        append(log, 100)
    assert log.io_error is not None
    assert log.end_offset == 300


def test_only_record_starts_are_boundaries(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for _ in range(4):
        append(log, 300)
    assert [at for at in range(1326) if log.is_record_boundary(at)] == [
        0,
        300,
        600,
        900,
        1024,
        1324,
        1325,
    ]
    assert not log.is_record_boundary(-1)


def at_once(log: CommitLog) -> None:
    """The pause after a refusal is over."""
    log._full_until = 0.0


class NoRoom:
    """While `on`, no file finds its room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on, self.asked, real = True, 0, os.posix_fallocate

        def fallocate(fd: int, first: int, count: int) -> None:
            self.asked += 1
            if self.on:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(fd, first, count)

        monkeypatch.setattr(os, "posix_fallocate", fallocate)


def test_a_full_disk_refuses_before_anything_moves_and_the_log_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    for _ in range(3):
        append(log, 300)
    before = contents(tmp_path)
    disk = NoRoom(monkeypatch)
    with pytest.raises(DiskFull, match="no room for the commit log"):
        append(log, 300)
    assert (log.end_offset, log.io_error, contents(tmp_path)) == (900, None, before)
    assert log.disk_full is not None
    assert log.read(0, 900) == before[:900] and log.flush() == 900
    disk.on = False
    at_once(log)
    assert append(log, 300) == 1024 and log.disk_full is None
    log.close()
    assert open_log(tmp_path).end_offset == 1324


def test_a_full_disk_is_not_asked_again_for_every_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, disk = open_log(tmp_path), NoRoom(monkeypatch)
    log._full_until = 0.0
    for _ in range(50):
        with pytest.raises(DiskFull):
            append(log, 300)
        log._full_until += 1e9  # the clock stands
    assert disk.asked == 1


def test_a_replica_that_finds_no_room_keeps_what_it_could_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master, slave = open_log(tmp_path / "master"), open_log(tmp_path / "slave")
    for size in (500, 400, 700, 700):
        append(master, size)
    data = contents(tmp_path / "master")[: master.end_offset]
    slave.append_raw(0, data[:700])
    disk = NoRoom(monkeypatch)
    with pytest.raises(DiskFull):
        slave.append_raw(700, data[700:])
    assert slave.end_offset == 1024 and slave.io_error is None
    disk.on = False
    at_once(slave)
    slave.append_raw(1024, data[1024:])
    assert contents(tmp_path / "slave") == contents(tmp_path / "master")


def test_an_empty_replica_without_room_may_begin_elsewhere_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, disk = open_log(tmp_path), NoRoom(monkeypatch)
    with pytest.raises(DiskFull):
        log.append_raw(3 * FILE, b"x" * 100)
    assert (log.min_offset, log.end_offset, log.file_starts) == (0, 0, ())
    disk.on = False
    at_once(log)

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse)
        with pytest.raises(DiskFull):
            log.append_raw(3 * FILE, b"x" * 100)
    assert (log.min_offset, log.end_offset, log.file_starts, list(tmp_path.iterdir())) == (
        0,
        0,
        (),
        [],
    )
    at_once(log)
    log.append_raw(FILE, b"x" * 100)
    assert (log.min_offset, log.end_offset) == (FILE, FILE + 100)


def test_a_log_of_many_files_needs_few_descriptors(tmp_path: Path) -> None:
    before, log, placed = open_count(tmp_path), open_log(tmp_path), []
    for _ in range(OPEN_SEGMENTS_MAX + 40):
        placed.append(append(log, 900))
        log.flush()
    assert open_count(tmp_path) - before <= OPEN_SEGMENTS_MAX
    log.close()
    again = open_log(tmp_path)
    assert [again.read(at, 900)[:4] for at in placed] == [(900).to_bytes(4, "big")] * len(placed)
    assert append(again, 900) == placed[-1] + FILE and again.flush() == again.end_offset
    assert open_count(tmp_path) - before <= OPEN_SEGMENTS_MAX
    again.truncate(placed[3])
    assert append(again, 900) == placed[3]
    again.close()
    assert open_count(tmp_path) == before


def test_without_descriptors_a_file_is_refused_and_the_log_goes_on(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 900)
    with none_left(), pytest.raises(DiskFull, match="Too many open files"):
        append(log, 900)
    log.disk_full = None
    assert append(log, 900) == FILE and log.io_error is None
    log.close()


def test_what_is_no_message_tells_no_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, 300)
    assert log.store_ms_at(0) is not None
    os.pwrite(log.file_range(0, 8).fileno, bytes(8), 0)  # type: ignore[union-attr]
    assert log.store_ms_at(0) is None
    log.close()
