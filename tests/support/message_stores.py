"""Stores over both kinds of log, as one replica after the other uses them: written to as leader,
confirmed, cut, copied, killed and opened again.

Responsible for: what replication does with each kind, in its own words. Refuses to know: what has
to hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from brokers.majority.log_port import Taken, TermAndVote
from brokers.majority.messages.store import EntryMessageStore
from brokers.majority.quorum.effects import NewEntry
from brokers.majority.store.folder import MajorityFolder, MajorityStoreConfig, folder_name
from brokers.majority.wire.codes import Code
from brokers.store.appender import PutResult
from brokers.store.files.errors import DiskFull
from brokers.store.log.records import MessageFields, RecordError
from brokers.store.store import MessageStore, StoreConfig

LOG_FILE_BYTES = 4_096
CONFIG = StoreConfig(log_file_bytes=LOG_FILE_BYTES, queue_file_bytes=200)


class Replica(Protocol):
    """One replica and its store."""

    store: MessageStore

    def lead(self) -> None: ...
    def confirm(self, end: int | None = None) -> None:
        """Everything up to here, None: everything, is confirmed, and its messages readable."""

    def cut_unconfirmed(self) -> None:
        """Another leader does not have what is not confirmed."""

    def follow(self, leader: Replica) -> None:
        """Takes what the leader has and this one has not."""

    def close(self, *, clean: bool) -> None: ...
    def begin_anew(self, leader: Replica) -> None:
        """Far behind: drops everything, and begins where the leader does."""


class OfRecords:
    """Of an in-sync set: a log of a master's bytes."""

    def __init__(self, root: Path, same_boot: bool = True) -> None:
        self.root = root
        self.store = MessageStore(root, CONFIG, same_boot=same_boot)

    def lead(self) -> None:
        self.store.rebuild_queue_offsets()

    def confirm(self, end: int | None = None) -> None:
        self.store.dispatch_to(self.store.log_end if end is None else end)

    def cut_unconfirmed(self) -> None:
        self.store.truncate(self.store.confirm_offset)

    def follow(self, leader: Replica) -> None:
        while self.store.log_end < leader.store.log_end:
            at = self.store.log_end
            self.store.append_raw(at, leader.store.read_log(at, 1_000))

    def begin_anew(self, leader: Replica) -> None:
        self.store.truncate(0)
        at = leader.store.log_min
        self.store.append_raw(at, leader.store.read_log(at, 1_000))
        self.follow(leader)

    def close(self, *, clean: bool) -> None:
        self.store.close(clean=clean)


class OfEntries:
    """Of a majority group: a log of entries, in the folder of member n0."""

    def __init__(self, root: Path, same_boot: bool = True) -> None:
        self.root = root
        self.term = 0
        self.leads = False
        sizes = MajorityStoreConfig(LOG_FILE_BYTES, 1_024)
        self.folder = MajorityFolder(root / folder_name("n0"), sizes, same_boot=same_boot)
        try:
            self.store = EntryMessageStore(
                root, self.folder, self.propose, CONFIG, same_boot=same_boot
            )
        except BaseException:
            self.folder.close()
            raise

    def propose(self, entries: Sequence[NewEntry]) -> Code:
        if not self.leads:
            return Code.NOT_LEADER
        for entry in entries:
            try:
                self.folder.log.append_as_leader(self.term, entry.size, entry.build)
            except DiskFull:
                return Code.DISK_FULL
        return Code.SUCCESS

    def lead(self) -> None:
        """In a new term, which begins with an entry that holds no message."""
        self.leads, self.term = True, max(self.term, self.folder.log.last.term, 0) + 1
        self.folder.terms.save(TermAndVote(self.term, "n0"))
        self.folder.log.append_as_leader(self.term, 0, lambda position: b"")
        self.store.rebuild_queue_offsets()

    def confirm(self, end: int | None = None) -> None:
        log = self.folder.log
        index = log.last.index
        while end is not None and index >= 0:
            entry = log.get(index)
            assert entry is not None
            if entry.position + entry.size <= end:
                break
            index -= 1
        log.commit(index)
        self.store.committed()

    def cut_unconfirmed(self) -> None:
        self.leads = False
        self.folder.log.truncate_from(self.folder.log.committed_index + 1)

    def follow(self, leader: Replica) -> None:
        assert isinstance(leader, OfEntries)
        self.leads, self.term = False, leader.term
        if self.folder.terms.state.term < self.term:
            self.folder.terms.save(TermAndVote(self.term))
        for index in range(self.folder.log.last.index + 1, leader.folder.log.last.index + 1):
            entry = leader.folder.log.get(index)
            assert entry is not None
            assert self.folder.log.append_as_follower(entry) is Taken.APPENDED

    def begin_anew(self, leader: Replica) -> None:
        assert isinstance(leader, OfEntries)
        first = leader.folder.log.get(leader.folder.log.first_index)
        assert first is not None
        assert self.folder.log.restart_at(first) is Taken.APPENDED
        self.follow(leader)

    def close(self, *, clean: bool) -> None:
        self.store.close(clean=clean)
        if clean:
            self.folder.close()
        else:
            self.folder.log.data.close()
            self.folder.log.index.log.close()
            self.folder._lock.release()


KINDS: dict[str, type[OfRecords] | type[OfEntries]] = {"records": OfRecords, "entries": OfEntries}


def put(replica: Replica, *messages: MessageFields, now_ms: int) -> list[PutResult]:
    """Each by itself, in one call; all of them are taken."""
    found = replica.store.put_many([(one,) for one in messages], now_ms)
    assert not any(isinstance(one, RecordError) for one in found), found
    return [one for one in found if isinstance(one, PutResult)]
