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
from msgspec.structs import replace

HEAD_BYTES = 48
# DLedger encodes an entry in a buffer of this size, head included.
ENTRY_BYTES_MAX = 4 << 20
BODY_BYTES_MAX = ENTRY_BYTES_MAX - HEAD_BYTES
MAGIC_NORMAL = 1
NONE = -1
"""The index, and the term, of nothing: an empty log ends there."""

# Of the entry before: index, term, body's checksum. Of this one: magic, size, index, term, channel,
# body's checksum. Positions are left out: they are a replica's own.
_CHAINED = struct.Struct(">qqiiiqqii")
_INT_MASK = 0x7FFFFFFF


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


def body_crc(body: bytes | memoryview) -> int:
    """Checksum of a body, as Java's int holds it; never 0, which says that there is none."""
    return crc32(body) & _INT_MASK or 1


class Link(Struct, frozen=True, gc=False):
    """What the next entry is chained to: index, term and body's checksum of the one before it."""

    index: int = NONE
    term: int = NONE
    body_crc: int = 0


BEGIN = Link()
"""What the entry with index 0 is chained to."""


def link_of(entry: Entry) -> Link:
    """To chain the next entry to this one."""
    return Link(entry.index, entry.term, entry.body_crc or body_crc(entry.body))


def chain_crc(before: Link, entry: Entry) -> int:
    """Checksum of an entry's head and body and of the one before it; never 0.

    It depends on these two alone, so every replica that holds both makes the same one, whoever
    wrote them; and an entry behind another predecessor than the leader's does not fit.
    """
    own = entry.body_crc or body_crc(entry.body)
    return chained(before, (entry.magic, entry.size, entry.index, entry.term, entry.channel), own)


def chained(before: Link, head: tuple[int, int, int, int, int], own_crc: int) -> int:
    """The same from the numbers: magic, size, index, term, channel; the body's checksum."""
    packed = _CHAINED.pack(before.index, before.term, before.body_crc, *head, own_crc)
    return crc32(packed) & _INT_MASK or 1


def sealed(before: Link | None, entry: Entry) -> Entry:
    """The entry with both checksums. `before` is None where the entry before it is not here and
    never will be, at the begin of a log that was cleaned: what chain it came with stays then.
    """
    own_crc = body_crc(entry.body)
    head = entry.magic, entry.size, entry.index, entry.term, entry.channel
    chain = entry.chain_crc if before is None else chained(before, head, own_crc)
    return replace(entry, chain_crc=chain, body_crc=own_crc)


def body_fits(entry: Entry) -> bool:
    """Whether the body is what was written, as far as a checksum tells."""
    return not entry.body_crc or entry.body_crc == body_crc(entry.body)


def chain_fits(before: Link, entry: Entry) -> bool:
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
