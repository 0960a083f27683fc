"""Proofs of ranges without Spark and Delta: what `lakehouse.proof.verify` does with them, over
lists.

Responsible for carrying what was kept from one proof to the next. Knows no rule of the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.entries import BEGIN, COMMAND, SAID, Entries
from lakehouse.proof.kept_state import kept_name, packed
from lakehouse.proof.names import NAMED_COLUMNS, block_names, piece_name
from lakehouse.proof.own_pass import judged
from lakehouse.proof.pieces import publish_batches
from lakehouse.proof.plan import Asked, Landed, Piece, Plan, Said, misbegun, plan, to_keep, verdict
from lakehouse.proof.refold import RangeFolded, prove
from lakehouse.proof.verdict import Verdict
from lakehouse.tables.specs import BRONZE

Log = Sequence[tuple[int, bytes | None]]
Entry = tuple[int, int, int, int, bytes | None]
"""Start, offset, what it is, place, value (`proof.entries`)."""


class ProofRig:
    """One lake's proofs, one after the other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.kept: dict[tuple[str, int], Piece] = {}
        self.states: dict[int, bytes] = {}
        self.left: dict[int, bytes] = {}
        """Compressed snapshots behind ranges that nobody proved."""
        self.folded: tuple[int, ...] = ()
        """Ranges that the last proof folded."""

    def run(self, commands: Log, outcomes: Log, asked: Asked | None = None) -> Verdict:
        commands, outcomes = (
            sorted(commands, key=lambda one: one[0]),
            sorted(outcomes, key=lambda one: one[0]),
        )
        asked = asked or Asked(0, commands[-1][0])
        pieces = -(-(outcomes[-1][0] + 1) // self.size) if outcomes else 0
        names = {(COMMANDS_TOPIC, n): name for n, name in self._names(commands).items()}
        names |= {(OUTCOMES_TOPIC, n): name for n, name in self._names(outcomes).items()}
        landed = Landed(self.size, names, self.kept, pieces, frozenset(self.left))
        published = pa.Table.from_batches(publish_batches([arrow(outcomes)])).to_pylist()
        said = {
            n: self._said([row for row in published if row["log_offset"] // self.size == n])
            for n in landed.unknown_pieces
        }
        distrusted: set[int] = set()
        while True:
            made = plan(landed, asked, said, distrusted)
            begins = self._begins(made)
            entries = self._entries(made, commands, published, begins)
            found = {one.told.first // self.size: one for one in proven_in(entries, self.size)}
            wrong = misbegun(landed, made, {r: one.told for r, one in found.items()})
            if not wrong:
                break
            distrusted |= wrong
        self.folded = made.folded
        told, states = judged(found, begins)
        names_of_states = {r: kept_name(state) for r, state in states.items()}
        for piece in to_keep(landed, made, told, said, names_of_states):
            self.kept[piece.topic, piece.number] = piece
        self.states |= states
        there = {offset for offset, _ in commands}
        missing = [(n, n) for n in range(made.wanted[0] * self.size, asked.last) if n not in there]
        return verdict(landed, made, told, missing=missing)

    def _names(self, log: Log) -> dict[int, str]:
        """Of whole pieces."""
        rows = pa.table(
            {
                "offset": pa.array([offset for offset, _ in log], pa.int64()),
                "value": pa.array([value for _, value in log], pa.binary()),
                **{
                    name: pa.nulls(len(log), BRONZE.schema.field(name).type)
                    for name in NAMED_COLUMNS
                    if name not in ("offset", "value")
                },
            }
        )
        end = log[-1][0] + 1 if log else 0
        names = block_names(rows, end, (), self.size)
        there = Counter(offset // self.size for offset, _ in log)
        return {
            number: piece_name(names, number * self.size, (number + 1) * self.size, self.size)
            for number, records in there.items()
            if records == self.size
        }

    def _said(self, rows: list[dict]) -> Said:  # type: ignore[type-arg]
        about = [row["offset"] for row in rows if row["offset"] is not None]
        ranges = frozenset(offset // self.size for offset in about)
        return Said(
            min(about, default=-1),
            max(about, default=-1),
            ranges,
            sum(row["problem"] is not None for row in rows),
        )

    def _begins(self, made: Plan) -> dict[int, bytes]:
        left = {r: packed(state, b"") for r, state in self.left.items()}
        known = left | self.states
        return {r: known[r - 1] for r in made.begins if r - 1 in known}

    def _entries(
        self,
        made: Plan,
        commands: Log,
        published: list[dict],  # type: ignore[type-arg]
        begins: dict[int, bytes],
    ) -> list[Entry]:
        size, boundary = self.size, made.boundary
        entries: list[Entry] = [
            (start * size, start * size - 1, BEGIN, -1, state) for start, state in begins.items()
        ]
        for offset, value in commands:
            if offset // size in made.starts and offset <= made.asked.last:
                entries.append((made.starts[offset // size] * size, offset, COMMAND, -1, value))
        for row in published:
            place, offset, value = row["log_offset"], row["offset"], row["value"]
            if place // size not in made.pieces or offset is None:
                continue
            if boundary is not None and offset == boundary * size - 1:
                entries.append((boundary * size, offset, SAID, place, value))
            elif offset // size in made.starts:
                entries.append((made.starts[offset // size] * size, offset, SAID, place, value))
        return entries


def proven_in(entries: Sequence[Entry], size: int, at_once: int = 1_000_000) -> list[RangeFolded]:
    """What folding these in order gives; they come `at_once` at a time."""
    ordered = sorted(entries, key=lambda entry: entry[:3])
    parts = (ordered[at : at + at_once] for at in range(0, len(ordered), at_once))
    return list(prove(map(columns, parts), size))


def columns(entries: Sequence[Entry]) -> Entries:
    """The same, as a worker has them."""
    start, offset, what, place, value = zip(*entries, strict=True)
    return Entries(*map(np.array, (start, offset, what, place)), list(value))


def arrow(pairs: Log) -> pa.RecordBatch:
    """Offsets and values as Spark hands them over."""
    offsets, values = zip(*pairs, strict=True) if pairs else ((), ())
    return pa.RecordBatch.from_arrays(
        [pa.array(offsets, pa.int64()), pa.array(values, pa.binary())], names=["offset", "value"]
    )


def first_told(found: Verdict) -> int | None:
    """The first offset of the command log that a verdict names."""
    told = [first for first, _ in found.missing]
    told += [int(text.removeprefix("offset ").partition(":")[0]) for text in found.problems]
    return min(
        [*told, *([] if found.first_mismatch is None else [found.first_mismatch])], default=None
    )
