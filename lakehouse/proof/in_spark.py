"""The work of a proof in Spark: for long histories, on all cores or on a cluster.

Responsible for the Spark plan. Refuses to hold a rule and to believe a table: it starts from the
bytes in bronze's files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.entries import BEGIN, COMMAND, SAID
from lakehouse.proof.known_names import Sizes
from lakehouse.proof.names import NAMED_COLUMNS, BlockName
from lakehouse.proof.pieces import (
    NAME_COLUMNS,
    PIECE_COLUMNS,
    PUBLISHED_COLUMNS,
    name_batches,
    publish_batches,
)
from lakehouse.proof.plan import PROBLEMS_SHOWN_MAX, Plan, Said
from lakehouse.proof.refold import TOLD_COLUMNS, RangeFolded, RangeTold, prove_batches
from lakehouse.proof.work import Ends, Folded, Outcomes, unread_in
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import spark_path

BRONZE_FILE_COLUMNS = (
    "partition int, offset long, timestamp timestamp, timestamp_type int, key binary, "
    "value binary, landed_at timestamp, batch long"
)
UNREAD_COLUMNS = "log_offset long, problem string"
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

    def names(
        self, ends: Ends, cuts: Mapping[Partition, Collection[int]]
    ) -> dict[Partition, dict[int, BlockName]]:
        from pyspark.sql import functions as F

        number = F.expr(f"offset div {self._size}").alias("number")
        found: dict[Partition, dict[int, BlockName]] = {place: {} for place in ends}
        frames = [
            frame.select(F.lit(topic).alias("topic"), "partition", number, *NAMED_COLUMNS)
            for topic, frame in self._records.items()
        ]
        if not frames:
            return found
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
        return found

    def outcomes(self, pieces: Sequence[int]) -> Outcomes:
        self._known = list(pieces)
        self._published = self._of(pieces).cache()
        said = self._said()
        self._ranges_said = frozenset(r for one in said.values() for r in one.ranges)
        return Outcomes(said, self._problems())

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

    def _said(self) -> dict[int, Said]:
        from pyspark.sql import functions as F

        rows = (
            self._published.groupBy(F.expr(f"log_offset div {self._size}").alias("number"))
            .agg(
                F.min("offset").alias("lowest"),
                F.max("offset").alias("highest"),
                F.collect_set(F.expr(f"offset div {self._size}")).alias("ranges"),
                F.count("problem").alias("problems"),
            )
            .collect()
        )
        return {
            row["number"]: Said(
                row["lowest"] if row["ranges"] else -1,
                row["highest"] if row["ranges"] else -1,
                frozenset(row["ranges"]),
                row["problems"],
            )
            for row in rows
        }

    def _problems(self) -> list[tuple[int, str]]:
        rows = (
            self._published.where("problem is not null")
            .select("log_offset", "problem")
            .orderBy("log_offset")
            .limit(PROBLEMS_SHOWN_MAX)
            .collect()
        )
        return [(row["log_offset"], row["problem"]) for row in rows]

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


def unread_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`unread_in` for `mapInArrow`: log_offset and value in, `UNREAD_COLUMNS` out."""
    for batch in batches:
        found = unread_in(*(batch.column(at).to_pylist() for at in range(2)))
        columns = list(zip(*found, strict=True)) or [(), ()]
        yield pa.RecordBatch.from_arrays(
            [pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.string())],
            names=["log_offset", "problem"],
        )
