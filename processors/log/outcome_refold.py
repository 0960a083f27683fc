"""
Outcomes that are not kept any more, folded again from the log (design D7).

Responsible for: where their topic ends, and a second folder that goes over the unpublished part of
the log in pieces, from the newest snapshot below it. Blocking; belongs into a thread of its own.
Refuses to know: when and why.
"""

from __future__ import annotations

from collections.abc import Callable

from events.outcomes import Outcome
from events.topics import COMMANDS_TOPIC
from processors.fold.folder import Folder
from processors.log.outcomes import last_published, published_outcome
from processors.log.reader import LogReader
from processors.log.snapshot_proof import doubt
from processors.log.snapshots import SnapshotFolder


class OutcomeRefold:
    """Pieces are asked for one behind the other, so the folder of the last one is kept."""

    def __init__(self, reader: Callable[[], LogReader], snapshots: SnapshotFolder) -> None:
        self._open = reader
        self._snapshots = snapshots
        self._reader: LogReader | None = None
        self._folder: Folder | None = None

    def outcomes(self, first: int, end: int) -> list[Outcome]:
        """The outcomes of the commands from `first` up to `end` (excluded). Raises LogUnreachable,
        LogBroken.
        """
        reader = self._opened()
        if self._folder is None or self._folder.next_offset > first:
            self._folder = next(
                (one for one in self._snapshots.newest_first(first - 1) if self._proven(one)),
                Folder(),
            )
        folder, found = self._folder, []

        def take(offset: int, data: bytes) -> None:
            outcome = folder.apply(offset, data).outcome
            if offset >= first:
                found.append(outcome)

        reader.read(COMMANDS_TOPIC, folder.next_offset, end, take)
        return found

    def _proven(self, folder: Folder) -> bool:
        return doubt(folder, published_outcome(self._opened(), folder.offset)) is None

    def last_published(self) -> int:
        """The command offset of the newest outcome in the topic, -1 when there is none. Raises
        LogUnreachable.
        """
        return last_published(self._opened())

    def _opened(self) -> LogReader:
        if self._reader is None:
            self._reader = self._open()
        return self._reader

    def close(self) -> None:
        """Leave the log."""
        if self._reader is not None:
            self._reader.close()
