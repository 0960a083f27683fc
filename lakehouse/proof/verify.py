"""The proof: Spark folds the landed commands, and gets the digests that controllers published.

Responsible for the Spark plan. What must be folded, and what it proves, is `proof.plan`'s; the fold
itself is `refold`'s. Refuses to hold a rule and to believe a table: it starts from the bytes in
bronze.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.proof import kept as proof_store
from lakehouse.proof.pieces import NAMED_COLUMNS, PUBLISHED_COLUMNS, name_batches, publish_batches
from lakehouse.proof.plan import (
    PROBLEMS_SHOWN_MAX,
    Asked,
    Landed,
    Piece,
    Plan,
    Said,
    misbegun,
    plan,
    taken_away,
    to_keep,
    verdict,
)
from lakehouse.proof.refold import BEGIN, COMMAND, SAID, TOLD_COLUMNS, RangeTold, prove_batches
from lakehouse.proof.verdict import Verdict
from lakehouse.spark_session import SparkSettings, build_session, stop_session
from lakehouse.tables.delta import active_files, read
from lakehouse.tables.lake import Lake, spark_path
from lakehouse.tables.specs import BRONZE, BY_NAME

ERROR_CHARS_MAX = 500
MASTER_ROLE = "MASTER"
BRONZE_FILE_COLUMNS = "partition int, offset long, value binary"
ENTRY_COLUMNS = ("start", "offset", "what", "value", "digest", "outcome_hash", "publisher")
PARTITIONS_PER_CORE = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """What is to be proven: offsets of commands, both included, None for the ends of history."""

    first: int | None = None
    last: int | None = None
    from_start: bool = False
    """Fold everything again, whatever was proven earlier."""
    range_records: int = proof_store.RANGE_RECORDS


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

    files = active_files(lake, BRONZE, "topic", (COMMANDS_TOPIC, OUTCOMES_TOPIC))
    if not files[COMMANDS_TOPIC]:
        raise NotLanded(f"no commands have landed in {lake.root}: has `regent land` run?")
    try:
        return _Proof(spark, lake, files, scope).run([])
    except (PySparkException, Py4JError) as error:
        damaged = {
            path
            for paths in files.values()
            for path in paths
            if lake.folder is not None and not _opens(path)
        }
        if not damaged:
            reason = str(error).strip().splitlines()[0][:ERROR_CHARS_MAX]
            raise LakehouseError(f"bronze in {lake.root} cannot be folded: {reason}") from error
    # What lies in a damaged file is then missing, and is named by its offsets.
    whole = {topic: [p for p in paths if p not in damaged] for topic, paths in files.items()}
    told = [f"file {path} of bronze is damaged" for path in sorted(damaged)]
    if not whole[COMMANDS_TOPIC]:
        raise LakehouseError("; ".join(told))
    return _Proof(spark, lake, whole, scope).run(told)


class _Proof:
    """One proof over the files that make up bronze now."""

    def __init__(
        self, spark: Any, lake: Lake, files: Mapping[str, Sequence[str]], scope: Scope
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._scope = scope
        self._size = scope.range_records
        self._records = {topic: _records(spark, paths) for topic, paths in files.items()}
        self._partitions = PARTITIONS_PER_CORE * spark.sparkContext.defaultParallelism

    def run(self, problems: list[str]) -> Verdict:
        offsets = {topic: _offsets(frame) for topic, frame in self._records.items()}
        ends = {topic: int(found[-1]) + 1 if len(found) else 0 for topic, found in offsets.items()}
        asked = self._asked(ends[COMMANDS_TOPIC])
        kept = proof_store.kept(self._lake, self._size)
        problems += taken_away(kept.values(), self._size, ends)
        landed = self._landed(ends, kept)
        published = self._published(sorted(landed.unknown_pieces)).cache()
        said = _said(published, self._size)
        problems += _troubles(offsets[OUTCOMES_TOPIC], published)
        told, states, made = self._folded(landed, asked, said, published)
        commands = offsets[COMMANDS_TOPIC]
        missing = [
            (a, b) for a, b in _holes(commands, made.wanted[0] * self._size) if a <= asked.last
        ]
        found = verdict(landed, made, told, missing=missing)
        found = dataclasses.replace(
            found,
            problems=[*problems, *found.problems, *two_masters(self._lake)][:PROBLEMS_SHOWN_MAX],
            not_kept=self._keep(landed, made, told, said, states),
        )
        published.unpersist()
        return found

    def _asked(self, end: int) -> Asked:
        scope = self._scope
        if end == 0:
            raise NotLanded(f"no commands have landed in {self._lake.root}: has `regent land` run?")
        first, last = scope.first or 0, end - 1 if scope.last is None else scope.last
        if max(first, last) >= end:
            raise NotLanded(f"command {max(first, last)} has not landed: last {end - 1}")
        return Asked(
            first,
            last,
            everything=scope.from_start or scope.first is not None or scope.last is not None,
        )

    def _landed(self, ends: Mapping[str, int], kept: Mapping[tuple[str, int], Piece]) -> Landed:
        """Names of the bytes of whole pieces, and what was proven of them."""
        from pyspark.sql import functions as F

        whole = {topic: end // self._size for topic, end in ends.items()}
        names: dict[tuple[str, int], str] = {}
        if any(whole.values()):
            number = F.expr(f"offset div {self._size}")
            each = [
                frame.select(
                    F.lit(topic).alias("topic"), number.alias("number"), "offset", "value"
                ).where(F.col("number") < whole[topic])
                for topic, frame in self._records.items()
            ]
            placed = (
                each[0]
                .unionAll(each[1])
                .repartition(self._beside(sum(whole.values())), "topic", "number")
            )
            named = placed.sortWithinPartitions("topic", "number", "offset").mapInArrow(
                name_batches, NAMED_COLUMNS
            )
            names = {
                (row["topic"], row["number"]): row["bytes_name"]
                for row in named.collect()
                if row["records"] == self._size
            }
        # States may be begun with, for each is proven again; what outcomes are about is read.
        if self._scope.from_start:
            kept = {key: piece for key, piece in kept.items() if piece.topic == COMMANDS_TOPIC}
        return Landed(self._size, names, kept, -(-ends[OUTCOMES_TOPIC] // self._size))

    def _beside(self, pieces: int) -> int:
        """How many of `pieces` pieces are worked on side by side: an empty task costs some ms
        too.
        """
        return max(1, min(self._partitions, pieces))

    def _published(self, pieces: Sequence[int]) -> Any:
        """What these pieces of the outcomes say."""
        from pyspark.sql import functions as F

        number = F.expr(f"offset div {self._size}")
        placed = (
            self._records[OUTCOMES_TOPIC]
            .where(number.isin(list(pieces)))
            .repartition(self._beside(len(pieces)), number)
        )
        return placed.sortWithinPartitions("offset").mapInArrow(publish_batches, PUBLISHED_COLUMNS)

    def _folded(
        self, landed: Landed, asked: Asked, said: Mapping[int, Said], published: Any
    ) -> tuple[dict[int, RangeTold], dict[int, bytes], Plan]:
        """Fold; again from further below as long as a kept state turns out to be of another
        history.
        """
        distrusted: set[int] = set()
        while True:
            made = plan(landed, asked, said, distrusted)
            told, states = self._fold(landed, made, published)
            wrong = misbegun(landed, made, told)
            if not wrong:
                return told, states, made
            distrusted |= wrong

    def _fold(
        self, landed: Landed, made: Plan, published: Any
    ) -> tuple[dict[int, RangeTold], dict[int, bytes]]:
        if not made.folded:
            return {}, {}
        more = sorted(made.pieces - landed.unknown_pieces)
        entries = self._entries(
            made, published.unionAll(self._published(more)) if more else published
        )
        runs = len(set(made.starts.values()))
        placed = entries.repartition(
            1 if runs == 1 else max(self._partitions, PARTITIONS_PER_CORE * runs), "start"
        )
        sorted_ = placed.sortWithinPartitions("start", "offset", "what")
        rows = sorted_.mapInArrow(partial(prove_batches, size=self._size), TOLD_COLUMNS).collect()
        told = [msgspec.msgpack.decode(row["told"], type=RangeTold) for row in rows]
        by_number = {one.first // self._size: one for one in told}
        states = {
            one.first // self._size: bytes(row["state"])
            for one, row in zip(told, rows, strict=True)
            if row["state"] is not None
        }
        return by_number, states

    def _entries(self, made: Plan, published: Any) -> Any:
        """Commands, what was published of them, and the states that runs begin with
        (`refold.Entry`).
        """
        from pyspark.sql import functions as F

        size, none = self._size, F.lit(None)
        first_of = F.create_map(
            *(F.lit(value).cast("long") for pair in made.starts.items() for value in pair)
        )
        start = first_of[F.expr(f"offset div {size}")] * F.lit(size)
        if made.boundary is not None:
            start = F.when(
                F.col("offset") == made.boundary * size - 1, F.lit(made.boundary * size)
            ).otherwise(start)
        text = none.cast("string")
        commands = (
            self._records[COMMANDS_TOPIC]
            .where(F.col("offset") <= made.asked.last)
            .select(
                start.cast("long").alias("start"),
                "offset",
                F.lit(COMMAND).alias("what"),
                "value",
                text.alias("digest"),
                text.alias("outcome_hash"),
                text.alias("publisher"),
            )
        )
        if made.boundary is not None:
            commands = commands.where(F.col("offset") >= made.boundary * size)
        outcomes = published.where("offset is not null").select(
            start.cast("long").alias("start"),
            "offset",
            F.lit(SAID).alias("what"),
            none.cast("binary").alias("value"),
            "digest",
            "outcome_hash",
            "publisher",
        )
        return commands.unionAll(outcomes).where("start is not null").unionAll(self._begins(made))

    def _begins(self, made: Plan) -> Any:
        packed = proof_store.states(
            self._lake, self._size, COMMANDS_TOPIC, (r - 1 for r in made.begins)
        )
        count, first = len(packed), [(number + 1) * self._size for number in packed]
        columns = {
            "start": pa.array(first, pa.int64()),
            "offset": pa.array([one - 1 for one in first], pa.int64()),
            "what": pa.array([BEGIN] * count, pa.int32()),
            "value": pa.array(packed.values(), pa.binary()),
            **{name: pa.nulls(count, pa.string()) for name in ENTRY_COLUMNS[4:]},
        }
        return self._spark.createDataFrame(pa.table(columns))

    def _keep(
        self,
        landed: Landed,
        made: Plan,
        told: Mapping[int, RangeTold],
        said: Mapping[int, Said],
        states: Mapping[int, bytes],
    ) -> str | None:
        """Keep what was proven; why not, when that fails: read access to the lake is enough to
        verify.
        """
        try:
            proof_store.keep(
                self._lake, self._size, to_keep(landed, made, told, said), states, datetime.now(UTC)
            )
        except LakehouseError as error:
            return str(error)
        return None


def _opens(path: str) -> bool:
    try:
        pq.ParquetFile(path.removeprefix("file://")).read(columns=["partition", "offset", "value"])
    except (OSError, pa.ArrowException):
        return False
    return True


def _records(spark: Any, files: Sequence[str]) -> Any:
    """Records of partition 0.

    Read from the table's files and not through the table: a changed file has another size, too, and
    the verdict must name a record, not a file.
    """
    if not files:
        return spark.createDataFrame([], "offset long, value binary")
    paths = [spark_path(path) for path in files]
    return (
        spark.read.schema(BRONZE_FILE_COLUMNS)
        .parquet(*paths)
        .where("partition = 0")
        .select("offset", "value")
    )


def _offsets(frame: Any) -> np.ndarray[Any, Any]:
    """Every offset that landed, ascending."""
    return np.sort(frame.select("offset").toArrow()["offset"].to_numpy())


def _holes(offsets: np.ndarray[Any, Any], first: int) -> list[tuple[int, int]]:
    """Ranges of offsets, both ends included, that are missing from `first` on and below the last
    one.
    """
    there = np.concatenate(([first - 1], offsets[offsets >= first]))
    after = np.flatnonzero(np.diff(there) > 1)
    return [(int(there[i]) + 1, int(there[i + 1]) - 1) for i in after]


def _said(published: Any, size: int) -> dict[int, Said]:
    from pyspark.sql import functions as F

    rows = (
        published.groupBy(F.expr(f"log_offset div {size}").alias("number"))
        .agg(
            F.min("offset").alias("lowest"),
            F.max("offset").alias("highest"),
            F.collect_set(F.expr(f"offset div {size}")).alias("ranges"),
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


def _troubles(offsets: np.ndarray[Any, Any], published: Any) -> list[str]:
    """What is wrong with the outcomes topic itself; it may begin anywhere, its first records being
    gone.
    """
    found = (
        [
            (last + 1, f"{_range(first, last)} right before it never landed")
            for first, last in _holes(offsets, int(offsets[0]))
        ]
        if len(offsets)
        else []
    )
    rows = (
        published.where("problem is not null")
        .select("log_offset", "problem")
        .orderBy("log_offset")
        .limit(PROBLEMS_SHOWN_MAX)
        .collect()
    )
    found += [(row["log_offset"], row["problem"]) for row in rows]
    return [
        (f"{OUTCOMES_TOPIC} offset {offset}: {text}")
        for offset, text in sorted(found)[:PROBLEMS_SHOWN_MAX]
    ]


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def two_masters(lake: Lake) -> list[str]:
    """Epochs in which more than one broker said that it is master."""
    columns = ["broker_name", "master_epoch", "broker_id", "role"]
    claimed: dict[tuple[str, int], set[int]] = {}
    for row in read(lake, BY_NAME["silver/role_changed"], columns=columns).to_pylist():
        if row["role"].upper() == MASTER_ROLE:
            claimed.setdefault((row["broker_name"], row["master_epoch"]), set()).add(
                row["broker_id"]
            )
    return [
        f"{name}: brokers {sorted(ids)} were masters in epoch {epoch}"
        for (name, epoch), ids in sorted(claimed.items())
        if len(ids) > 1
    ]
