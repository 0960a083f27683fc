"""Many messages at once, found complete: what reading a log at a start does to its long sound part.

Responsible for: the completeness rule of PROTOCOL 3.8 for runs of plain messages,
body checksums included, at about a tenth of the price of one after the other. Refuses to know: what
is wrong with a record: it stops in front of it, and in front of those that only scan.LogWalk may
judge.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import numpy as np

from brokers.store.log.record_arrays import (
    Bytes,
    RecordArrays,
    gather,
    leading,
    record_arrays,
    record_starts,
)
from brokers.store.queues.entry_runs import EntryRuns, runs_of


class CheckedRuns(NamedTuple):
    """`count` messages in a row, and their queue entries."""

    count: int  # type: ignore[assignment]  # Hides the method of tuples, as in `commit_log`.
    made: EntryRuns


def checked_runs(data: Bytes, start: int) -> CheckedRuns:
    """Of the complete messages at the front of `data`, the log's bytes from `start` within one
    file.
    """
    at = record_starts(data)
    while len(at):
        found = record_arrays(data, start, at)
        count = found if isinstance(found, int) else _sound(data, found)
        if not isinstance(found, int) and count == len(at):
            return CheckedRuns(count, runs_of(data, start, found))
        at = at[:count]
    return CheckedRuns(0, EntryRuns(start, [], 0))


def _sound(data: Bytes, found: RecordArrays) -> int:
    """How many of them are complete."""
    return min(_written(data, found), _matching(data, found))


def _written(data: Bytes, found: RecordArrays) -> int:
    """How many do not end in a zero, which may stand for what was not written (see LogWalk)."""
    text_end = np.where(found.properties_bytes > 0, found.end, found.properties_at - 2) - 1
    return leading(gather(data, text_end, "u1") != 0)


def _matching(data: Bytes, found: RecordArrays) -> int:
    """How many have the bodies that their checksums are of; an empty one has none to fail."""
    view = memoryview(data)
    checks = zip(
        found.body_at.tolist(), found.topic_at.tolist(), found.heads["crc"].tolist(), strict=True
    )
    for number, (first, last, crc) in enumerate(checks):
        if crc32(view[first:last]) & 0x7FFFFFFF != crc and first != last:
            return number
    return len(found.at)
