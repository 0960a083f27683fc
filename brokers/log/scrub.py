"""Looking through stored bytes for damage, whether or not anybody reads them.

Responsible for: finding every damaged record of a piece of the log and where the next sound one begins.
Refuses to know: where the bytes come from, pace, what is done about damage.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from brokers.log.integrity import BadRecord, Place
from brokers.log.records import MAGIC_V1, MAGIC_V2, MESSAGE_BYTES_MIN
from brokers.log.scan import LogWalk

_MAGICS = tuple(struct.pack(">I", magic) for magic in (MAGIC_V1, MAGIC_V2))


class Scrubbed(NamedTuple):
    """Up to where the piece was looked at, and the damage in it. A damaged place of size 0: its length is not known."""

    end: int
    bad: list[BadRecord]


def scrub(data: bytes, start: int, file_bytes: int, *, whole: bool) -> Scrubbed:
    """`data` are bytes of one file from a record's start at `start`. `whole`: a record that does not fit is damaged."""
    at, limit = start, start + len(data)
    found = Scrubbed(start, [])
    while at < limit:
        walk = LogWalk(lambda place, count: data[place - start : place - start + count], at, limit, file_bytes, check_body=True)
        for _ in walk:
            pass
        at = walk.end
        if not walk.reason or (walk.incomplete and not whole):
            break
        following = next_record(data, start, at + 1)
        size = 0 if following is None else following - at
        found.bad.append(BadRecord(Place(at, size), walk.reason))
        at = limit if following is None else following
    return found._replace(end=at)


def next_record(data: bytes, start: int, at: int) -> int | None:
    """Where the first record at or behind `at` begins that carries its own position."""
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
