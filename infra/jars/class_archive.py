"""The classes that Spark's Java process loads, laid out in one file: with it a start takes half of
the processor time (class data sharing, JEP 350).

Responsible for making that file, once for each environment and Java. Refuses to know who starts
Spark; `lakehouse.spark_session` uses the file where it is, and Java passes over one that does not
fit.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from infra.jars import store
from infra.jars.java import Java, find_java
from infra.problems import Problem
from lakehouse.errors import LakehouseError
from lakehouse.spark_session import (
    CLASS_ARCHIVE,
    NO_WORD_OF_ARCHIVES,
    SparkSettings,
    build_session,
    java_errors,
    stop_session,
)

ROWS = 1_000
NO_KAFKA = {
    "kafka.bootstrap.servers": "127.0.0.1:1",
    "kafka.default.api.timeout.ms": "500",
    "kafka.request.timeout.ms": "400",
    "subscribe": "nothing",
}
"""Nobody listens there: what asks a log is loaded all the same."""


def made_of(java: Java) -> str:
    """What an archive depends on besides the environment that it lies in."""
    version = (java.home / "release").read_bytes() if (java.home / "release").exists() else b""
    return f"{java.executable.resolve()} {version.hex()}"


def is_made(java: Java, archive: Path = CLASS_ARCHIVE) -> bool:
    """Whether it was made, or tried in vain, with this Java."""
    stamp = archive.with_suffix(".of")
    return stamp.exists() and stamp.read_text(encoding="utf-8") == made_of(java)


def make(java: Java, archive: Path = CLASS_ARCHIVE) -> bool:
    """Start Spark, let it work a little, and keep what it loaded. False when this Java makes none:
    a runtime without an archive of its own cannot.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(".part")
    with tempfile.TemporaryDirectory(prefix="regent-classes-") as folder:
        scratch = Path(folder)
        settings = SparkSettings(
            store.check("spark"),
            scratch / "spark",
            java.home,
            jvm_log=scratch / "spark.log",
            java_options=(f"-XX:ArchiveClassesAtExit={part}", *NO_WORD_OF_ARCHIVES),
        )
        spark = build_session(settings, "regent-classes")
        try:
            _work(spark, scratch)
        finally:
            stop_session(spark)
    found = part.exists()
    if found:
        part.replace(archive)
    archive.with_suffix(".of").write_text(made_of(java), encoding="utf-8")
    return found


def _work(spark: Any, scratch: Path) -> None:
    """What landing and proof do: a table written, read, merged and followed, a log asked for."""
    table, copy = f"file:{scratch}/table", f"file:{scratch}/copy"
    rows = spark.range(ROWS).selectExpr("id", "id % 7 AS part", "cast(id AS string) AS text")
    rows.write.format("delta").partitionBy("part").save(table)
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING (SELECT 1 AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET text = 'x'"
    )
    grouped = spark.read.format("delta").load(table).where("id > 5").groupBy("part").count()
    grouped.orderBy("part").toArrow()
    followed = spark.readStream.format("delta").load(table).writeStream.format("delta")
    followed = followed.option("checkpointLocation", f"{scratch}/checkpoint")
    followed.trigger(availableNow=True).start(copy).awaitTermination()
    with suppress(*java_errors()):
        log = spark.read.format("kafka").options(**NO_KAFKA)
        log.load().count()


def main() -> int:
    """`python -m infra.jars.class_archive`: what `make classes` runs. Without an archive all works,
    slower.
    """
    try:
        java = find_java()
        if is_made(java):
            return 0
        print(f"java: laying out Spark's classes for {java}, once (half a minute) …", flush=True)
        text = "done" if make(java) else "this Java keeps none; Spark starts without, slower"
    except (Problem, LakehouseError, OSError) as error:
        text = f"not done: {error}; Spark starts without, slower"
    print(f"java: Spark's classes: {text}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
