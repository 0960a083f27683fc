"""Landed commands as a stream of what each did to its broker set.

Responsible for folding records in order with the one fold there is, and for putting beside each
outcome what only its publisher knows. All rows of the gold layer are made from this stream.
Refuses to know tables, and to go on over a hole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from events.commands import Command
from events.outcomes import Outcome
from lakehouse.errors import LakehouseError
from lakehouse.tables.specs import is_of_a_clock
from processors.fold.folder import Applied, Folder, HoleInLog, ReleaseTooOld
from processors.fold.state import BrokerSet

Record = tuple[int, int | None, bytes | None]
"""Offset, the log's timestamp in ms since 1970-01-01 UTC, value bytes."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a controller published about one command, as far as the fold does not give it."""

    digest: str
    """64 hex digits."""
    publisher: str
    published_at_ms: int
    phases: Mapping[str, int]
    """Phase -> ms since 1970-01-01 UTC."""


@dataclass(frozen=True, slots=True)
class SetChange:
    """What one record of the command log did to a set.

    A record that is about no set, or about one that nobody knows, has neither `before` nor
    `after`; one that changed nothing has the same twice. Times never fall from record to record.
    """

    offset: int
    at_ms: int
    """When the log took the record, ms since 1970-01-01 UTC."""
    command: Command | None
    """None when it cannot be read."""
    outcome: Outcome
    """As folded; the publisher's stamps are in it if they were given."""
    before: BrokerSet | None
    after: BrokerSet | None
    digest_agrees: bool | None
    """Whether the published digest is the folded one; None when none was given."""

    @property
    def cluster_id(self) -> str:
        """The cluster that decided; empty before it was formed."""
        return self.outcome.cluster_id

    @property
    def is_changed(self) -> bool:
        """Whether the set is another one after the record."""
        return self.before != self.after


class GoldFold:
    """The fold of one cluster's commands, as far as it has come.

    `folder` is what a snapshot keeps (`processors.fold.snapshot_codec`); given back together with
    `at_ms`, the stream goes on behind it as if it had never stopped.
    """

    def __init__(self, folder: Folder | None = None, at_ms: int = 0) -> None:
        self.folder = Folder() if folder is None else folder
        self.at_ms = at_ms
        """Time of the last record, ms since 1970-01-01 UTC; 0 before the first."""

    def ahead(self) -> GoldFold:
        """One that goes on from here while this one stays."""
        return GoldFold(self.folder.copy(), self.at_ms)

    def changes(
        self, records: Iterable[Record], published: Mapping[int, Published] | None = None
    ) -> Iterator[SetChange]:
        """Fold records from the next offset on, ascending; `published` is by command offset.

        Raises `LakehouseError` naming the offset at a hole, and where this release cannot know
        what a record means; what came before has been given.
        """
        for offset, at_ms, value in records:
            sets = self.folder.state.sets
            try:
                applied = self.folder.apply(offset, value or b"")
            except (HoleInLog, ReleaseTooOld) as error:
                raise LakehouseError(
                    f"history cannot be folded at offset {offset}: {error}"
                ) from error
            self.at_ms = max(self.at_ms, _time_of(applied, at_ms))
            stamps = None if published is None else published.get(offset)
            outcome, agrees = _stamped(applied.outcome, stamps)
            for name in _names(outcome):
                before = None if name is None else sets.get(name)
                after = None if name is None else self.folder.state.sets.get(name)
                yield SetChange(offset, self.at_ms, applied.record, outcome, before, after, agrees)


def published_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, Published]:
    """Rows of `silver/decisions` by command offset; of repeats the first counts."""
    found: dict[int, Published] = {}
    for row in rows:
        offset = row["command_offset"]
        if offset not in found:
            stamps = (row["digest"], row["publisher"], row["published_at_ms"])
            # What landed before times were checked may hold some that no clock has.
            phases = {name: at for name, at in row["phases"] if is_of_a_clock(at)}
            found[offset] = Published(*stamps, phases)
    return found


def _time_of(applied: Applied, at_ms: int | None) -> int:
    if at_ms is not None:
        return at_ms
    return 0 if applied.record is None else applied.record.envelope.issued_at_ms


def _stamped(outcome: Outcome, stamps: Published | None) -> tuple[Outcome, bool | None]:
    if stamps is None:
        return outcome, None
    told = replace(
        outcome,
        publisher=stamps.publisher,
        published_at_ms=stamps.published_at_ms,
        phases=dict(stamps.phases),
    )
    return told, stamps.digest == outcome.digest.hex()


def _names(outcome: Outcome) -> list[str | None]:
    """The sets that changed, or the one that the record is about."""
    changed = {getattr(change, "broker_name", None) for change in outcome.changes}
    names: list[str | None] = [*sorted(filter(None, changed))]
    return names or [outcome.broker_name]
