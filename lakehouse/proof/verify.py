"""The proof: the landed commands folded once more and compared with the digests that controllers
published, and the bytes of all that landed compared with what they were when they were proven.

Responsible for the order of a proof and for what is kept of it. What must be folded, and what it
proves, is `proof.plan`'s; the fold itself is `refold`'s; the work is done in this process or in
Spark. Refuses to hold a rule and to believe a table: it starts from the bytes in bronze.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.proof import as_it_was
from lakehouse.proof import kept as proof_store
from lakehouse.proof.finding import Finding, offsets
from lakehouse.proof.in_process import InProcess
from lakehouse.proof.in_processes import InProcesses
from lakehouse.proof.kept_state import kept_name, packed
from lakehouse.proof.known_names import (
    WHAT_TO_DO,
    KnownPiece,
    PieceKey,
    Sizes,
    changed,
    keep_names,
    misfits,
    named_piece,
)
from lakehouse.proof.names import BLOCK_RECORDS, NAMING, Names, block_names, piece_name
from lakehouse.proof.names import NAMED_COLUMNS as ALL_COLUMNS
from lakehouse.proof.own_pass import can_begin, judged
from lakehouse.proof.pieces import COMMANDS, OUTCOMES
from lakehouse.proof.plan import (
    PROBLEMS_SHOWN_MAX,
    Asked,
    Landed,
    Piece,
    Plan,
    Said,
    misbegun,
    passed_over,
    plan,
    to_keep,
    verdict,
)
from lakehouse.proof.refold import RangeTold
from lakehouse.proof.verdict import Verdict
from lakehouse.proof.witnesses import LakeWitnesses, witnesses
from lakehouse.proof.work import Unreadable, Work, unreadable
from lakehouse.spark_session import SparkSettings, build_session, stop_session
from lakehouse.tables import left_states
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.delta import read
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import reason
from lakehouse.tables.losses import read_losses
from lakehouse.tables.specs import BRONZE, BY_NAME
from lakehouse.tables.table_files import UNREADABLE

MASTER_ROLE = "MASTER"
BESIDE_FROM_COMMANDS = 100_000
"""From so many unproven commands on processes beside this one are worth their start: it folds some
ten thousands a second.
"""
SPARK_FROM_COMMANDS = 200_000
"""On an object store from so many on Spark is worth its start."""
HISTORY = (COMMANDS_TOPIC, OUTCOMES_TOPIC)


class CannotFold(LakehouseError):
    """Bronze cannot be read, and no file of it is damaged."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """What is to be proven: offsets of commands, both included, None for the ends of history."""

    first: int | None = None
    last: int | None = None
    from_start: bool = False
    """Fold everything again, whatever was proven earlier."""
    range_records: int = proof_store.RANGE_RECORDS
    renew: bool = False
    """Take what is other than it was for proven, if it folds as it was published."""

    @property
    def sizes(self) -> Sizes:
        """How history is cut up."""
        return Sizes(self.range_records, min(BLOCK_RECORDS, self.range_records))

    @property
    def is_part(self) -> bool:
        """Whether only a part of history is asked for."""
        return self.first is not None or self.last is not None


def unproven_commands(lake: Lake, scope: Scope = Scope()) -> int:
    """How many commands a proof has to fold, about. Raises `NotLanded`, `LakehouseError`."""
    end = _readable_end(BronzeFiles(lake), lake)
    last = end - 1 if scope.last is None else min(scope.last, end - 1)
    if scope.is_part or scope.from_start:
        return last + 1 - (scope.first or 0)
    kept = proof_store.kept(lake, scope.range_records)
    proven = sum(
        topic == COMMANDS_TOPIC and one.naming == NAMING for (topic, _), one in kept.items()
    )
    return end - proven * scope.range_records


def _readable_end(files: BronzeFiles, lake: Lake) -> int:
    """Where the commands end, by the files that can be read: the proof names the others."""
    try:
        return _end(files, COMMANDS, lake)
    except UNREADABLE:
        if not files.leave_out_damaged():
            raise
        return files.ends.get(COMMANDS, 0)


def verify(lake: Lake, settings: SparkSettings, scope: Scope = Scope()) -> Verdict:
    """Start Spark, fold and compare, stop Spark. Takes half a minute at least.

    Raises `NotLanded` when there is nothing to fold, `LakehouseError` when it cannot run.
    """
    spark = build_session(settings, "regent-verify")
    try:
        return verify_in(spark, lake, scope)
    finally:
        stop_session(spark)


def verify_in(spark: Any, lake: Lake, scope: Scope = Scope()) -> Verdict:
    """The same in a session that is there already."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from lakehouse.proof.in_spark import InSpark

    try:
        found = _verified(
            lake,
            scope,
            lambda files: InSpark(spark, files, scope.sizes),
            (*UNREADABLE, PySparkException, Py4JError),
        )
    except CannotFold:
        # A file that others wrote again may have times of another unit, which Spark refuses and
        # this process reads.
        return verify_here(lake, scope)
    return dataclasses.replace(found, spark=True)


def verify_here(lake: Lake, scope: Scope = Scope()) -> Verdict:
    """The same within this process, without Spark."""
    return _verified(lake, scope, lambda files: InProcess(files, scope.sizes), UNREADABLE)


def verify_beside(lake: Lake, scope: Scope = Scope(), processes: int = 2) -> Verdict:
    """The same in so many processes beside this one, for a lake on a local disk."""
    return _verified(
        lake, scope, lambda files: InProcesses(lake, files, scope.sizes, processes), UNREADABLE
    )


def _verified(
    lake: Lake,
    scope: Scope,
    work_on: Callable[[BronzeFiles], Work],
    errors: tuple[type[Exception], ...],
) -> Verdict:
    before = witnesses(lake)
    files = BronzeFiles(lake)
    if COMMANDS_TOPIC not in files.topics:
        raise NotLanded(f"no commands have landed in {lake.root}: has `regent land` run?")
    try:
        return _proven(files, scope, work_on(files), before, [])
    except errors as error:
        damaged = files.leave_out_damaged()
        if not damaged:
            raise CannotFold(f"bronze in {lake.root} cannot be folded: {reason(error)}") from error
    # What lies in a damaged file is then missing, and is named by its offsets.
    if not files.uris(COMMANDS_TOPIC):
        raise LakehouseError("; ".join(damaged))
    return _proven(files, scope, work_on(files), before, damaged)


def _proven(
    files: BronzeFiles, scope: Scope, work: Work, before: LakeWitnesses, problems: list[str]
) -> Verdict:
    try:
        return _Proof(before.lake, files, scope, work).run(before, problems)
    finally:
        work.close()


class _Proof:
    """One proof over the files that make up bronze now."""

    def __init__(self, lake: Lake, files: BronzeFiles, scope: Scope, work: Work) -> None:
        self._lake, self._files = lake, files
        self._work, self._scope = work, scope
        self._sizes, self._size = scope.sizes, scope.range_records
        self._ends = files.ends
        self._notices: list[str] = []
        self._noted = read_losses(lake)
        self._changed: dict[PieceKey, list[Finding]] = {}
        """What is not what it was, by piece."""

    def run(self, before: LakeWitnesses, problems: list[str]) -> Verdict:
        asked = self._asked(_end(self._files, COMMANDS, self._lake))
        kept = proof_store.kept(self._lake, self._size)
        known, notices = as_it_was.known(self._lake, self._sizes, self._files)
        named = self._work.names(self._ends, as_it_was.cuts(known.values()))
        names = named.names
        self._changed = changed(known.values(), names, self._ends, self._sizes)
        older, told_of_older = as_it_was.older(self._files, kept.values(), self._ends, self._size)
        landed, misreached = as_it_was.reaching(self._landed(names, kept), named.reach)
        for more in (older, as_it_was.renamed(landed)):
            self._changed |= {key: one for key, one in more.items() if key not in self._changed}
        self._notices = [*notices, *told_of_older, *self._lost()]
        findings = [
            *as_it_was.shortened(before, self._ends, self._noted),
            *as_it_was.doubled(self._files.offsets),
        ]
        outcomes = self._work.outcomes(sorted(landed.unknown_pieces))
        told, states, made, unread = self._folded(landed, asked, outcomes.said)
        found = verdict(
            landed, made, told, missing=self._missing(made.wanted[0] * self._size, asked.last)
        )
        hiding = self._files.hiding()
        problems += [
            *self._files.unlike_the_log(),
            *self._files.strays,
            *hiding,
            *misfits(known, self._sizes),
            *misreached,
            *self._troubles([*outcomes.problems, *unread.told]),
            *([] if outcomes.problems else self._passed_over(landed, outcomes.said)),
            *self._of_others(told.values()),
        ]
        found = dataclasses.replace(
            found,
            problems=[*problems, *found.problems, *two_masters(self._lake)][:PROBLEMS_SHOWN_MAX],
            findings=findings,
        )
        found = self._with_changed(found)
        names_of_states = {r: kept_name(state) for r, state in states.items()}
        wrong = self._changed_history() | unread.pieces
        pieces = to_keep(landed, made, told, outcomes.said, names_of_states, wrong)
        if hiding:  # Rows that were hidden have other names.
            return dataclasses.replace(found, not_kept="files hide rows")
        return dataclasses.replace(found, not_kept=self._keep(pieces, states, known, names, found))

    def _lost(self) -> list[str]:
        """What is noted as lost and has not landed after all."""
        landed = {
            place: (_holes(there, 0), self._ends[place])
            for place, there in self._files.offsets.items()
        }
        lost = [f"noted loss: {one.said}" for one in self._noted.missing(landed)]
        more = len(lost) - PROBLEMS_SHOWN_MAX
        told = [f"{more} more losses are noted in bronze/losses"] if more > 0 else []
        return [*lost[:PROBLEMS_SHOWN_MAX], *told]

    def _asked(self, end: int) -> Asked:
        scope = self._scope
        first, last = scope.first or 0, end - 1 if scope.last is None else scope.last
        if max(first, last) >= end:
            raise NotLanded(f"command {max(first, last)} has not landed: last {end - 1}")
        return Asked(first, last, everything=scope.from_start or scope.is_part)

    def _landed(
        self, names: Mapping[Partition, Names], kept: Mapping[tuple[str, int], Piece]
    ) -> Landed:
        """Names of the bytes of whole pieces, and what was proven of them."""
        whole = {
            (topic, number): piece_name(
                names[topic, 0], number * self._size, (number + 1) * self._size, self._sizes.block
            )
            for topic in HISTORY
            for number in self._whole(topic)
        }
        # States may be begun with, for each is proven again; what outcomes are about is read.
        if self._scope.from_start:
            kept = {key: piece for key, piece in kept.items() if piece.topic == COMMANDS_TOPIC}
        pieces = -(-self._ends.get(OUTCOMES, 0) // self._size)
        return Landed(self._size, whole, kept, pieces, left_states.ranges(self._lake, self._size))

    def _whole(self, topic: str) -> Iterator[int]:
        """Pieces of which every offset landed once."""
        there = self._files.offsets.get((topic, 0), np.empty(0, np.int64))
        for number in range(self._ends.get((topic, 0), 0) // self._size):
            low, high = np.searchsorted(there, (number * self._size, (number + 1) * self._size))
            if high - low == self._size == len(np.unique(there[low:high])):
                yield number

    def _folded(
        self, landed: Landed, asked: Asked, said: Mapping[int, Said]
    ) -> tuple[dict[int, RangeTold], dict[int, bytes], Plan, Unreadable]:
        """Fold; again from further below as long as a kept state turns out to be of another
        history. What each range gave, states to be kept, what was folded, outcomes that nobody can
        read.
        """
        distrusted: set[int] = set()
        while True:
            made = plan(landed, asked, said, distrusted)
            begins = self._states(landed, made)
            folded = self._work.fold(made, begins)
            by_range = {one.told.first // self._size: one for one in folded.ranges}
            wrong = misbegun(landed, made, {r: one.told for r, one in by_range.items()})
            self._notices += [
                f"the state that is kept behind command {(r + 1) * self._size - 1} is not the one "
                "that history gives: it was passed over, and what follows folded from further below"
                for r in sorted(wrong)
            ]
            if not wrong:
                told, states = judged(by_range, begins)
                return told, states, made, unreadable(folded, self._size)
            distrusted |= wrong

    def _states(self, landed: Landed, made: Plan) -> dict[int, bytes]:
        """What runs begin with, by their first range: what proofs kept, else what others left."""
        before = [r - 1 for r in made.begins]
        proven = [r for r in before if (COMMANDS_TOPIC, r) in landed.kept]
        found = proof_store.states(self._lake, self._size, COMMANDS_TOPIC, proven)
        kept = {r + 1: state for r, state in found.items() if can_begin(state)}
        left = left_states.states(self._lake, self._size, set(before) - set(proven))
        return kept | {r + 1: packed(snapshot, b"") for r, snapshot in left.items()}

    def _missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges of commands, both ends included, that are missing from `first` on."""
        there = self._files.offsets[COMMANDS]
        return [(a, b) for a, b in _holes(there, first) if a <= last]

    def _troubles(self, unread: Sequence[tuple[int, str]]) -> list[str]:
        """What is wrong with the outcomes topic itself; it may begin anywhere, its first records
        being gone.
        """
        there = self._files.offsets.get(OUTCOMES, np.empty(0, np.int64))
        found = [
            (last + 1, f"{offsets(first, last)} right before it never landed")
            for hole in (_holes(there, int(there[0])) if len(there) else ())
            for first, last in self._noted.left_of(OUTCOMES, *hole)
        ]
        return [
            f"{OUTCOMES_TOPIC} offset {offset}: {text}"
            for offset, text in sorted([*found, *unread])[:PROBLEMS_SHOWN_MAX]
        ]

    def _passed_over(self, landed: Landed, said: Mapping[int, Said]) -> Iterator[str]:
        """Commands that no outcome is about although those of later ones are there; behind a hole,
        which is told, this says nothing.
        """
        there = self._files.offsets.get(OUTCOMES, np.empty(0, np.int64))
        for one in passed_over(landed, said)[:PROBLEMS_SHOWN_MAX]:
            if one.place - 1 in there:
                missing = offsets(one.reached + 1, one.about - 1).replace("offset", "command")
                yield (
                    f"{BRONZE.name}, {OUTCOMES_TOPIC}-0 offset {one.place}: it is about command "
                    f"{one.about}, and none before it about {missing}: an outcome was taken away "
                    f"or moved; {WHAT_TO_DO}"
                )

    def _of_others(self, told: Iterable[RangeTold]) -> Iterator[str]:
        """Whether the history is that of another cluster."""
        for name in sorted({one.cluster_id for one in told} - {"", self._lake.cluster_id}):
            yield (
                f"{BRONZE.name}, {COMMANDS_TOPIC}: the commands are of cluster {name}, and lie "
                f"there as those of {self._lake.cluster_id}; {WHAT_TO_DO}"
            )

    def _with_changed(self, found: Verdict) -> Verdict:
        """With what is not what it was, unless that is to be taken for proven and nothing else is
        wrong.
        """
        changed = [one for key in sorted(self._changed) for one in self._changed[key]]
        if not self._scope.renew or found.exit_code:
            return dataclasses.replace(
                found, findings=[*found.findings, *changed], notices=self._notices
            )
        self._changed = {}
        renewed = [f"taken for proven as it is now: {one.text()}" for one in changed]
        return dataclasses.replace(found, notices=[*self._notices, *renewed])

    def _changed_history(self) -> set[tuple[str, int]]:
        return {(topic, number) for topic, _, number in self._changed if topic in HISTORY}

    def _keep(
        self,
        pieces: Sequence[Piece],
        states: Mapping[int, bytes],
        known: Mapping[PieceKey, KnownPiece],
        names: Mapping[Partition, Names],
        found: Verdict,
    ) -> str | None:
        """Keep what was proven; why not, when that fails: read access to the lake is enough to
        verify.
        """
        now = datetime.now(UTC)
        try:
            proof_store.keep(self._lake, self._size, pieces, states, now)
            if not self._scope.is_part:
                new = list(self._new_names(known, names, found))
                keep_names(self._lake, self._sizes, new, now)
        except LakehouseError as error:
            return str(error)
        return None

    def _new_names(
        self, known: Mapping[PieceKey, KnownPiece], names: Mapping[Partition, Names], found: Verdict
    ) -> Iterator[KnownPiece]:
        """What landed since, or was renewed: of history as far as it is proven, of what brokers say
        all of it.
        """
        for place, landed in self._ends.items():
            end = landed
            if place == COMMANDS:
                end = min(landed, found.verified_up_to + 1)
            elif place == OUTCOMES and found.exit_code:
                end = 0
            for number in range(-(-end // self._size)):
                key = (*place, number)
                until = min((number + 1) * self._size, end)
                then = known.get(key)
                if key in self._changed or (then is not None and then.end > until):
                    continue
                now = named_piece(
                    place, number, until, self._names_at(place, until, names[place]), self._sizes
                )
                if then is None or (then.end, then.names) != (now.end, now.names):
                    yield now

    def _names_at(self, place: Partition, end: int, names: Names) -> Names:
        """The same with the name of the block that `end` lies in, up to there."""
        block = self._sizes.block
        if end % block == 0 or end in names:
            return names
        rows = self._files.rows(place, end // block * block, end, ALL_COLUMNS)
        return {**names, **block_names(rows, end, (), block)}


def _end(files: BronzeFiles, place: Partition, lake: Lake) -> int:
    there = files.offsets.get(place)
    if there is None or not len(there):
        raise NotLanded(f"no commands have landed in {lake.root}: has `regent land` run?")
    return int(there[-1]) + 1


def _holes(there: np.ndarray, first: int) -> list[tuple[int, int]]:
    """Ranges of offsets, both ends included, that are missing from `first` on and below the last
    one.
    """
    there = np.concatenate(([first - 1], there[there >= first]))
    after = np.flatnonzero(np.diff(there) > 1)
    return [(int(there[i]) + 1, int(there[i + 1]) - 1) for i in after]


def two_masters(lake: Lake) -> list[str]:
    """Epochs in which more than one broker said that it is master."""
    columns = ["broker_name", "master_epoch", "broker_id", "role"]
    claimed: dict[tuple[str, int], set[int]] = {}
    for row in read(lake, BY_NAME["silver/role_changed"], columns=columns).drop_null().to_pylist():
        if row["role"].upper() == MASTER_ROLE:
            claimed.setdefault((row["broker_name"], row["master_epoch"]), set()).add(
                row["broker_id"]
            )
    return [
        f"{name}: brokers {sorted(ids)} were masters in epoch {epoch}"
        for (name, epoch), ids in sorted(claimed.items())
        if len(ids) > 1
    ]
