"""Damage that a start meets in what an earlier run had written: where the log goes on behind it.

Responsible for: telling a record that was damaged from the end of the log, and the next record from
bytes that look like one.
Refuses to know: who repairs it, what is served.

What was written cannot be torn: where sound records follow, the log goes on with them. Where
nothing follows in all that was flushed, it became short: it ends there, and what is missing is
missed (`recovery.plan`).
"""

from __future__ import annotations

from typing import NamedTuple

from brokers.store.files.errors import is_unreadable
from brokers.store.log.integrity import RECORD_BYTES_MAX
from brokers.store.log.records import MESSAGE_BYTES_MIN
from brokers.store.log.scan import LogWalk, Read
from brokers.store.log.scrub import led_to, next_record, record_bytes
from brokers.store.log.segments import file_start

SEARCHED_BYTES = 1 << 20
# Unreadable bytes are looked around in pieces of what a disk loses at once.
SECTOR_BYTES = 4096


class Written(NamedTuple):
    """Up to where everything was `flushed`, a border of records; and up to where it was at least
    written, `end`.
    """

    flushed: int
    end: int


class Passed(NamedTuple):
    """A damaged record of `size` bytes (0: its length is not known), and where the log goes on."""

    size: int
    following: int


def behind_damage(
    read: Read, at: int, limit: int, file_bytes: int, written: Written
) -> Passed | None:
    """None when the log ends at `at`: nothing that was written is known to follow. `limit`: end of
    the files.
    """
    if at >= written.end:
        return None
    file_end = min(file_start(at, file_bytes) + file_bytes, limit)
    last = min(file_end, written.end)
    data = _around(read, at, min(RECORD_BYTES_MAX + MESSAGE_BYTES_MIN, file_end - at))
    following = led_to(data, at, at)
    if following is not None and following <= last:
        return Passed(following - at, following)
    following = _next(read, at + 1, last, file_end, file_bytes)
    if following is None and file_end <= written.end and file_end < limit:
        following = file_end  # a file begins with a record
    if following is None and at < written.flushed == at + record_bytes(data, at, at):
        return Passed(written.flushed - at, written.flushed)
    return None if following is None else Passed(0, following)


def _next(read: Read, at: int, last: int, file_end: int, file_bytes: int) -> int | None:
    """The first record in [at, last] from which sound ones lead to the end of the file, or to all
    that was written there.

    Any other is not believed: a body may hold what looks like a record.
    """
    while at <= last:
        data = _around(read, at, min(SEARCHED_BYTES, file_end - at))
        found = next_record(data, at, at)
        if found is None:
            at += max(len(data) - MESSAGE_BYTES_MIN, 1)
            if len(data) < SEARCHED_BYTES:
                return None
            continue
        walk = LogWalk(read, found, file_end, file_bytes, check_body=True)
        for _ in walk:
            pass
        if found <= last and (not walk.reason or walk.end >= last):
            return found
        at = max(walk.end, found + 1)
    return None


def _around(read: Read, at: int, count: int) -> bytes:
    """As `read`, with zeros in the place of what cannot be read."""
    try:
        return read(at, count)
    except OSError as error:
        if not is_unreadable(error):
            raise
    if count <= SECTOR_BYTES - at % SECTOR_BYTES:
        return bytes(count)
    first = (
        SECTOR_BYTES - at % SECTOR_BYTES
        if count <= 2 * SECTOR_BYTES
        else count // 2 - (at + count // 2) % SECTOR_BYTES
    )
    return _around(read, at, first) + _around(read, at + first, count - first)
