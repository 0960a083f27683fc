"""What a proof wants done with what landed, whoever does it: this process, or Spark.

Refuses to know what is proven.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from events.topics import OUTCOMES_TOPIC
from lakehouse.proof.names import BlockName
from lakehouse.proof.pieces import Reach, Unread, outcome_in
from lakehouse.proof.plan import PROBLEMS_SHOWN_MAX, Plan, Said, Skip
from lakehouse.proof.refold import RangeFolded
from lakehouse.tables.high_water import Partition

Ends = Mapping[Partition, int]
"""Offset behind the last record of a partition."""


@dataclass(frozen=True, slots=True)
class Named:
    """What landed is called."""

    names: Mapping[Partition, Mapping[int, BlockName]]
    reach: Mapping[int, Reach]
    """Of each piece of the outcomes."""


@dataclass(frozen=True, slots=True)
class Folded:
    """What folding gave."""

    ranges: Sequence[RangeFolded]
    unread: Sequence[tuple[int, str]] = ()
    """Outcomes of pieces that were asked for which are about no folded range and cannot be read:
    their offsets, and why.
    """


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What pieces of the outcomes say."""

    said: Mapping[int, Said]
    problems: list[tuple[int, str]]
    """Offset in the outcomes and what is wrong with the record there, the first ones. Those that
    only whoever folds their commands finds unreadable are not among them.
    """


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Outcomes that can be read by nobody: the first ones, and the pieces (topic, number) that have
    such ones.
    """

    told: list[tuple[int, str]]
    pieces: frozenset[tuple[str, int]]


def unreadable(folded: Folded, size: int) -> Unreadable:
    """Those that folding found."""
    told = [*folded.unread, *(one for each in folded.ranges for one in each.told.unread)]
    numbers = {place // size for place, _ in told}
    numbers.update(n for each in folded.ranges for n in each.told.unread_pieces)
    return Unreadable(sorted(told), frozenset((OUTCOMES_TOPIC, n) for n in numbers))


class Work(Protocol):
    """Made for one proof."""

    def names(self, ends: Ends, cuts: Mapping[Partition, Collection[int]]) -> Named:
        """The names of all blocks, and of parts of blocks up to `cuts`; and what each piece of the
        outcomes is about, by its bytes.
        """

    def outcomes(self, pieces: Sequence[int]) -> Outcomes:
        """What these pieces say; asked for once."""

    def fold(self, made: Plan, begins: Mapping[int, bytes]) -> Folded:
        """Fold the ranges of a plan beside what was published; `begins` are packed states by the
        number of the range that begins with it.
        """

    def close(self) -> None:
        """Give back what was held for this proof."""


def outcomes_of(published: pa.Table, size: int) -> Outcomes:
    """The same of published outcomes that are in memory (`pieces.PUBLISHED_SCHEMA`)."""
    said: dict[int, Said] = {}
    numbers = published["log_offset"].to_numpy() // size
    for number in np.unique(numbers).tolist():
        rows = published.filter(pa.array(numbers == number))
        about = rows["offset"].drop_null().to_numpy()
        said[number] = Said(
            int(about.min()) if len(about) else -1,
            int(about.max()) if len(about) else -1,
            frozenset(np.unique(about // size).tolist()),
            rows.num_rows - rows["problem"].null_count,
            _skips(rows.filter(pc.is_valid(rows["offset"]))),
        )
    wrong = published.filter(pc.is_valid(published["problem"])).slice(0, PROBLEMS_SHOWN_MAX)
    problems = zip(wrong["log_offset"].to_pylist(), wrong["problem"].to_pylist(), strict=True)
    return Outcomes(said, list(problems))


def _skips(rows: pa.Table) -> tuple[Skip, ...]:
    """Of outcomes of one piece, in their order."""
    about, places = rows["offset"].to_numpy(), rows["log_offset"].to_numpy()
    if not len(about):
        return ()
    reached = np.concatenate(([-1], np.maximum.accumulate(about)[:-1]))
    at = np.flatnonzero(about > reached + 1)[:PROBLEMS_SHOWN_MAX].tolist()
    return tuple(Skip(int(places[n]), int(reached[n]), int(about[n])) for n in at)


def unread_in(places: Sequence[int], values: Sequence[bytes | None]) -> list[tuple[int, str]]:
    """Of outcomes, by their offsets: those that cannot be read, and why."""
    found = ((place, outcome_in(value)) for place, value in zip(places, values, strict=True))
    return [(place, one.why) for place, one in found if isinstance(one, Unread)]
