"""The work of a proof in Spark: for long histories, on all cores or on a cluster.

Responsible for the Spark plan. Refuses to hold a rule and to believe a table: it starts from the
bytes in bronze's files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.entries import BEGIN, COMMAND, SAID
from lakehouse.proof.known_names import Sizes
from lakehouse.proof.names import NAMED_COLUMNS, BlockName
from lakehouse.proof.pieces import (
    NAME_COLUMNS,
    OTHER_BYTES,
    OUTCOMES,
    PIECE_COLUMNS,
    PUBLISHED_COLUMNS,
    Reach,
    name_batches,
    publish_batches,
)
from lakehouse.proof.plan import PROBLEMS_SHOWN_MAX, Plan, Said
from lakehouse.proof.refold import TOLD_COLUMNS, RangeFolded, RangeTold, prove_batches
from lakehouse.proof.work import Ends, Folded, Named, Outcomes, outcomes_of, unread_in
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import spark_path

BRONZE_FILE_COLUMNS = (
    "partition int, offset long, timestamp timestamp, timestamp_type int, key binary, "
    "value binary, landed_at timestamp, batch long"
)
UNREAD_COLUMNS = "log_offset long, problem string"
SAID_COLUMNS = "said binary"
TOLD_SAID = tuple[dict[int, Said], list[tuple[int, str]]]
PARTITIONS_PER_CORE = 4


class InSpark:
    """See `proof.work.Work`."""

    def __init__(self, spark: Any, files: BronzeFiles, sizes: Sizes) -> None:
        self._spark = spark
        self._sizes, self._size = sizes, sizes.piece
        self._records = {topic: self._read(files.uris(topic)) for topic in files.topics}
        self._partitions = PARTITIONS_PER_CORE * spark.sparkContext.defaultParallelism
        self._known: list[int] = []
        self._ranges_said: frozenset[int] = frozenset()
        self._published: Any = None

    def names(self, ends: Ends, cuts: Mapping[Partition, Collection[int]]) -> Named:
        from pyspark.sql import functions as F

        number = F.expr(f"offset div {self._size}").alias("number")
        found: dict[Partition, dict[int, BlockName]] = {place: {} for place in ends}
        frames = [
            frame.select(F.lit(topic).alias("topic"), "partition", number, *NAMED_COLUMNS)
            for topic, frame in self._records.items()
        ]
        reach: dict[int, Reach] = {}
        if not frames:
            return Named(found, reach)
        every = frames[0]
        for frame in frames[1:]:
            every = every.unionAll(frame)
        pieces = sum(-(-end // self._size) for end in ends.values())
        placed = every.repartition(self._beside(pieces), *PIECE_COLUMNS)
        named = placed.sortWithinPartitions(*PIECE_COLUMNS, "offset").mapInArrow(
            partial(name_batches, ends=dict(ends), cuts=dict(cuts), block=self._sizes.block),
            NAME_COLUMNS,
        )
        for row in named.collect():
            place = (row["topic"], row["partition"])
            found[place][row["end"]] = BlockName(bytes(row["log"]), bytes(row["landing"]))
            if place == OUTCOMES:
                reach[(row["end"] - 1) // self._size] = (row["lowest"], row["highest"])
        return Named(found, reach)

    def outcomes(self, pieces: Sequence[int]) -> Outcomes:
        self._known = list(pieces)
        self._published = self._of(pieces).cache()
        rows = self._published.mapInArrow(
            partial(said_batches, size=self._size), SAID_COLUMNS
        ).collect()
        found = gathered(msgspec.msgpack.decode(row["said"], type=TOLD_SAID) for row in rows)
        self._ranges_said = frozenset(r for one in found.said.values() for r in one.ranges)
        return found

    def fold(self, made: Plan, begins: Mapping[int, bytes]) -> Folded:
        if not made.folded:
            return Folded([], self._unread(made))
        more = sorted(made.pieces - set(self._known))
        published = self._published.unionAll(self._of(more)) if more else self._published
        entries = self._entries(made, published, begins)
        runs = len(set(made.starts.values()))
        placed = entries.repartition(
            1 if runs == 1 else max(self._partitions, PARTITIONS_PER_CORE * runs), "start"
        )
        sorted_ = placed.sortWithinPartitions("start", "offset", "what")
        rows = sorted_.mapInArrow(partial(prove_batches, size=self._size), TOLD_COLUMNS).collect()
        ranges = [
            RangeFolded(
                msgspec.msgpack.decode(row["told"], type=RangeTold),
                None if row["state"] is None else bytes(row["state"]),
                bytes(row["decided"]),
            )
            for row in rows
        ]
        return Folded(ranges, self._unread(made))

    def _unread(self, made: Plan) -> list[tuple[int, str]]:
        """Outcomes that nobody reads who folds."""
        from pyspark.sql import functions as F

        beside = sorted(self._ranges_said - set(made.starts))
        if not beside:
            return []
        mine = self._published.where(F.expr(f"offset div {self._size}").isin(beside))
        rows = mine.select("log_offset", "value").mapInArrow(unread_batches, UNREAD_COLUMNS)
        return [(row["log_offset"], row["problem"]) for row in rows.collect()]

    def close(self) -> None:
        if self._published is not None:
            self._published.unpersist()

    def _read(self, files: Sequence[str]) -> Any:
        """Read from the table's files and not through the table: a changed file has another size,
        too, and the verdict must name a record, not a file.
        """
        if not files:
            return self._spark.createDataFrame([], BRONZE_FILE_COLUMNS)
        paths = [spark_path(path) for path in files]
        return self._spark.read.schema(BRONZE_FILE_COLUMNS).parquet(*paths)

    def _first(self, topic: str) -> Any:
        """Records of partition 0."""
        frame = self._records.get(topic)
        frame = self._read(()) if frame is None else frame
        return frame.where("partition = 0").select("offset", "value")

    def _beside(self, pieces: int) -> int:
        """How many of `pieces` pieces are worked on side by side: an empty task costs some ms
        too.
        """
        return max(1, min(self._partitions, pieces))

    def _of(self, pieces: Sequence[int]) -> Any:
        """What these pieces of the outcomes say."""
        from pyspark.sql import functions as F

        number = F.expr(f"offset div {self._size}")
        placed = (
            self._first(OUTCOMES_TOPIC)
            .where(number.isin(list(pieces)))
            .repartition(self._beside(len(pieces)), number)
        )
        return placed.sortWithinPartitions("offset").mapInArrow(publish_batches, PUBLISHED_COLUMNS)

    def _entries(self, made: Plan, published: Any, begins: Mapping[int, bytes]) -> Any:
        """Commands, what was published of them, and the states that runs begin with
        (`entries.Entries`).
        """
        from pyspark.sql import functions as F

        size = self._size
        first_of = F.create_map(
            *(F.lit(value).cast("long") for pair in made.starts.items() for value in pair)
        )
        start = first_of[F.expr(f"offset div {size}")] * F.lit(size)
        if made.boundary is not None:
            start = F.when(
                F.col("offset") == made.boundary * size - 1, F.lit(made.boundary * size)
            ).otherwise(start)
        commands = (
            self._first(COMMANDS_TOPIC)
            .where(F.col("offset") <= made.asked.last)
            .select(
                start.cast("long").alias("start"),
                "offset",
                F.lit(COMMAND).alias("what"),
                F.lit(-1).cast("long").alias("place"),
                "value",
            )
        )
        if made.boundary is not None:
            commands = commands.where(F.col("offset") >= made.boundary * size)
        outcomes = published.where("offset is not null").select(
            start.cast("long").alias("start"),
            "offset",
            F.lit(SAID).alias("what"),
            F.col("log_offset").alias("place"),
            "value",
        )
        return commands.unionAll(outcomes).where("start is not null").unionAll(self._begins(begins))

    def _begins(self, begins: Mapping[int, bytes]) -> Any:
        count, first = len(begins), [number * self._size for number in begins]
        columns = {
            "start": pa.array(first, pa.int64()),
            "offset": pa.array([one - 1 for one in first], pa.int64()),
            "what": pa.array([BEGIN] * count, pa.int32()),
            "place": pa.array([-1] * count, pa.int64()),
            "value": pa.array(begins.values(), pa.binary()),
        }
        return self._spark.createDataFrame(pa.table(columns))


def said_batches(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """`outcomes_of` for `mapInArrow`: `pieces.PUBLISHED_SCHEMA` in, `SAID_COLUMNS` out.

    Outcomes of a piece come together and in order, but for what is told of those that landed twice.
    """
    gathered: list[pa.RecordBatch] = []
    twice: list[pa.RecordBatch] = []
    for batch in batches:
        is_twice = pc.fill_null(pc.equal(batch.column("problem"), OTHER_BYTES), False)
        twice.append(batch.filter(is_twice))
        rows = batch.filter(pc.invert(is_twice))
        numbers = np.asarray(rows.column("log_offset")) // size
        begins = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist()] if len(numbers) else []
        for first, end in pairwise([*begins, len(numbers)]):
            if gathered and gathered[-1].column("log_offset")[0].as_py() // size != numbers[first]:
                yield _packed(gathered, size)
                gathered = []
            gathered.append(rows.slice(first, end - first))
    for rest in (gathered, twice):
        if rest:
            yield _packed(rest, size)


def _packed(batches: Sequence[pa.RecordBatch], size: int) -> pa.RecordBatch:
    found = outcomes_of(pa.Table.from_batches(batches), size)
    told = msgspec.msgpack.encode((found.said, found.problems))
    return pa.RecordBatch.from_arrays([pa.array([told], pa.binary())], names=["said"])


def gathered(told: Iterable[tuple[Mapping[int, Said], Sequence[tuple[int, str]]]]) -> Outcomes:
    """What all tasks told."""
    said: dict[int, Said] = {}
    problems: list[tuple[int, str]] = []
    for pieces, wrong in told:
        said |= {n: _joined(said[n], one) if n in said else one for n, one in pieces.items()}
        problems += wrong
    return Outcomes(said, sorted(problems)[:PROBLEMS_SHOWN_MAX])


def _joined(one: Said, other: Said) -> Said:
    """Of one piece: what its outcomes say, and how many of them landed twice."""
    most = one if one.ranges else other
    return replace(most, problems=one.problems + other.problems)


def unread_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`unread_in` for `mapInArrow`: log_offset and value in, `UNREAD_COLUMNS` out."""
    for batch in batches:
        found = unread_in(*(batch.column(at).to_pylist() for at in range(2)))
        columns = list(zip(*found, strict=True)) or [(), ()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.string())],
            names=["log_offset", "problem"],
        )
