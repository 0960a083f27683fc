"""Whether what landed is still there as it was, whatever it folds to.

Responsible for findings that need no fold: an end that is gone, records that stand twice, pieces
that an earlier release named. Refuses to know what is proven.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from events.topics import OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.invariants import lengths
from lakehouse.proof.finding import Finding, offsets
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.known_names import WHAT_TO_DO, KnownPiece, PieceKey, Sizes, known_names
from lakehouse.proof.names import NAMING, older_name
from lakehouse.proof.pieces import COMMANDS, Reach
from lakehouse.proof.plan import Landed, Piece
from lakehouse.proof.witnesses import LakeWitnesses
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import Losses
from lakehouse.tables.specs import BRONZE

OFFSETS_TOLD_MAX = 5
END_TO_DO = (
    "put the files and commits back from a copy, or start the landing job without its checkpoint "
    "folder: what Kafka still has lands again"
)

PROVEN_AWAY = (
    f"put the table's files back from a copy, or remove the folder of {PROVEN.name}: then all of "
    "history is folded again"
)


def known(
    lake: Lake, sizes: Sizes, files: BronzeFiles
) -> tuple[dict[PieceKey, KnownPiece], list[str]]:
    """What was named before, and in words what cannot be compared."""
    try:
        found = known_names(lake, sizes)
    except LakehouseError as error:
        return {}, [f"what earlier proofs kept is not compared: {error}"]
    if found:
        named = {piece.place for piece in found.values()}
        new = [place for place in sorted(files.offsets) if place not in named]
        return found, [
            f"{len(files.offsets[place])} records of {place[0]}-{place[1]} are named for the first "
            "time"
            for place in new
        ]
    records = sum(len(there) for there in files.offsets.values())
    told = (
        f"{records} records are named for the first time: whether they are what they were can be "
        "said from now on"
    )
    return {}, [told]


def cuts(pieces: Iterable[KnownPiece]) -> dict[Partition, set[int]]:
    """Where these end: names up to there are needed to compare."""
    found: dict[Partition, set[int]] = {}
    for piece in pieces:
        found.setdefault(piece.place, set()).add(piece.end)
    return found


def older(
    files: BronzeFiles, kept: Iterable[Piece], ends: Mapping[Partition, int], size: int
) -> tuple[dict[PieceKey, list[Finding]], list[str]]:
    """Of pieces that a release named which knew offset and value alone: those that have another
    name of that kind now, and what is said of all of them.
    """
    pieces = sorted(
        (one for one in kept if one.naming != NAMING), key=lambda one: (one.topic, one.number)
    )
    if not pieces:
        return {}, []
    found: dict[PieceKey, list[Finding]] = {}
    for one in pieces:
        first, end = one.number * size, (one.number + 1) * size
        if end > ends.get((one.topic, 0), 0):
            continue  # That its end is gone is told elsewhere.
        rows = files.rows((one.topic, 0), first, end, ("offset", "value"))
        if older_name(rows) != one.bytes_name:
            said = "a value is not what it was when they were proven"
            found[one.topic, 0, one.number] = [
                Finding(BRONZE.name, one.topic, 0, first, end - 1, said, WHAT_TO_DO)
            ]
    told = (
        f"{len(pieces)} pieces were proven by an earlier release, whose names cover offset and "
        "value alone: they are proven anew, once, under names that cover every column"
    )
    return found, [told]


def renamed(landed: Landed) -> dict[PieceKey, list[Finding]]:
    """Whole pieces of history that have another name now than the proof kept with them, whatever
    else is kept of their bytes.
    """
    found: dict[PieceKey, list[Finding]] = {}
    for (topic, number), piece in landed.kept.items():
        name = landed.names.get((topic, number))
        if piece.naming == NAMING and name is not None and name != piece.bytes_name:
            first, said = number * landed.size, f"not what was proven, by {PROVEN.name}"
            found[topic, 0, number] = [
                Finding(BRONZE.name, topic, 0, first, first + landed.size - 1, said, WHAT_TO_DO)
            ]
    return found


def reaching(landed: Landed, reach: Mapping[int, Reach]) -> tuple[Landed, list[str]]:
    """The same with what kept outcomes are about by their bytes, which says whom they are compared
    with; and in words where the proof kept another thing of the same bytes.
    """
    kept, told = dict(landed.kept), []
    for (topic, number), piece in sorted(kept.items()):
        said, there = (piece.lowest, piece.highest), reach.get(number)
        if topic != OUTCOMES_TOPIC or there is None or said == there:
            continue
        kept[topic, number] = replace(piece, lowest=there[0], highest=there[1])
        if landed.same(topic, number):
            first = number * landed.size
            told.append(
                f"{PROVEN.name} says of {topic}-0 {offsets(first, first + landed.size - 1)} that "
                f"they are about commands {said[0]} to {said[1]}, and they are about {there[0]} to "
                f"{there[1]}: {PROVEN_AWAY}"
            )
    return replace(landed, kept=kept), told


def shortened(before: LakeWitnesses, ends: Mapping[Partition, int], noted: Losses) -> list[Finding]:
    """Partitions that end before somebody does who remembers more."""
    asked = [*before.remembered, *before.beyond(noted.behind_ends(ends))]
    return [
        Finding(BRONZE.name, one.topic, one.partition, one.end, one.was - 1, one.said, END_TO_DO)
        for one in lengths.shortened(asked, ends, time.time_ns() // 1_000_000)
    ]


def doubled(landed: Mapping[Partition, np.ndarray]) -> list[Finding]:
    """Records that landed twice; of commands the fold tells."""
    found = []
    for place, there in sorted(landed.items()):
        twice = np.unique(there[1:][np.diff(there) == 0]).tolist()
        if place == COMMANDS or not twice:
            continue
        few = ", ".join(map(str, twice[:OFFSETS_TOLD_MAX]))
        more = f" and {len(twice) - OFFSETS_TOLD_MAX} more" if len(twice) > OFFSETS_TOLD_MAX else ""
        said = f"landed twice ({few}{more}): a record stands once"
        found.append(Finding(BRONZE.name, *place, twice[0], twice[-1], said, WHAT_TO_DO))
    return found
