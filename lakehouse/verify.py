"""
The proof: Spark folds the landed commands, and gets the digests that controllers published.

Responsible for the Spark plan, for comparing, and for the verdict with the offsets in it.
Refuses to hold a rule and to believe a table: it starts from the bytes in bronze.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.delta_tables import active_files, read
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.lake import Lake
from lakehouse.refold import FOLDED_COLUMNS, PUBLISHED_COLUMNS, fold_batches, publish_batches
from lakehouse.session import SparkSettings, build_session, stop_session
from lakehouse.tables import BRONZE, BY_NAME

PROBLEMS_SHOWN_MAX = 20
ERROR_CHARS_MAX = 500
MASTER_ROLE = "MASTER"
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
        if self.unreadable and self.first_mismatch is None:
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


def verify(lake: Lake, settings: SparkSettings) -> Verdict:
    """
    Start Spark, fold and compare, stop Spark. Takes half a minute at least.

    Raises `NotLanded` when there is nothing to fold, `LakehouseError` when it cannot run.
    """
    spark = build_session(settings, "regent-verify")
    try:
        return verify_in(spark, lake)
    finally:
        stop_session(spark)


def verify_in(spark: Any, lake: Lake) -> Verdict:
    """The same in a session that is there already."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    files = active_files(lake, BRONZE, "topic", (COMMANDS_TOPIC, OUTCOMES_TOPIC))
    if not files[COMMANDS_TOPIC]:
        raise NotLanded(f"no commands have landed in {lake.root}: has `regent land` run?")
    try:
        return _verdict(spark, lake, files, [])
    except (PySparkException, Py4JError) as error:
        damaged = {path for paths in files.values() for path in paths if not _opens(path)}
        if not damaged:
            reason = str(error).strip().splitlines()[0][:ERROR_CHARS_MAX]
            raise LakehouseError(f"bronze in {lake.root} cannot be folded: {reason}") from error
    # What lies in a damaged file is then missing, and is named by its offsets.
    whole = {topic: [p for p in paths if p not in damaged] for topic, paths in files.items()}
    told = [f"file {path} of bronze is damaged" for path in sorted(damaged)]
    if not whole[COMMANDS_TOPIC]:
        raise LakehouseError("; ".join(told))
    return _verdict(spark, lake, whole, told)


def _verdict(
    spark: Any, lake: Lake, files: Mapping[str, list[str]], told: list[str]
) -> Verdict:
    folded = _records(spark, files[COMMANDS_TOPIC]).mapInArrow(fold_batches, FOLDED_COLUMNS)
    published = _published(spark, files[OUTCOMES_TOPIC])
    joined = _joined(folded.cache(), published.cache())
    try:
        found = _told(folded, published)
        problems = [*told, *(row["problem"] for row in found if row["problem"])]
        missing = [
            [row["missing_from"], row["offset"] - 1]
            for row in found
            if row["missing_from"] is not None
        ]
        verdict = _compared(joined.cache())
        problems += two_masters(lake)
        return dataclasses.replace(verdict, missing=missing, problems=problems)
    finally:
        for frame in (joined, folded, published):
            frame.unpersist()


def _opens(path: str) -> bool:
    try:
        pq.ParquetFile(path.removeprefix("file://")).read(columns=["partition", "offset", "value"])
    except (OSError, pa.ArrowException):
        return False
    return True


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


def _compared(joined: Any) -> Verdict:
    """The verdict: first where history differs, then how far it is proven below that."""
    from pyspark.sql import functions as F

    wrong, mismatches, commands, compared, unreadable, publishers = joined.agg(
        F.expr("min(if(differs, offset, null))"),
        F.expr("count_if(differs)"),
        F.expr("count(*)"),
        F.expr("count_if(has)"),
        F.expr("count_if(refusal in ('UNREADABLE', 'UNKNOWN_SCHEMA'))"),
        F.expr("array_sort(array_distinct(flatten(collect_list(publishers))))"),
    ).first()
    proven = joined.where("has and not differs")
    if wrong is not None:
        proven = proven.where(F.col("offset") < wrong)
    verified, digest = proven.agg(F.max("offset"), F.max_by("digest", "offset")).first()
    verified = -1 if verified is None else verified
    return Verdict(
        verified_up_to=verified,
        digest=digest,
        commands=commands,
        compared=compared,
        unproven=joined.where(~F.col("has") & (F.col("offset") > verified)).count(),
        first_mismatch=wrong,
        mismatches=mismatches,
        publishers=publishers,
        unreadable=unreadable,
    )


def _joined(folded: Any, published: Any) -> Any:
    """
    One row per folded command, with what was published about it.

    Readers drop repeats by offset, but a repeat that says something else differs too.
    """
    from pyspark.sql import functions as F

    differs = "p.offset is not null and not (f.digest <=> p.digest and f.outcome_hash <=> p.outcome_hash)"
    return (
        folded.where("digest is not null").alias("f")
        .join(published.alias("p"), F.expr("f.offset = p.offset"), "left")
        .groupBy("f.offset")
        .agg(
            F.first("f.digest").alias("digest"),
            F.first("f.refusal").alias("refusal"),
            F.expr("count(p.offset) > 0").alias("has"),
            F.expr(f"bool_or({differs})").alias("differs"),
            F.expr("collect_set(p.publisher)").alias("publishers"),
        )
    )  # fmt: skip


def _told(folded: Any, published: Any) -> list[Any]:
    """What folding and reading came upon, in words, with the holes."""
    from pyspark.sql import functions as F

    own = folded.where("problem is not null or missing_from is not null").select(
        "offset", "missing_from", F.concat(F.lit("offset "), "offset", F.lit(": "), "problem").alias("problem")
    )
    others = published.where("problem is not null").select(
        "log_offset", F.lit(None).cast("long"),
        F.concat(F.lit(f"{OUTCOMES_TOPIC} offset "), "log_offset", F.lit(": "), "problem"),
    )  # fmt: skip
    return list(own.unionAll(others).orderBy("offset").limit(PROBLEMS_SHOWN_MAX).collect())


def two_masters(lake: Lake) -> list[str]:
    """Epochs in which more than one broker said that it is master."""
    columns = ["broker_name", "master_epoch", "broker_id", "role"]
    claimed: dict[tuple[str, int], set[int]] = {}
    for row in read(lake, BY_NAME["silver/role_changed"], columns=columns).to_pylist():
        if row["role"].upper() == MASTER_ROLE:
            claimed.setdefault((row["broker_name"], row["master_epoch"]), set()).add(row["broker_id"])
    return [
        f"{name}: brokers {sorted(ids)} were masters in epoch {epoch}"
        for (name, epoch), ids in sorted(claimed.items())
        if len(ids) > 1
    ]


def _range(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def verdict_text(verdict: Mapping[str, Any]) -> str:
    """The text of a verdict that was turned into a dict."""
    values = {name: verdict[name] for name in Verdict.__dataclass_fields__}
    return Verdict(**values).text()
