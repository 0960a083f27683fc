"""A majority log in files: taking entries, refusing them, cuts, what is durable and committed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from brokers.majority import entry as entry_module
from brokers.majority.entry import BODY_BYTES_MAX, EMPTY, Entry, Place, body_crc
from brokers.majority.log_port import MajorityLog, Taken, TermAndVote, TermStore
from brokers.majority.store.folder import MajorityFolder
from brokers.majority.store.index import EntryIndex
from brokers.store.files import disk
from brokers.store.files.errors import DiskFull, LogError
from brokers.store.log import commit_log
from brokers.store.log.retention import Limits, LogFile, Policy, decide
from tests.unit.brokers.majority.store.majority_samples import (
    FILE,
    append,
    chain,
    entries,
    filled,
    kill,
    small_folder,
)

HOUR_MS = 3_600_000
SIZES = [300, 400, 0, 500, 968 - 48, 20, 20]


@pytest.fixture
def folder(tmp_path: Path):
    made = filled(tmp_path / "n0", SIZES)
    yield made
    if made._lock.is_held:
        kill(made)


def plain(entry: Entry) -> Entry:
    """As a Java leader sends it."""
    return replace(entry, chain_crc=0, body_crc=0)


def follower(root: Path, begins_at: int = 0) -> MajorityFolder:
    folder = small_folder(root, begins_at=begins_at)
    folder.terms.save(TermAndVote(1))
    return folder


def test_it_is_what_replication_asks_for(folder: MajorityFolder) -> None:
    log: MajorityLog = folder.log
    terms: TermStore = folder.terms
    assert log.first_index == 0 and terms.state.term == 1


# -- as a leader


def test_entries_are_laid_as_dledger_lays_them(folder: MajorityFolder) -> None:
    data, wanted = chain(SIZES)
    got = entries(folder.log)
    assert [(e.index, e.term, e.position, len(e.body)) for e in got] == [
        (e.index, e.term, e.position, len(e.body)) for e in wanted
    ]
    assert folder.log.last == Place(1, 6) and folder.log.first_index == 0
    names = sorted((folder.root / "data").iterdir())
    assert [path.stat().st_size for path in names] == [FILE] * (len(data) // FILE)


def test_a_body_may_hold_its_own_position(folder: MajorityFolder) -> None:
    made = folder.log.append_as_leader(1, 8, lambda position: position.to_bytes(8, "big"))
    assert int.from_bytes(made.body, "big") == made.position
    assert folder.log.get(made.index) == made


@pytest.mark.parametrize(
    ("term", "size", "body", "why"),
    [
        (0, 5, b"12345", "term"),
        (1, BODY_BYTES_MAX + 1, b"", "at most"),
        (1, 5, b"1234", "announced"),
        (1, FILE, bytes(FILE), "does not fit"),
    ],
)
def test_what_no_log_can_hold_is_refused_and_nothing_is_kept(
    folder: MajorityFolder, term: int, size: int, body: bytes, why: str
) -> None:
    with pytest.raises(LogError, match=why):
        folder.log.append_as_leader(term, size, lambda position: body)
    assert folder.log.last == Place(1, 6)
    assert append(folder.log, 10).index == 7
    folder.close()
    assert small_folder(folder.root).log.last == Place(1, 7)


def test_a_full_store_takes_nothing(folder: MajorityFolder) -> None:
    folder.log.full = "90 percent of the disk are used"
    with pytest.raises(DiskFull, match="90 percent"):
        append(folder.log, 10)
    entry = Entry(7, 1, folder.log.data.end_offset, b"")
    assert folder.log.append_as_follower(entry) is Taken.DISK_FULL
    folder.log.full = None
    assert folder.log.append_as_follower(entry) is Taken.APPENDED


@pytest.mark.parametrize("folder_name", ["data", "index"])
def test_a_disk_without_room_keeps_nothing_and_takes_it_later(
    tmp_path: Path, folder_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(tmp_path / "n0", [10] * 5)
    real = os.pwrite

    def full(fd: int, data: bytes, at: int) -> int:
        if os.readlink(f"/proc/self/fd/{fd}").split("/")[-2] == folder_name and any(data):
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data, at)

    with monkeypatch.context() as context:
        context.setattr(disk.os, "pwrite", full)
        with pytest.raises(DiskFull):
            append(folder.log, 10)
        offered = Entry(5, 1, folder.log.data.end_offset, b"x")
        assert folder.log.append_as_follower(offered) is Taken.DISK_FULL
    assert folder.log.last == Place(1, 4) and folder.log.broken is None
    assert folder.log.append_as_follower(offered) is Taken.APPENDED
    kill(folder)
    again = small_folder(folder.root)
    assert again.log.last == Place(1, 5) and again.found.index_from == -1


def test_a_broken_disk_ends_the_log(folder: MajorityFolder, monkeypatch) -> None:
    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as context:
        context.setattr(disk.os, "pwrite", broken)
        offered = Entry(7, 1, folder.log.data.end_offset, b"x")
        assert folder.log.append_as_follower(offered) is Taken.BROKEN
    assert folder.log.broken is not None
    assert folder.log.append_as_follower(offered) is Taken.BROKEN
    with pytest.raises(LogError):
        append(folder.log, 1)


# -- as a follower


@pytest.mark.parametrize("sums", [True, False], ids=["of ours", "of Java"])
def test_a_follower_holds_what_its_leader_sent(
    folder: MajorityFolder, tmp_path: Path, sums: bool
) -> None:
    other = follower(tmp_path / "n1")
    for entry in entries(folder.log):
        sent = entry if sums else plain(entry)
        assert other.log.append_as_follower(sent) is Taken.APPENDED
        assert other.log.append_as_follower(sent) is Taken.HELD
    assert entries(other.log) == entries(folder.log), "checksums and all"
    other.close()


def offered(entry: Entry, **changed: object) -> Entry:
    return replace(entry, **changed)


REFUSED = [
    ("beyond the next one", {"index": 8}, Taken.GAP),
    ("a lower term", {"term": 0}, Taken.CONFLICT),
    ("another predecessor", {"chain_crc": 77}, Taken.CONFLICT),
    ("another position", {"position": 5_000}, Taken.MISPLACED),
    ("an unknown kind", {"magic": 2}, Taken.UNFIT),
    ("no index", {"index": -1}, Taken.UNFIT),
    ("no term", {"term": -1}, Taken.UNFIT),
    ("no position", {"position": -1}, Taken.UNFIT),
    ("an index of no log", {"index": 1 << 62}, Taken.UNFIT),
    ("a channel of no int", {"channel": 1 << 31}, Taken.UNFIT),
]


@pytest.mark.parametrize(("what", "changed", "taken"), REFUSED, ids=[row[0] for row in REFUSED])
def test_each_refusal_has_its_own_name(
    folder: MajorityFolder, what: str, changed: dict[str, object], taken: Taken
) -> None:
    good = Entry(7, 1, folder.log.data.end_offset, b"seven", body_crc=body_crc(b"seven"))
    before = folder.log.last
    assert folder.log.append_as_follower(offered(good, **changed)) is taken, what
    assert folder.log.last == before
    assert folder.log.append_as_follower(good) is Taken.APPENDED


def test_another_entry_in_the_log_conflicts(folder: MajorityFolder) -> None:
    held = folder.log.get(3)
    assert held is not None
    assert folder.log.append_as_follower(plain(held)) is Taken.HELD
    assert folder.log.append_as_follower(replace(plain(held), term=2)) is Taken.CONFLICT
    assert folder.log.append_as_follower(replace(plain(held), body=b"x")) is Taken.CONFLICT


def test_an_empty_log_begins_with_index_0(tmp_path: Path) -> None:
    empty = follower(tmp_path)
    assert (empty.log.first_index, empty.log.last) == (-1, EMPTY)
    assert empty.log.append_as_follower(Entry(1, 1, 48, b"")) is Taken.GAP
    assert empty.log.append_as_follower(Entry(0, 1, 48, b"")) is Taken.MISPLACED
    assert empty.log.append_as_follower(Entry(0, 1, 0, b"")) is Taken.APPENDED
    empty.close()


# -- reading


def test_runs_of_entries_end_at_limits_and_files(folder: MajorityFolder) -> None:
    log = folder.log
    assert [e.index for e in log.read(0, 2, 1 << 20)] == [0, 1]
    assert [e.index for e in log.read(0, 9, 1 << 20)] == [0, 1, 2], "the file ends"
    assert [e.index for e in log.read(0, 9, 400)] == [0], "at least one"
    assert [e.index for e in log.read(0, 9, 348 + 448)] == [0, 1]
    assert log.read(-1, 5, 9) == log.read(7, 5, 9) == log.read(0, 0, 9) == []
    found, at = [], 0
    while run := log.read(at, 64, 1 << 20):
        found += run
        at = run[-1].index + 1
    assert found == entries(log)


@pytest.mark.parametrize(("index", "term"), [(-1, None), (0, 1), (6, 1), (7, None)])
def test_terms_come_from_the_index(folder: MajorityFolder, index: int, term: int | None) -> None:
    assert folder.log.term_of(index) == term
    assert (folder.log.get(index) is None) is (term is None)


@pytest.mark.parametrize("at", [0, 8, 20, 30, 50])
def test_a_damaged_entry_is_never_served(folder: MajorityFolder, at: int) -> None:
    held = folder.log.get(1)
    assert held is not None
    path = folder.root / "data" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(held.position + at)
        byte = file.read(1)
        file.seek(held.position + at)
        file.write(bytes([byte[0] ^ 64]))
    with pytest.raises(LogError, match="entry 1 at"):
        folder.log.get(1)
    assert folder.log.get(0) is not None and folder.log.get(2) is not None


@pytest.mark.parametrize("name", ["data", "index"])
def test_what_the_disk_cannot_give_is_refused_in_one_line(
    folder: MajorityFolder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pread

    def bad(fd: int, count: int, at: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}").split("/")[-2] == name:
            raise OSError(errno.EIO, "bad sector")
        return real(fd, count, at)

    monkeypatch.setattr(os, "pread", bad)
    with pytest.raises(LogError, match="cannot be read: bad sector"):
        folder.log.get(1)


# -- cutting


@pytest.mark.parametrize("cut", range(8))
def test_a_cut_leaves_what_is_in_front_of_it(tmp_path: Path, cut: int) -> None:
    folder = filled(tmp_path / "n0", SIZES)
    before = entries(folder.log)
    folder.log.flush()
    folder.log.truncate_from(cut)
    assert entries(folder.log) == before[:cut]
    assert folder.log.last == (before[cut - 1].place if cut else EMPTY)
    assert folder.log.flushed_index == min(cut, 7) - 1
    data = b"".join(p.read_bytes() for p in sorted((folder.root / "data").iterdir()))
    assert not any(data[folder.log.data.end_offset :]), "nothing is left behind it"
    made = append(folder.log, 33, term=2)
    assert made.index == cut and folder.log.last == Place(2, cut)
    kill(folder)
    again = small_folder(folder.root)
    assert entries(again.log) == [*before[:cut], made] and again.log.owed is None
    again.close()


@pytest.mark.parametrize("cut", [0, 3, 4])
def test_what_is_committed_is_never_cut(folder: MajorityFolder, cut: int) -> None:
    assert folder.log.commit(4) == 4
    before = entries(folder.log)
    with pytest.raises(LogError, match="committed"):
        folder.log.truncate_from(cut)
    assert entries(folder.log) == before
    folder.log.truncate_from(5)
    assert folder.log.last.index == folder.log.committed_index == 4


def test_a_cut_while_a_flush_runs_calls_nothing_durable_that_came_later(
    folder: MajorityFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush began with 7 entries; 4 of them are replaced before it returns."""
    real = folder.log.data.flush

    def meanwhile() -> int:
        flushed = real()
        monkeypatch.setattr(folder.log.data, "flush", real)
        folder.log.truncate_from(3)
        for _ in range(4):
            append(folder.log, 5, term=2)
        return flushed

    monkeypatch.setattr(folder.log.data, "flush", meanwhile)
    assert folder.log.flush() == -1
    assert folder.log.flush() == 6


# -- durable and committed


def test_only_a_flush_makes_entries_durable(folder: MajorityFolder) -> None:
    assert folder.log.flushed_index == -1
    assert folder.log.flush() == folder.log.flushed_index == 6
    append(folder.log, 5)
    assert folder.log.flushed_index == 6


def test_a_flush_that_fails_says_so_and_ends_the_log(folder, monkeypatch) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as context:
        context.setattr(os, "fdatasync", broken)
        with pytest.raises(LogError, match="flush failed"):
            folder.log.flush()
    assert folder.log.flushed_index == -1 and folder.log.broken is not None
    with pytest.raises(LogError):
        folder.log.flush()


@pytest.mark.parametrize(("asked", "index"), [(-1, -1), (3, 3), (6, 6), (99, 6)])
def test_the_committed_index_never_passes_the_end(
    folder: MajorityFolder, asked: int, index: int
) -> None:
    assert folder.log.commit(asked) == index
    assert folder.log.commit(2) == max(index, 2), "and never goes back"


def test_consumers_read_up_to_the_committed_position(folder: MajorityFolder) -> None:
    assert folder.log.committed_position == 0
    folder.log.commit(3)
    held = folder.log.get(3)
    assert held is not None and folder.log.committed_position == held.position + held.size


def test_the_committed_position_is_read_once(
    folder: MajorityFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.log.commit(3)
    asked: list[int] = []
    record = EntryIndex.record
    monkeypatch.setattr(
        EntryIndex, "record", lambda self, index: (asked.append(index), record(self, index))[1]
    )
    first, again = folder.log.committed_position, folder.log.committed_position
    assert first == again and asked == [3]
    folder.log.commit(4)
    assert folder.log.committed_position > first and asked == [3, 4]


def test_a_follower_sums_no_body_that_was_summed_on_its_way(
    folder: MajorityFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed, crc = [], entry_module.crc32
    other = follower(tmp_path / "n1")
    sent = entries(folder.log)
    monkeypatch.setattr(
        entry_module, "crc32", lambda data: (summed.append(bytes(data)), crc(data))[1]
    )
    for entry in sent:
        assert other.log.append_as_follower(entry) is Taken.APPENDED
    assert not {entry.body for entry in sent if entry.body} & set(summed), "its chain alone"
    other.close()


def test_what_is_committed_outlives_an_orderly_end(folder: MajorityFolder) -> None:
    folder.log.commit(5)
    folder.close()
    assert small_folder(folder.root).log.committed_index == 5


# -- a new begin


def test_a_follower_far_behind_begins_where_its_leader_does(tmp_path: Path) -> None:
    leader, other = filled(tmp_path / "n0", [200] * 20), follower(tmp_path / "n1")
    for entry in entries(leader.log)[:3]:
        other.log.append_as_follower(entry)
    other.log.commit(1)
    leader.log.commit(15)
    leader.log.trim(2 * FILE)()
    first = leader.log.get(leader.log.first_index)
    assert first is not None and first.index > 3
    assert other.log.append_as_follower(first) is Taken.GAP
    assert other.log.restart_at(first) is Taken.APPENDED
    assert other.log.owed == Place(1, 2), "what it had acknowledged and has no more"
    for entry in entries(leader.log)[1:]:
        assert other.log.append_as_follower(entry) is Taken.APPENDED
    assert entries(other.log) == entries(leader.log)
    assert other.log.commit(15) == 15 and other.log.owed is None
    kill(other)
    again = small_folder(other.root)
    assert entries(again.log) == entries(leader.log) and again.log.owed is None
    again.close()
    leader.close()


def test_nothing_committed_is_dropped_for_a_new_begin(folder: MajorityFolder) -> None:
    folder.log.commit(6)
    with pytest.raises(LogError, match="committed up to 6"):
        folder.log.restart_at(Entry(6, 1, FILE, b""))
    assert folder.log.last == Place(1, 6)


def test_a_log_begins_at_the_begin_of_a_file(folder: MajorityFolder) -> None:
    assert folder.log.restart_at(Entry(50, 3, 7 * FILE + 8, b"")) is Taken.MISPLACED
    assert folder.log.last == Place(1, 6), "nothing was dropped"
    assert folder.log.restart_at(Entry(50, 3, 7 * FILE, b"x")) is Taken.APPENDED
    assert (folder.log.first_index, folder.log.last) == (50, Place(3, 50))
    assert folder.log.committed_position == 7 * FILE


@pytest.mark.parametrize("begins_at", [0, 3 * FILE])
def test_the_first_entry_ever_may_lie_behind_an_older_log(tmp_path: Path, begins_at: int) -> None:
    folder = follower(tmp_path, begins_at)
    made = append(folder.log, 10)
    assert (made.index, made.position) == (0, begins_at)
    other = follower(tmp_path / "n1", begins_at)
    assert other.log.append_as_follower(made) is Taken.APPENDED
    kill(folder)
    again = small_folder(tmp_path, begins_at=begins_at)
    assert entries(again.log) == [made] == entries(other.log)
    again.log.truncate_from(0)
    assert append(again.log, 10, term=2).position == begins_at
    again.close()
    other.close()


# -- the front


@pytest.mark.parametrize("below", [0, 1, FILE - 1, FILE, 2 * FILE + 5, 1 << 40])
def test_old_files_go_as_far_as_entries_are_committed(tmp_path: Path, below: int) -> None:
    folder = filled(tmp_path / "n0", [200] * 40)
    before = entries(folder.log)
    folder.log.commit(22)
    folder.log.trim(below)()
    kept = entries(folder.log)
    assert kept == before[kept[0].index :] and kept[0].index <= 22
    committed = before[22].position
    assert kept[0].position == min(below, committed) // FILE * FILE
    assert folder.log.get(kept[0].index - 1) is None
    for name in ("data", "index"):
        first = min(int(path.name) for path in (folder.root / name).iterdir())
        unit = kept[0].position if name == "data" else kept[0].index * 32
        assert first == unit // FILE * FILE
    kill(folder)
    again = small_folder(folder.root)
    assert entries(again.log) == kept and again.log.owed is None
    again.close()


@pytest.mark.parametrize(
    ("used_percent", "hour", "files"),
    [(50, 3, 0), (50, 4, 2), (80, 3, 2), (86, 3, 5)],
    ids=["not due", "the hour", "the disk fills", "about to be full"],
)
def test_the_rule_of_other_logs_says_which_files_go(
    tmp_path: Path, used_percent: float, hour: int, files: int
) -> None:
    """DLedger's own: the hour 4, 72 hours, 70 and 85 percent."""
    folder = filled(tmp_path / "n0", [200] * 40)
    folder.log.commit(22)
    starts = folder.log.data.file_starts
    policy = Policy(72 * HOUR_MS, frozenset({4}), 70, 85, 90)
    limits = Limits(folder.log.committed_position, 1 << 40)
    held = [LogFile(start, number * HOUR_MS) for number, start in enumerate(starts)]
    decision = decide(policy, held, limits, used_percent, 74 * HOUR_MS, hour)
    folder.log.trim(decision.delete_below)()
    assert folder.log.data.file_starts == starts[files:]
    folder.close()


def test_nothing_goes_while_nothing_is_committed(folder: MajorityFolder) -> None:
    folder.log.trim(1 << 40)()
    assert folder.log.first_index == 0 and len(entries(folder.log)) == 7


def test_an_older_entry_than_the_first_counts_as_held_when_it_was_committed(tmp_path: Path) -> None:
    folder = filled(tmp_path / "n0", [200] * 20)
    before = entries(folder.log)
    folder.log.commit(15)
    folder.log.trim(2 * FILE)()
    assert folder.log.append_as_follower(before[0]) is Taken.HELD
    folder.close()


# -- room for several, and who hears of cuts


def test_room_for_several_entries_is_there_for_all_or_for_none(
    folder: MajorityFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = folder.log
    log.make_room([200] * 12)
    files = log.data.file_starts
    assert log.data.capacity_end > log.data.end_offset + 12 * 248
    before = log.last
    made = [append(log, 200) for _ in range(12)]
    assert log.data.file_starts == files and log.last.index == before.index + 12
    assert [one.body for one in entries(log)[-12:]] == [one.body for one in made]

    def no_room(path: Path, size: int) -> int:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(commit_log, "new_file", no_room)
    end = log.data.end_offset
    with pytest.raises(DiskFull):
        log.make_room([200] * 12)
    assert log.data.end_offset == end


def test_room_is_made_for_the_records_too(folder: MajorityFolder) -> None:
    folder.log.make_room([0] * 40)
    assert folder.log.index.log.capacity_end >= (7 + 40) * 32


def test_a_log_that_is_kept_full_has_no_room(folder: MajorityFolder) -> None:
    folder.log.full = "too full"
    with pytest.raises(DiskFull, match="too full"):
        folder.log.make_room([1])


def test_each_cut_is_told_once_it_is_done(folder: MajorityFolder) -> None:
    told: list[tuple[bool, Place]] = []
    folder.log.after_cut = lambda anew: told.append((anew, folder.log.last))
    folder.log.truncate_from(99)
    assert told == [], "nothing was cut"
    folder.log.truncate_from(5)
    folder.log.truncate_from(0)
    assert folder.log.restart_at(Entry(50, 3, 7 * FILE, b"x")) is Taken.APPENDED
    assert told == [(False, Place(1, 4)), (False, EMPTY), (True, Place(3, 50))]
