"""The difference between two moments of a cluster, from the commands in bronze.

Responsible for finding the two commands and for folding from the one to the other, with the one
fold there is.
Refuses to know how a difference looks (`diff`), and to go on over a hole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from events.topics import COMMANDS_TOPIC
from lakehouse.answers.diff import StateAt, difference
from lakehouse.answers.state_at import fold_up_to, last_offset_at
from lakehouse.errors import NotLanded
from lakehouse.gold.fold import GoldFold, Record
from lakehouse.proof import kept as proof_store
from lakehouse.tables.bronze_log import BronzeLog
from lakehouse.tables.lake import Lake
from processors.fold.folder import Folder


@dataclass(frozen=True, slots=True)
class Moment:
    """A command by its offset, or the last one that the log took at `at_ms` (since 1970-01-01 UTC)
    or before; of neither: the last landed.
    """

    offset: int | None = None
    at_ms: int | None = None


class Reversed(NotLanded):
    """The second moment lies before the first."""


def diff_between(lake: Lake, first: Moment, last: Moment) -> dict[str, Any]:
    """`diff.difference` of the states after two commands.

    Raises `NotLanded` for a moment that has not landed and for two in the wrong order,
    `LakehouseError` at a hole.
    """
    log = BronzeLog(lake, COMMANDS_TOPIC)
    begin, end = (_offset_of(lake, log, moment) for moment in (first, last))
    if begin > end:
        raise Reversed(
            f"the first moment is command {begin}, the second command {end}, which is before it"
        )
    kept = proof_store.newest_state(lake, begin) or Folder()
    folder, begin_ms = fold_up_to(log.landed(kept.next_offset), begin, kept)
    before = StateAt(folder.offset, begin_ms, folder.digest, folder.state)
    fold = GoldFold(folder, begin_ms)
    steps = list(fold.changes(_records(log, begin + 1, end)))
    after = StateAt(fold.folder.offset, fold.at_ms, fold.folder.digest, fold.folder.state)
    return difference(before, after, steps)


def _offset_of(lake: Lake, log: BronzeLog, moment: Moment) -> int:
    if moment.at_ms is not None:
        return last_offset_at(lake, moment.at_ms)
    last = log.end - 1
    wanted = last if moment.offset is None else moment.offset
    if wanted > last or last < 0:
        raise NotLanded(
            f"command {max(wanted, 0)} has not landed: last {last if last >= 0 else 'none'}"
        )
    return wanted


def _records(log: BronzeLog, first: int, last: int) -> Iterator[Record]:
    for record in log.landed(first):
        if record.offset > last:
            return
        yield record.offset, record.timestamp_ms, record.value
