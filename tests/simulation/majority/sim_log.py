"""A majority log and a file of term and vote in memory, with what of them is on the disk.

Responsible for: the port's promises (`brokers.majority.log_port`), a loss of what was not flushed,
a disk that is full. Refuses to know: who replicates.

Positions are each replica's own, and differ: nothing may go by them. Chains are not checked, as
Java's logs check none: replication may not lean on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokers.majority.entry import EMPTY, NONE, Entry, Place
from brokers.majority.log_port import Taken, TermAndVote
from brokers.store.files.errors import DiskFull, LogError


class SimulatedTerms:
    """Durable at once."""

    def __init__(self) -> None:
        self.state = TermAndVote()

    def save(self, state: TermAndVote) -> None:
        before = self.state
        taken_away = before.voted_for not in (None, state.voted_for)
        if state.term < before.term or (state.term == before.term and taken_away):
            raise ValueError(f"{state} after {before}")
        self.state = state


class SimulatedLog:
    """`entries` from `base` on. `skew`: added to every position."""

    def __init__(self, base: int, skew: int) -> None:
        self.base = base
        self.entries: list[Entry] = []
        self.flushed_index = NONE
        self.committed_index = NONE
        self.owed: Place | None = None
        self.broken: str | None = None
        self.full = False
        self.skew = skew
        self.unreadable = 0
        self._kept_committed = NONE

    @property
    def first_index(self) -> int:
        return self.base if self.entries else NONE

    @property
    def last(self) -> Place:
        return self.entries[-1].place if self.entries else EMPTY

    def get(self, index: int) -> Entry | None:
        if self.unreadable:
            self.unreadable -= 1
            raise LogError("a page could not be read")
        at = index - self.base
        return self.entries[at] if 0 <= at < len(self.entries) else None

    def read(self, first: int, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        if self.unreadable:
            self.unreadable -= 1
            raise LogError("a page could not be read")
        at, found, size = first - self.base, [], 0
        while 0 <= at < len(self.entries) and len(found) < max_entries:
            size += self.entries[at].size
            if found and size > max_bytes:
                break
            found.append(self.entries[at])
            at += 1
        return found

    def term_of(self, index: int) -> int | None:
        at = index - self.base
        return self.entries[at].term if 0 <= at < len(self.entries) else None

    def append_as_leader(self, term: int, size: int, build: Callable[[int], bytes]) -> Entry:
        if self.full:
            raise DiskFull("no room")
        if term < self.last.term:
            raise LogError("a smaller term")
        position = self._next_position()
        body = build(position)
        assert len(body) == size
        index = self.last.index + 1 if self.entries else self.base
        entry = Entry(index, term, position, body)
        self.entries.append(entry)
        return entry

    def append_as_follower(self, entry: Entry) -> Taken:
        if self.full:
            return Taken.DISK_FULL
        next_index = self.last.index + 1
        if self.entries and entry.index < next_index:
            return Taken.CONFLICT
        if entry.index != (next_index if self.entries else self.base):
            return Taken.GAP
        if entry.term < self.last.term:
            return Taken.CONFLICT
        self._keep(entry)
        return Taken.APPENDED

    def _keep(self, entry: Entry) -> None:
        position = self._next_position()
        self.entries.append(
            Entry(entry.index, entry.term, position, entry.body, entry.magic, entry.channel)
        )

    def truncate_from(self, index: int) -> None:
        if index <= self.committed_index:
            raise LogError(f"entry {index} is committed, up to {self.committed_index}")
        del self.entries[max(0, index - self.base) :]
        self.flushed_index = min(self.flushed_index, index - 1)

    def restart_at(self, entry: Entry) -> Taken:
        if self.committed_index > entry.index:
            raise LogError("something behind it is committed")
        if self.full:
            return Taken.DISK_FULL
        self.entries, self.base, self.flushed_index = [], entry.index, NONE
        self._keep(entry)
        return Taken.APPENDED

    def flush(self) -> int:
        return self.flushed(self.last)

    def flushed(self, end: Place) -> int:
        """A flush is over that began when the log ended there; what was cut since is not in it."""
        if self.term_of(end.index) == end.term:
            self.flushed_index = max(self.flushed_index, end.index)
        self._kept_committed = min(self.committed_index, self.flushed_index)
        return self.flushed_index

    def commit(self, index: int) -> int:
        self.committed_index = max(self.committed_index, min(index, self.last.index))
        if self.owed is not None and index >= self.owed.index:
            self.owed = None
        return self.committed_index

    # -- what happens to it ----------------------------------------------------------------------

    def begin_with(self, entry: Entry) -> None:
        """The entry that all replicas have from the beginning."""
        self.base = entry.index
        self._keep(entry)
        self.commit(entry.index)
        self.flush()

    def lose_power(self) -> None:
        """What was not flushed is gone; of the committed index, what was kept."""
        if self.entries:
            del self.entries[max(0, self.flushed_index - self.base + 1) :]
        self.committed_index = min(self._kept_committed, self.last.index)
        self.flushed_index = self.last.index
        # A file is scanned anew, and what is appended lands elsewhere.
        self.skew += 8

    def wipe(self) -> None:
        """The folder is empty but for what says so."""
        self.owed = self.last if self.entries else self.owed
        self.entries, self.base = [], 0
        self.flushed_index = self.committed_index = self._kept_committed = NONE

    def drop_below(self, index: int) -> None:
        """Old entries are cleaned; the last one stays."""
        count = min(index - self.base, len(self.entries) - 1)
        if count > 0:
            del self.entries[:count]
            self.base += count

    def _next_position(self) -> int:
        if not self.entries:
            return self.skew
        return self.entries[-1].position + self.entries[-1].size + self.skew % 3
