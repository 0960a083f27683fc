"""Where a broker's messages lie when its log is one of entries: each message is an entry's body.

Responsible for: the arithmetic between entries and messages (PROTOCOL 9.6). Refuses to know: files,
what a message says.

Positions count the bytes of the data log, heads and filler included, so a message's physical offset
is 48 behind its entry's position.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokers.majority.entry import HEAD_BYTES, Entry


def physical_offset(position: int) -> int:
    """Of the message in the entry at `position`: a leader writes it into the message."""
    return position + HEAD_BYTES


def entry_position(offset: int) -> int:
    """Of the entry that holds the message with this physical offset. ValueError for an offset that
    no message can have.
    """
    if offset < HEAD_BYTES:
        raise ValueError(f"no message of an entry begins at {offset}")
    return offset - HEAD_BYTES


def entry_end(position: int, body_bytes: int) -> int:
    """Behind the entry; behind a committed one, this is up to where consumers may read."""
    return position + HEAD_BYTES + body_bytes


def next_message(offset: int, message_bytes: int) -> int:
    """Where the next message's physical offset is, if its entry follows in the same file."""
    return offset + message_bytes + HEAD_BYTES


def dividing_offset(old_starts: Sequence[int], file_bytes: int) -> int:
    """Where the entries begin on a broker that has messages from before in an ordinary commit log,
    whose files begin at `old_starts`: behind its last file. 0 when there is none.
    """
    return old_starts[-1] + file_bytes if old_starts else 0


def is_before_entries(offset: int, dividing: int) -> bool:
    """Whether a physical offset is that of a message of the old commit log."""
    return offset < dividing


def messages(entries: Sequence[Entry]) -> list[tuple[int, bytes]]:
    """(physical offset, bytes) of each message; entries without a body hold none."""
    return [(physical_offset(one.position), one.body) for one in entries if one.body]
