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

from lakehouse.proof.names import BlockName
from lakehouse.proof.plan import PROBLEMS_SHOWN_MAX, Plan, Said
from lakehouse.proof.refold import RangeTold
from lakehouse.tables.high_water import Partition

Ends = Mapping[Partition, int]
"""Offset behind the last record of a partition."""
Folded = list[tuple[RangeTold, bytes | None]]
"""What each folded range gave, with the state behind it where that is to be kept."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What pieces of the outcomes say."""

    said: Mapping[int, Said]
    problems: list[tuple[int, str]]
    """Offset in the outcomes and what is wrong with the record there, the first ones."""


class Work(Protocol):
    """Made for one proof."""

    def names(
        self, ends: Ends, cuts: Mapping[Partition, Collection[int]]
    ) -> Mapping[Partition, Mapping[int, BlockName]]:
        """The names of all blocks, and of parts of blocks up to `cuts`."""

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
        )
    wrong = published.filter(pc.is_valid(published["problem"])).slice(0, PROBLEMS_SHOWN_MAX)
    problems = zip(wrong["log_offset"].to_pylist(), wrong["problem"].to_pylist(), strict=True)
    return Outcomes(said, list(problems))
