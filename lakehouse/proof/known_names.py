"""The names of all that landed, as it was when a proof last found nothing wrong with it, kept in
the lake for the next proof.

Bronze never changes, so a name that is another one now is a finding, whatever the fold says of it.
Kept for every partition of every topic, also for a last piece that is not whole yet.
Responsible for the table, and for what differs. Whoever can write bronze can write this table as
well: what lies outside the lake (anchors, Kafka) closes that. The table may be thrown away: then
what lies there is named anew, and the proof says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from lakehouse import wording
from lakehouse.errors import NotLanded
from lakehouse.proof.finding import Finding, offsets
from lakehouse.proof.names import NAME_BYTES, NOTHING, Names, block_ends
from lakehouse.tables.columns import Column
from lakehouse.tables.delta import append_rows, ensure_tables, milliseconds, read
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, CLUSTER, CLUSTER_ID, TIMESTAMP, TableSpec

KNOWN = TableSpec(
    name="proof/names",
    meaning=(
        "Names of the bytes of all that landed, by blocks of offsets, as of the last proof that "
        "found nothing wrong with them. Of several rows of one piece the newest counts. May be "
        "thrown away."
    ),
    columns=(
        CLUSTER,
        Column("topic", pa.string(), "Topic of the records."),
        Column("partition", pa.int32(), "Partition of the topic."),
        Column("size", pa.int64(), "Offsets of a whole piece."),
        Column("block", pa.int64(), "Offsets of a whole block."),
        Column("number", pa.int64(), "Which piece: its first offset divided by its size."),
        Column("end", pa.int64(), "Offset behind the last one that is named."),
        Column("named_at", TIMESTAMP, "When it was named."),
        Column(
            "names",
            pa.list_(pa.binary()),
            "Of each block 64 bytes: SHA-256 of what the log gave, and of what landing noted.",
        ),
    ),
    key=(CLUSTER_ID, "topic", "partition", "size", "number", "named_at"),
    partition_column="size",
    offset_column="number",
)
WHAT_TO_DO = (
    "put the files back from a copy; 'regent verify --kafka' says what the log has there; if it "
    "is right as it is, 'regent verify --renew' takes it for proven"
)
THROW_AWAY = (
    f"put the table's files back from a copy, or remove the folder of {KNOWN.name}: what landed "
    "is then named anew, and nothing says what it was"
)
PieceKey = tuple[str, int, int]
"""Topic, partition, number."""


@dataclass(frozen=True, slots=True)
class KnownPiece:
    """What a piece was called."""

    topic: str
    partition: int
    number: int
    end: int
    names: tuple[bytes, ...]
    named_ms: int = 0
    """When, ms since 1970-01-01 UTC."""

    @property
    def key(self) -> PieceKey:
        """Which piece it is."""
        return self.topic, self.partition, self.number

    @property
    def place(self) -> Partition:
        """Topic and partition."""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Sizes:
    """How the offsets of a partition are cut up."""

    piece: int
    """Offsets of a range of the proof, and of a row of kept names."""
    block: int
    """Offsets that share a name; pieces are whole blocks."""


def known_names(lake: Lake, sizes: Sizes) -> dict[PieceKey, KnownPiece]:
    """What was kept, the newest of each piece. Raises `LakehouseError` when it cannot be read."""
    filters = [("size", "=", sizes.piece), ("block", "=", sizes.block)]
    try:
        rows = read(lake, KNOWN, filters=filters)
    except NotLanded:
        return {}
    times = milliseconds(rows["named_at"])
    found: dict[PieceKey, KnownPiece] = {}
    for named_ms, row in sorted(
        zip(times, rows.to_pylist(), strict=True), key=lambda pair: pair[0] or 0
    ):
        one = KnownPiece(
            row["topic"],
            row["partition"],
            row["number"],
            row["end"],
            tuple(row["names"] or ()),
            named_ms or 0,
        )
        if None not in (*one.key, one.end):  # Else it is missing, and that is told.
            found[one.key] = one
    return found


def misfits(known: Mapping[PieceKey, KnownPiece], sizes: Sizes) -> list[str]:
    """In words, rows that no proof keeps so: pieces are named from the first on, each by all of its
    blocks.
    """
    by_place: dict[Partition, dict[int, KnownPiece]] = {}
    for piece in known.values():
        by_place.setdefault(piece.place, {})[piece.number] = piece
    told = []
    for place, pieces in sorted(by_place.items()):
        numbers = sorted(pieces)
        gone = next((n for n, number in enumerate(numbers) if n != number), None)
        wrong = next((n for n in numbers if not _fits(pieces[n], sizes)), None)
        for number, said in ((gone, "has no name of"), (wrong, "has no whole name of")):
            if number is not None:
                first, behind = number * sizes.piece, (number + 1) * sizes.piece
                told.append(
                    f"{KNOWN.name} {said} {place[0]}-{place[1]} {offsets(first, behind - 1)}, and "
                    f"every proof keeps one: {THROW_AWAY}"
                )
    return told


def _fits(piece: KnownPiece, sizes: Sizes) -> bool:
    first = piece.number * sizes.piece
    return (
        first < piece.end <= first + sizes.piece
        and len(piece.names) == len(block_ends(first, piece.end, sizes.block))
        and all(isinstance(one, bytes) and len(one) == 2 * NAME_BYTES for one in piece.names)
    )


def keep_names(lake: Lake, sizes: Sizes, pieces: Iterable[KnownPiece], now: datetime) -> None:
    """Add these. Raises `LakehouseError`."""
    rows = [
        {
            CLUSTER_ID: lake.cluster_id,
            "topic": one.topic,
            "partition": one.partition,
            "size": sizes.piece,
            "block": sizes.block,
            "number": one.number,
            "end": one.end,
            "named_at": now,
            "names": list(one.names),
        }
        for one in pieces
    ]
    if rows:
        ensure_tables(lake, (KNOWN,))
        append_rows(lake, KNOWN, rows)


def named_piece(place: Partition, number: int, end: int, names: Names, sizes: Sizes) -> KnownPiece:
    """What a piece up to `end` is called now."""
    ends = block_ends(number * sizes.piece, end, sizes.block)
    return KnownPiece(*place, number, end, tuple(names.get(e, NOTHING).packed for e in ends))


def changed(
    known: Iterable[KnownPiece],
    now: Mapping[Partition, Names],
    landed: Mapping[Partition, int],
    sizes: Sizes,
) -> dict[PieceKey, list[Finding]]:
    """What is called otherwise now, as findings by piece; blocks that lie beside one another are
    taken together. `landed` is the offset behind each partition's last record: whole blocks that
    lie behind it are `taken_away`'s.
    """
    found: dict[PieceKey, list[Finding]] = {}
    for piece in known:
        if not _fits(piece, sizes):
            continue  # `misfits` tells.
        names = now.get(piece.place, {})
        first = piece.number * sizes.piece
        differing = [
            (end, _only_landing(then, names.get(end, NOTHING).packed))
            for end, then in zip(
                block_ends(first, piece.end, sizes.block), piece.names, strict=False
            )
            if end <= landed.get(piece.place, 0) and names.get(end, NOTHING).packed != then
        ]
        if differing:
            found[piece.key] = _findings(piece, differing, sizes.block)
    return found


def _only_landing(then: bytes, now: bytes) -> bool:
    return then[:NAME_BYTES] == now[:NAME_BYTES]


def _findings(
    piece: KnownPiece, differing: Sequence[tuple[int, bool]], block: int
) -> list[Finding]:
    runs: list[tuple[int, int, bool]] = []
    for end, only_landing in differing:
        first = (end - 1) // block * block
        if runs and runs[-1][1] == first - 1 and runs[-1][2] == only_landing:
            runs[-1] = (runs[-1][0], end - 1, only_landing)
        else:
            runs.append((first, end - 1, only_landing))
    when = wording.moment(piece.named_ms)
    return [
        Finding(
            BRONZE.name,
            *piece.place,
            first,
            last,
            f"not what was proven at {when} UTC: landed at another time or in another batch, with "
            "the same keys, values and timestamps"
            if only_landing
            else f"not what was proven at {when} UTC: a value, a key or a timestamp is another "
            "one, or a record is gone or stands twice",
            WHAT_TO_DO,
        )
        for first, last, only_landing in runs
    ]
