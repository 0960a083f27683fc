"""What everything above a broker's log needs of it, whichever log it is.

Responsible for: the narrow interface between messages and the two logs that can hold them: one of
records, as a master sends its bytes (`commit_log.CommitLog`), and one of entries, of which each
holds a message (`brokers/majority/messages`). Refuses to know: how the bytes came there, who has
them too, what is confirmed.

A message's physical offset is known, and written into it, before it is appended. Whatever a log has
between messages belongs to none, and is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from brokers.store.files.errors import LogError
from brokers.store.log.records import Record


class FileRange(NamedTuple):
    """`count` bytes at `position` of an open file. Valid until the next truncate or close of the
    log.
    """

    fileno: int
    position: int
    count: int  # type: ignore[assignment]  # Hides the method of tuples, which nobody wants here.


class RecordWalk(Protocol):
    """Iterates over complete messages front to back; afterwards `end` is behind the last one, or
    behind what else was passed over, and `reason` says in one line why it stopped before its limit.
    `incomplete`: because what stands there merely goes on beyond the limit.
    """

    end: int
    reason: str
    incomplete: bool

    def __iter__(self) -> Iterator[Record]: ...


# (offset, count) -> up to `count` bytes, fewer where the log's files end.
Read = Callable[[int, int], bytes]
# (bytes of one file, from a border of records on) -> where in them messages begin, one behind the
# other.
Starts = Callable[[bytes], Sequence[int]]


class MessageLog(Protocol):
    """Files of one size, readable from `min_offset` to `end_offset`. One thread uses it; `flush`
    may run on another.
    """

    file_bytes: int
    starts: Starts | None
    """None: nothing stands between messages, and their own sizes lead from one to the next."""

    @property
    def min_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def file_starts(self) -> tuple[int, ...]: ...
    @property
    def file_paths(self) -> Mapping[int, Path]:
        """The files by their start offsets."""
        ...

    @property
    def io_error(self) -> str | None:
        """Why nothing is written any more; None while it is."""
        ...

    @property
    def disk_full(self) -> str | None:
        """Why the last write was refused for want of room."""
        ...

    def ask_for_room(self) -> None:
        """Forgets that, once there is room again."""
        ...

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Up to `max_bytes`; ends with a file and with the log, empty outside. OSError."""
        ...

    def file_range(self, offset: int, max_bytes: int) -> FileRange | None:
        """The same as a range of an open file."""
        ...

    def walk(
        self, start: int, limit: int, *, check_body: bool, read: Read | None = None
    ) -> RecordWalk:
        """The messages from `start`, a border of records, of which none ends beyond `limit`;
        `read`: from there instead.
        """
        ...

    def store_ms_at(self, offset: int) -> int | None:
        """When the message at `offset` was stored (ms since 1970), or the one behind that border;
        None without one.
        """
        ...

    def border_before(self, message: int) -> int:
        """Where what holds the message at this offset begins."""
        ...

    def trim(self, below: int) -> Callable[[], None]:
        """Begins at `below` or earlier from now on, with a file. Returns what removes the others'
        files, on any thread: LogError, OSError.
        """
        ...

    def flush(self) -> int:
        """Makes everything durable; up to where. On any thread. LogError."""
        ...

    def fail(self, action: str, error: OSError) -> LogError:
        """No more writes from now on. Returns what to raise."""
        ...

    def close(self) -> None: ...
