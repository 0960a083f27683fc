"""
The proof: Spark folds the landed commands, and gets the digests that controllers published.

Responsible for the Spark plan, for comparing, and for the verdict with the offsets in it.
Refuses to hold a rule and to believe a table: it starts from the bytes in bronze.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.delta_tables import active_files, table_path
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.refold import FOLDED_COLUMNS, PUBLISHED_COLUMNS, fold_batches, publish_batches
from lakehouse.session import SparkSettings, build_session, stop_session
from lakehouse.tables import BRONZE, BY_NAME

PROBLEMS_SHOWN_MAX = 20
BRONZE_FILE_COLUMNS = "partition int, offset long, value binary"


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What the comparison found; offsets are those of `regent.commands` unless said otherwise.

    `verified_up_to` is the last offset whose folded digest equals a published one: digests are
    chained, so this proves every command up to it. -1 proves nothing.
    """

    verified_up_to: int
    digest: str | None
    commands: int
    compared: int
    unproven: int
    """Folded commands above `verified_up_to` whose outcome has not landed yet."""
    first_mismatch: int | None = None
    mismatches: int = 0
    publishers: list[str] = field(default_factory=list)
    unreadable: int = 0
    """Commands that the fold refused unread; they are part of history."""
    missing: list[list[int]] = field(default_factory=list)
    """Ranges of offsets, both ends included, that are not in bronze."""
    problems: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 when all that was published is proven, else 1."""
        wrong = self.first_mismatch is not None or self.problems or self.missing
        return 1 if wrong or self.verified_up_to < 0 else 0

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**dataclasses.asdict(self), "exit_code": self.exit_code}

    def text(self) -> str:
        """For people; the first line is the verdict."""
        lines = [self._headline()]
        lines += [f"  missing in bronze: {_range(first, last)}" for first, last in self.missing]
        lines += [f"  {problem}" for problem in self.problems]
        if self.unreadable:
            lines.append(f"  {self.unreadable} commands were refused unread, as published")
        if self.unproven:
            lines.append(f"  {self.unproven} commands are folded, their outcomes have not landed")
        return "\n".join(lines)

    def _headline(self) -> str:
        if self.first_mismatch is not None:
            return (
                f"NOT VERIFIED: history differs from what was published at offset "
                f"{self.first_mismatch}; equal up to {self.verified_up_to}"
            )
        if self.exit_code:
            return f"NOT VERIFIED: equal up to offset {self.verified_up_to}"
        publishers = ", ".join(self.publishers)
        return (
            f"verified up to offset {self.verified_up_to}: {self.commands} commands folded in "
            f"Spark, {self.compared} digests published by {publishers} are equal, last "
            f"{str(self.digest)[:16]}…"
        )


def verify(tables_dir: Path, settings: SparkSettings) -> Verdict:
    """
    Start Spark, fold and compare, stop Spark. Takes half a minute at least.

    Raises `NotLanded` when there is nothing to fold, `LakehouseError` when it cannot run.
    """
    spark = build_session(settings, "regent-verify")
    try:
        return verify_in(spark, tables_dir)
    finally:
        stop_session(spark)


def verify_in(spark: Any, tables_dir: Path) -> Verdict:
    """The same in a session that is there already."""
    from pyspark.errors import PySparkException

    files = active_files(tables_dir, BRONZE, "topic", (COMMANDS_TOPIC, OUTCOMES_TOPIC))
    if not files[COMMANDS_TOPIC]:
        raise NotLanded(f"no commands have landed in {tables_dir}: has `regent land` run?")
    frames = []
    try:
        records = _records(spark, files[COMMANDS_TOPIC]).cache()
        folded = records.mapInArrow(fold_batches, FOLDED_COLUMNS).cache()
        published = _published(spark, files[OUTCOMES_TOPIC]).cache()
        frames = [records, folded, published]
        return _compared(spark, tables_dir, records, folded, published)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0][:500]
        raise LakehouseError(f"bronze in {tables_dir} cannot be folded: {reason}") from error
    finally:
        for frame in frames:
            frame.unpersist()


def _records(spark: Any, files: list[str]) -> Any:
    """
    Records of partition 0 in one Spark partition, by offset.

    Read from the table's files and not through the table: whoever changes a file changes its
    size too, and the verdict must name a record, not a file.
    """
    found = spark.read.schema(BRONZE_FILE_COLUMNS).parquet(*files).where("partition = 0")
    return found.select("offset", "value").coalesce(1).sortWithinPartitions("offset")


def _published(spark: Any, files: list[str]) -> Any:
    if not files:
        return spark.createDataFrame([], PUBLISHED_COLUMNS)
    return _records(spark, files).mapInArrow(publish_batches, PUBLISHED_COLUMNS)


def _compared(spark: Any, tables_dir: Path, records: Any, folded: Any, published: Any) -> Verdict:
    from pyspark.sql import functions as F

    # Readers drop repeats by offset; a repeat that says something else is a mismatch too.
    readable = published.where("offset is not null")
    differs = F.expr("not (f.digest <=> p.digest and f.outcome_hash <=> p.outcome_hash)")
    joined = (
        folded.where("digest is not null")
        .alias("f")
        .join(readable.alias("p"), F.expr("f.offset = p.offset"), "left")
        .select("f.offset", "f.digest", "p.publisher", F.expr("p.offset is not null").alias("has"),
                differs.alias("differs"))
        .cache()
    )  # fmt: skip
    try:
        wrong = joined.where("has and differs").agg(
            F.min("offset"), F.count_distinct("offset")
        ).first()
        right = joined.where("has and not differs")
        if wrong[0] is not None:
            right = right.where(F.col("offset") < wrong[0])
        last = right.orderBy(F.desc("offset")).first()
        verified = -1 if last is None else last["offset"]
        commands, unreadable = folded.agg(
            F.count("digest"), F.sum(F.expr("int(refusal in ('UNREADABLE', 'UNKNOWN_SCHEMA'))"))
        ).first()
        return Verdict(
            verified_up_to=verified,
            digest=None if last is None else last["digest"],
            commands=commands,
            compared=joined.where("has").select("offset").distinct().count(),
            unproven=joined.where(~F.col("has") & (F.col("offset") > verified)).count(),
            first_mismatch=wrong[0],
            mismatches=wrong[1],
            publishers=sorted(
                row[0] for row in joined.where("has").select("publisher").distinct().collect()
            ),
            unreadable=unreadable or 0,
            missing=_missing(records),
            problems=_problems(spark, tables_dir, folded, published),
        )
    finally:
        joined.unpersist()


def _missing(records: Any) -> list[list[int]]:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    before = F.lag("offset", 1, -1).over(Window.orderBy("offset"))
    holes = records.select("offset", before.alias("before")).where("offset > before + 1")
    rows = holes.orderBy("offset").limit(PROBLEMS_SHOWN_MAX).collect()
    return [[row["before"] + 1, row["offset"] - 1] for row in rows]


def _problems(spark: Any, tables_dir: Path, folded: Any, published: Any) -> list[str]:
    found = [
        f"offset {row['offset']}: {row['problem']}"
        for row in folded.where("problem is not null")
        .orderBy("offset").limit(PROBLEMS_SHOWN_MAX).collect()
    ]  # fmt: skip
    found += [
        f"{OUTCOMES_TOPIC} offset {row['log_offset']} is unreadable: {row['problem']}"
        for row in published.where("problem is not null")
        .orderBy("log_offset").limit(PROBLEMS_SHOWN_MAX).collect()
    ]  # fmt: skip
    return found + _two_masters(spark, tables_dir)


def _two_masters(spark: Any, tables_dir: Path) -> list[str]:
    """Epochs in which more than one broker said that it is master."""
    from pyspark.sql import functions as F

    table = BY_NAME["silver/role_changed"]
    rows = (
        spark.read.format("delta").load(str(table_path(tables_dir, table)))
        .where("upper(role) = 'MASTER'")
        .groupBy("broker_name", "master_epoch")
        .agg(F.sort_array(F.collect_set("broker_id")).alias("ids"))
        .where("size(ids) > 1").orderBy("broker_name", "master_epoch")
        .limit(PROBLEMS_SHOWN_MAX).collect()
    )  # fmt: skip
    return [
        f"{row['broker_name']}: brokers {row['ids']} were masters in epoch {row['master_epoch']}"
        for row in rows
    ]


def _range(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def verdict_text(verdict: Mapping[str, Any]) -> str:
    """The text of a verdict that was turned into a dict."""
    values = {name: verdict[name] for name in Verdict.__dataclass_fields__}
    return Verdict(**values).text()
