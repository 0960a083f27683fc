"""One record of a majority log, its two checksums, and when two records are the same.

Responsible for: what an entry is on every way it goes, files and wire (PROTOCOL 9.2). Refuses to
know: how it is laid out there, what its body means.

Java's replicas leave both checksums zero, so zero says that none was made; ours make them on
receipt.
"""

from __future__ import annotations

import struct
from zlib import crc32

from msgspec import Struct

HEAD_BYTES = 48
# DLedger encodes an entry in a buffer of this size, head included.
ENTRY_BYTES_MAX = 4 << 20
BODY_BYTES_MAX = ENTRY_BYTES_MAX - HEAD_BYTES
MAGIC_NORMAL = 1
NONE = -1
"""The index, and the term, of nothing: an empty log ends there."""

# Of the entry before: index, term, body's checksum. Of this one: magic, size, index, term, channel,
# body's checksum. Positions are left out: they are a replica's own.
_CHAINED = struct.Struct(">qqIiiqqiI")


class Place(Struct, frozen=True, order=True, gc=False):
    """Where a log ends, or where an entry stands: compared as votes compare, by term first. Both
    are -1 for an empty log.
    """

    term: int = NONE
    index: int = NONE


EMPTY = Place()


class Entry(Struct, frozen=True, gc=False):
    """`position`: byte in the data log at which its head begins. Checksums are 0 where none was
    made.
    """

    index: int
    term: int
    position: int
    body: bytes
    magic: int = MAGIC_NORMAL
    channel: int = 0
    chain_crc: int = 0
    body_crc: int = 0

    @property
    def size(self) -> int:
        """Bytes in the data log."""
        return HEAD_BYTES + len(self.body)

    @property
    def place(self) -> Place:
        return Place(self.term, self.index)


def body_crc(body: bytes) -> int:
    """Checksum of a body; never 0, which says that there is none."""
    return crc32(body) or 1


def chain_crc(before: Entry | None, entry: Entry) -> int:
    """Checksum of an entry's head and body and of the one before it, None where a log begins with
    index 0; never 0.

    It depends on these two alone, so every replica that holds both makes the same one, whoever
    wrote them; and an entry behind another predecessor than the leader's does not fit.
    """
    if before is None:
        behind = NONE, NONE, 0
    else:
        behind = before.index, before.term, before.body_crc or body_crc(before.body)
    own = entry.body_crc or body_crc(entry.body)
    head = entry.magic, entry.size, entry.index, entry.term, entry.channel
    return crc32(_CHAINED.pack(*behind, *head, own)) or 1


def sealed(before: Entry | None, entry: Entry, known: bool = True) -> Entry:
    """The entry with both checksums, made here. `known` is False where the entry before it is not
    here and never will be, at the begin of a log that was cleaned: there is no chain then.
    """
    own = Entry(
        entry.index,
        entry.term,
        entry.position,
        entry.body,
        entry.magic,
        entry.channel,
        0,
        body_crc(entry.body),
    )
    chain = chain_crc(before, own) if known else 0
    return Entry(
        own.index,
        own.term,
        own.position,
        own.body,
        own.magic,
        own.channel,
        chain,
        own.body_crc,
    )


def body_fits(entry: Entry) -> bool:
    """Whether the body is what was written, as far as a checksum tells."""
    return not entry.body_crc or entry.body_crc == body_crc(entry.body)


def chain_fits(before: Entry | None, entry: Entry) -> bool:
    """Whether the entry was written behind `before`, as far as a checksum tells."""
    return not entry.chain_crc or entry.chain_crc == chain_crc(before, entry)


def same(one: Entry, other: Entry) -> bool:
    """Whether two entries are one: everything but the checksums and the positions (Java counts the
    positions too).
    """
    return (one.index, one.term, one.magic, one.channel, one.body) == (
        other.index,
        other.term,
        other.magic,
        other.channel,
        other.body,
    )
