"""What a replica needs of a message store, and how its log is cut.

Responsible for: the store's interface as a replica sees it, and performing cuts against it. Refuses
to know: why the log is cut, roles, links.
"""

from __future__ import annotations

from typing import Protocol

from brokers.ha.transport import FileRangeLike
from brokers.replica.effects import (
    CompareLog,
    CutDiverged,
    CutIncompleteTail,
    FindRecord,
    TruncateLog,
)
from brokers.store.files.errors import LogError
from brokers.store.log.records import MAGIC_V1, MAGIC_V2
from brokers.store.log.scan import LogWalk

_MAGICS = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_AT = 4


class ReplicaStore(Protocol):
    """The part of brokers.log.MessageStore a replica needs. Offsets are physical, in bytes."""

    @property
    def log_end(self) -> int: ...
    @property
    def log_min(self) -> int: ...
    @property
    def dispatched_offset(self) -> int: ...
    @property
    def stuck(self) -> str | None: ...
    def append_raw(self, offset: int, data: bytes | memoryview) -> None: ...
    def truncate(self, to_offset: int) -> int: ...
    def is_message_start(self, offset: int) -> bool: ...
    def read_log(self, offset: int, max_bytes: int) -> bytes: ...
    def file_range(self, offset: int, max_bytes: int) -> FileRangeLike | None: ...
    def keep_bytes(self, first: int, last: int) -> None: ...


def cut(
    store: ReplicaStore, effect: TruncateLog | CutIncompleteTail, file_bytes: int
) -> tuple[bool, int]:
    """(done, log end). Not done when no record starts at the wanted offset. OSError, LogError."""
    if isinstance(effect, CutIncompleteTail):
        target = complete_end(store, file_bytes)
    else:
        target = effect.to_offset
        if target > store.log_min and not _may_end_at(store, target, file_bytes):
            return False, store.log_end
    return True, store.truncate(target) if target < store.log_end else store.log_end


def equal_bytes(store: ReplicaStore, effect: CompareLog) -> int:
    """How many bytes of `effect.data`, from the front, the log has at its offset. OSError."""
    data, done = effect.data, 0
    while done < len(data):
        here = store.read_log(effect.offset + done, len(data) - done)
        there = data[done : done + len(here)]
        if not here or here != there:
            pairs = enumerate(zip(here, there, strict=False))
            return done + next((at for at, (one, other) in pairs if one != other), len(here))
        done += len(here)
    return done


def cut_diverged(store: ReplicaStore, effect: CutDiverged) -> tuple[bool, int]:
    """(done, log end). Not done when no record begins between its offsets. OSError, LogError."""
    border = _last_border(store, effect.above, effect.offset)
    if border is None:
        return False, store.log_end
    store.keep_bytes(border, store.log_end)
    return True, store.truncate(border)


def _last_border(store: ReplicaStore, above: int, offset: int) -> int | None:
    """The last place in (above, offset] at which a record begins, with its own position in it."""
    data = b""
    wanted = offset + _MAGIC_AT + len(_MAGICS[0]) - above
    while len(data) < wanted and (more := store.read_log(above + len(data), wanted - len(data))):
        data += more
    at = len(data)
    while (at := max(data.rfind(magic, 0, at) for magic in _MAGICS)) > _MAGIC_AT:
        border = above + at - _MAGIC_AT
        if border <= offset and store.is_message_start(border):
            return border
        at += len(_MAGICS[0]) - 1
    return None


def _may_end_at(store: ReplicaStore, offset: int, file_bytes: int) -> bool:
    """A record starts there, be it one of which only the first bytes have arrived: the old master
    may have died while sending exactly what the new one does not have.
    """
    if store.is_message_start(offset):
        return True
    walk = _walk_to_end(store, file_bytes)
    return walk.end == offset and walk.incomplete


def complete_end(store: ReplicaStore, file_bytes: int) -> int:
    """End of the last complete record: replication may have stopped in the middle of one.

    LogError when the log cannot be read for another reason: such a replica must not lead.
    """
    walk = _walk_to_end(store, file_bytes)
    if walk.end < store.log_end and not walk.incomplete:
        raise LogError(f"log cannot be read at {walk.end}: {walk.reason}")
    return walk.end


def has_record(store: ReplicaStore, effect: FindRecord, file_bytes: int) -> bool:
    """Whether a slave whose log ends at `offset` lacks a whole record below `below`. A slave that
    starts anew cuts a record of which it had only the first bytes, and it may have acknowledged
    those. Where no record can be read, it is lacking.
    """
    if not store.log_min <= effect.offset <= effect.below <= store.log_end:
        return True
    walk = LogWalk(store.read_log, effect.offset, effect.below, file_bytes, check_body=False)
    return next(iter(walk), None) is not None or not (walk.incomplete or walk.end >= effect.below)


def _walk_to_end(store: ReplicaStore, file_bytes: int) -> LogWalk:
    """Over what is not dispatched yet: everything below is made of complete records."""
    start = max(store.dispatched_offset, store.log_min)
    walk = LogWalk(store.read_log, start, store.log_end, file_bytes, check_body=False)
    for _ in walk:
        pass
    return walk
