"""Looking through stored bytes for damage, whether or not anybody reads them.

Responsible for: finding every damaged record of a piece of the log, where to go on behind it, and
which of these places are proven to be a record's start. Refuses to know: where the bytes come from,
pace, what is done about damage.

Proven is a place that sound records lead to, one after the other, from the start of a file or from
another proven place. A damaged record leads on where its own length leads to a record that carries
its own position: two facts that agree. What a search finds behind other damage is looked at, and
told, but nothing proves it: a body may hold a whole record.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from brokers.store.log.integrity import RECORD_BYTES_MAX, BadRecord, Place
from brokers.store.log.records import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    MESSAGE_BYTES_MIN,
    size_and_magic,
)
from brokers.store.log.scan import LogWalk

# A piece of this size holds any record whole, and the head of the one behind it.
PIECE_BYTES_MAX = RECORD_BYTES_MAX + MESSAGE_BYTES_MIN

_MAGICS = tuple(struct.pack(">I", magic) for magic in (MAGIC_V1, MAGIC_V2))


class Scrubbed(NamedTuple):
    """Up to where the piece was looked at, and the damage in it. A damaged place of size 0: its
    length is not known.

    `end` is a record's start: `proven`, or found by a search. `lost`: no record's start was found
    behind the last damage, it has to be searched for from `end` on.
    """

    end: int
    bad: list[BadRecord]
    proven: bool = True
    lost: bool = False


def scrub(
    data: bytes,
    start: int,
    file_bytes: int,
    *,
    whole: bool,
    proven: bool = True,
    lost: bool = False,
) -> Scrubbed:
    """`data` are bytes of one file from `start`, which is what `Scrubbed` says of an `end`.

    `whole`: a record is known to end where `data` ends. Otherwise one that `data` does not hold
    whole is left for a piece that begins with it, until that has PIECE_BYTES_MAX: `end` is `start`
    when it is the first.
    """
    at, limit, bad = start, start + len(data), list[BadRecord]()
    while at < limit:
        if lost:
            found = next_record(data, start, at)
            if found is None:
                return Scrubbed(
                    max(at, limit - MESSAGE_BYTES_MIN + 1), bad, proven=False, lost=True
                )
            at, proven, lost = found, False, False
        walk = LogWalk(
            lambda place, count: data[place - start : place - start + count],
            at,
            limit,
            file_bytes,
            check_body=True,
        )
        for _ in walk:
            pass
        at = walk.end
        if not walk.reason:
            break
        if (blank_end := _blank_end(data, start, at, file_bytes)) is not None:
            at = blank_end
            break
        may_go_on = walk.incomplete or not _leads_within(data, start, at, file_bytes)
        if may_go_on and not whole and (at > start or len(data) < PIECE_BYTES_MAX):
            break
        following = led_to(data, start, at)
        bad.append(
            BadRecord(Place(at, 0 if following is None else following - at), walk.reason, proven)
        )
        lost, at = following is None, at + 1 if following is None else following
    return Scrubbed(at, bad, proven, lost)


def next_record(data: bytes, start: int, at: int) -> int | None:
    """Where the first record at or behind `at` begins that carries its own position. Something that
    looks like one.
    """
    places = (_next(data, magic, at - start) for magic in _MAGICS)
    candidates = [place for place in places if place >= 0]
    while candidates:
        place = min(candidates)
        if data[place + 28 : place + 36] == struct.pack(">q", start + place):
            return start + place
        at = start + place + 1
        candidates = [found for magic in _MAGICS if (found := _next(data, magic, at - start)) >= 0]
    return None


def _next(data: bytes, magic: bytes, first: int) -> int:
    """Place of the record whose magic comes first; negative when there is none."""
    found = data.find(magic, first + 4)
    return found - 4 if found >= 4 and found - 4 + MESSAGE_BYTES_MIN <= len(data) else -1


def _blank_end(data: bytes, start: int, at: int, file_bytes: int) -> int | None:
    """The end of the file when a blank record reaches it from `at`, however much of it `data`
    holds.
    """
    file_end = at - at % file_bytes + file_bytes
    if start + len(data) - at < 8 or size_and_magic(data, at - start) != (
        file_end - at,
        MAGIC_BLANK,
    ):
        return None
    return file_end


def record_bytes(data: bytes, start: int, at: int) -> int:
    """What the record at `at` says that it is long; 0 where that can be no message."""
    size = size_and_magic(data, at - start)[0] if start + len(data) - at >= 8 else 0
    return size if MESSAGE_BYTES_MIN <= size <= RECORD_BYTES_MAX else 0


def _leads_within(data: bytes, start: int, at: int, file_bytes: int) -> bool:
    """Whether `data` shows what is where the damaged record at `at` says that the next one
    begins.
    """
    size, limit = record_bytes(data, start, at), start + len(data)
    file_end = at - at % file_bytes + file_bytes
    return at + 8 <= limit and (at + size + MESSAGE_BYTES_MIN <= limit or limit == file_end)


def led_to(data: bytes, start: int, at: int) -> int | None:
    """Where the next record begins, as the length of the damaged one at `at` and that record itself
    agree.
    """
    following = at + record_bytes(data, start, at)
    if (
        following > at
        and next_record(data[: following - start + MESSAGE_BYTES_MIN], start, following)
        == following
    ):
        return following
    return None
