"""Entries of a consume queue as bytes.

Responsible for: broker-wire-and-storage.md 3.5, one entry. Refuses to know: files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

ENTRY_BYTES = 20
FILLER_SIZE = 0x7FFFFFFF
# A replicated message may jump this far ahead in its queue; more means the log is not what it says it is.
GAP_ENTRIES_MAX = 10_000_000
# Beyond it the byte offset no longer fits a file name.
SLOT_MAX = 10**18

ENTRY = struct.Struct(">qiq")
# What stands where a queue has no message of this log.
FILLER = ENTRY.pack(0, FILLER_SIZE, 0)

pack_entry = ENTRY.pack


class Entry(NamedTuple):
    """Where a message lies: offset and size in bytes, and its tags code."""

    physical_offset: int
    size: int
    tags_code: int


# From the three fields, at a third of the price of a call with each: a pull reads dozens.
entry_of: Callable[[tuple[int, ...]], Entry] = partial(tuple.__new__, Entry)  # type: ignore[arg-type, assignment]


def is_kept(entry: Entry, log_min_offset: int) -> bool:
    """Whether it points to a message that the log still has."""
    return entry.size != FILLER_SIZE and entry.physical_offset >= log_min_offset
