"""What replication needs of a majority log and of the file of term and vote.

Responsible for: the interface, and what each call promises when it returns. Refuses to know: files,
who leads, who is asked.

One thread calls everything; `flush` alone may run on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from brokers.majority.entry import Entry, Place


class Taken(Enum):
    """What became of an entry offered to the log. Only the first two say that it is there."""

    APPENDED = "written, not yet durable"
    HELD = "there already, the same"
    GAP = "the entry before it is not here"
    CONFLICT = "another entry has its place, or it was written behind another predecessor"
    MISPLACED = "this log would put it at another position than the leader's"
    UNFIT = "too large, or numbers that no log can hold"
    DISK_FULL = "no room: nothing was kept, and it may be offered again"
    BROKEN = "the disk refused: this log takes nothing any more"


class TermAndVote(Struct, frozen=True, gc=False):
    """The highest term accepted, and who got this member's vote in it (a member id, None: nobody
    yet).
    """

    term: int = 0
    voted_for: str | None = None


class TermStore(Protocol):
    """Term and vote, durable."""

    @property
    def state(self) -> TermAndVote: ...

    def save(self, state: TermAndVote) -> None:
        """Durable on return, the old or the new after a crash. OSError: unknown which, so no answer
        may be given. ValueError for a lower term, or another vote in the same term.
        """
        ...


class MajorityLog(Protocol):
    """Entries by index, from `first_index` to `last`, without a gap. Indexes are -1 for none."""

    @property
    def first_index(self) -> int:
        """Of the first entry that is still here, -1 when the log is empty."""
        ...

    @property
    def last(self) -> Place:
        """Where the log ends, one value (term, index): what votes compare."""
        ...

    @property
    def flushed_index(self) -> int:
        """Entries up to here are on the disk: only these count for a majority."""
        ...

    @property
    def committed_index(self) -> int:
        """Grows only; never above `last`. Nothing up to here is ever cut."""
        ...

    @property
    def owed(self) -> Place | None:
        """This member once held entries up to here and does not any more (damage, a new begin): as
        long as it says so, the member grants no vote and stands for no election, for it may have
        acknowledged them. It ends by itself when a committed entry at or behind this place is here.
        """
        ...

    @property
    def broken(self) -> str | None:
        """Why the log takes nothing any more; None while it does."""
        ...

    def get(self, index: int) -> Entry | None:
        """The entry as it was written; None outside the log. LogError when its bytes are damaged:
        never served.
        """
        ...

    def read(self, first: int, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        """Entries from `first` on, in order, up to either limit but at least one where the log has
        one; empty outside.
        """
        ...

    def term_of(self, index: int) -> int | None:
        """Its term, from the index alone; None outside the log."""
        ...

    def append_as_leader(self, term: int, size: int, build: Callable[[int], bytes]) -> Entry:
        """Writes the next entry with a body of `size` bytes, which `build(position of the entry)`
        makes; not durable yet. `term` is at least that of the last entry. DiskFull: nothing was
        kept. LogError.
        """
        ...

    def append_as_follower(self, entry: Entry) -> Taken:
        """Takes a leader's entry, checked first: chain, place, position. Its body fits its
        checksum: who decoded it has looked. Never cuts: after a CONFLICT it is for the caller to
        `truncate_from`.
        """
        ...

    def truncate_from(self, index: int) -> None:
        """Drops this entry and all behind it, durably: no crash brings them back. LogError at or
        below the committed index, nothing is cut then.
        """
        ...

    def restart_at(self, entry: Entry) -> Taken:
        """Drops everything and begins with a leader's first entry: the way back of a follower that
        has nothing the leader still has. LogError when something here is committed behind it.
        """
        ...

    def flush(self) -> int:
        """Makes everything written durable; returns the index up to which it is. On any thread.
        LogError: the disk refused, and what was not durable before may be lost.
        """
        ...

    def commit(self, index: int) -> int:
        """Entries up to `index` are committed, as far as they are here; returns the committed
        index.
        """
        ...
