"""How far each table is, and which records are new to it.

The tables themselves say how far they are, so a repeated batch, a lost checkpoint and a crash
between two tables of one batch all change nothing: each table takes what is above its own mark.
Responsible for the marks and for seeing holes. Refuses to know where marks are read from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from lakehouse.errors import LandingGap

Partition = tuple[str, int]
"""Topic and partition."""


@dataclass(slots=True)
class HighWater:
    """The last offset per partition that a table took.

    Invariants: marks only grow.
    """

    marks: dict[Partition, int] = field(default_factory=dict)

    def of(self, partition: Partition) -> int:
        """The last offset taken, -1 if none."""
        return self.marks.get(partition, -1)

    def is_new(self, partition: Partition, offset: int) -> bool:
        """Whether the table has not taken this record yet."""
        return offset > self.of(partition)

    def raise_to(self, positions: Iterable[tuple[Partition, int]]) -> None:
        """Note that records up to these were taken."""
        for partition, offset in positions:
            if offset > self.of(partition):
                self.marks[partition] = offset


def check_no_hole(
    mark: int,
    partition: Partition,
    offsets: Iterable[int],
    *,
    from_zero: bool,
    behind: Callable[[Partition, int], int] = lambda partition, offset: offset,
) -> None:
    """Refuse a batch that does not go on where the table ends.

    `offsets` ascend and may start at or below `mark`; `from_zero` says that the log of this
    topic is kept for ever, so its first record must have offset 0; `behind` gives the first offset,
    from one on, that is not noted as lost. Raises `LandingGap`.
    """
    expected = behind(partition, mark + 1)
    may_start_later = mark < 0 and not from_zero
    for offset in offsets:
        if offset < expected:
            continue
        if offset > expected and not may_start_later:
            topic, number = partition
            raise LandingGap(
                f"{topic}-{number}: records {expected} to {offset - 1} are missing between the "
                "tables and what the log gave. If the checkpoint is newer than the tables, delete "
                "the checkpoint folder; if the log has lost them, the next start of the landing "
                "job says what to do"
            )
        may_start_later = False
        expected = behind(partition, offset + 1)


def next_offsets(marks: Mapping[Partition, int]) -> dict[str, int]:
    """Marks as the status file shows them: `topic-partition` -> next offset."""
    return {f"{topic}-{number}": mark + 1 for (topic, number), mark in sorted(marks.items())}
