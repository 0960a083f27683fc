"""The work of a proof within this process: for histories of which little is unproven, to start
anything costs more than all of it.

Refuses to know what is proven.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from lakehouse.proof.known_names import Sizes
from lakehouse.proof.names import BlockName
from lakehouse.proof.pieces import OUTCOMES, Reach
from lakehouse.proof.plan import PROBLEMS_SHOWN_MAX, Plan, Said
from lakehouse.proof.tasks import RunOfRanges, Tasks
from lakehouse.proof.work import Ends, Folded, Named, Outcomes
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.high_water import Partition


class InProcess:
    """See `proof.work.Work`."""

    def __init__(self, files: BronzeFiles, sizes: Sizes) -> None:
        self._files, self._sizes = files, sizes
        self._tasks = Tasks(files, sizes)
        self._said: Mapping[int, Said] = {}

    def names(self, ends: Ends, cuts: Mapping[Partition, Collection[int]]) -> Named:
        found: dict[Partition, dict[int, BlockName]] = {place: {} for place in ends}
        reach: dict[int, Reach] = {}
        asked = list(self._stretches(ends, cuts))
        named = self._each("names", asked)
        for (place, first, *_), (names, reached) in zip(asked, named, strict=True):
            found[place] |= names
            if place == OUTCOMES and names:
                reach[first // self._sizes.piece] = reached
        return Named(found, reach)

    def outcomes(self, pieces: Sequence[int]) -> Outcomes:
        said: dict[int, Said] = {}
        problems: list[tuple[int, str]] = []
        for found in self._each("said", [(piece,) for piece in pieces]):
            said |= found.said
            problems += found.problems
        self._said = said
        return Outcomes(said, sorted(problems)[:PROBLEMS_SHOWN_MAX])

    def fold(self, made: Plan, begins: Mapping[int, bytes]) -> Folded:
        runs = [(one,) for one in _runs(made, begins)]
        ranges = [one for folded in self._each("folded", runs) for one in folded]
        folded = frozenset(made.starts)
        beside = [
            (piece, folded)
            for piece, said in sorted(self._said.items())
            if not said.ranges <= folded
        ]
        unread = [one for found in self._each("unread", beside) for one in found]
        return Folded(ranges, unread)

    def close(self) -> None:
        self._tasks.close()

    def _each(self, task: str, asked: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """What a task gives for each of these."""
        return (getattr(self._tasks, task)(*one) for one in asked)

    def _stretches(
        self, ends: Ends, cuts: Mapping[Partition, Collection[int]]
    ) -> Iterator[tuple[Partition, int, int, Collection[int], int]]:
        """Piece by piece, as `Tasks.names` is asked."""
        size = self._sizes.piece
        for place, end in ends.items():
            offsets = self._files.offsets[place]
            begin = int(offsets[0]) // size * size if len(offsets) else 0
            for first in range(begin, end, size):
                behind = min(first + size, end)
                mine = [cut for cut in cuts.get(place, ()) if first < cut < behind]
                yield place, first, behind, mine, end


def _runs(made: Plan, begins: Mapping[int, bytes]) -> Iterator[RunOfRanges]:
    for start in sorted(set(made.starts.values())):
        ranges = tuple(r for r in made.folded if made.starts[r] == start)
        yield RunOfRanges(
            ranges,
            made.asked.last,
            {r: made.spoken.get(r, ()) for r in (start - 1, *ranges)},
            begins.get(start),
            start in made.believed,
        )
