"""The classes that Spark's and Kafka's Java processes load, laid out in a file for each: with it a
start takes half of the processor time (class data sharing, JEP 350).

Responsible for making these files, once for each environment and Java. Refuses to know who starts
Spark or Kafka; `lakehouse.spark_session` and `infra.kafka.server` use the files where they are, and
Java passes over one that does not fit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import NewTopic

from infra.jars import store
from infra.jars.java import Java, find_java
from infra.kafka import server
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
TOPIC = "regent-classes"
ANSWER_S = 30.0
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


def is_made(java: Java, archive: Path) -> bool:
    """Whether it was made, or tried in vain, with this Java."""
    stamp = archive.with_suffix(".of")
    return stamp.exists() and stamp.read_text(encoding="utf-8") == made_of(java)


def make(java: Java, archive: Path, work: Callable[[Java, Path, str], None]) -> bool:
    """Let `work` start that Java in a scratch folder with the option that it gets, and keep what
    was loaded. False when this Java makes no archive: a runtime without one of its own cannot.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(".part")
    with tempfile.TemporaryDirectory(prefix="regent-classes-") as folder:
        work(java, Path(folder), f"-XX:ArchiveClassesAtExit={part}")
    found = part.exists()
    if found:
        part.replace(archive)
    archive.with_suffix(".of").write_text(made_of(java), encoding="utf-8")
    return found


def _spark(java: Java, scratch: Path, classes: str) -> None:
    """What landing and proof do: a table written, read, merged and followed, a log asked for."""
    settings = SparkSettings(
        store.check("spark"),
        scratch / "spark",
        java.home,
        jvm_log=scratch / "spark.log",
        java_options=(classes, *NO_WORD_OF_ARCHIVES),
    )
    spark = build_session(settings, "regent-classes")
    try:
        _work(spark, scratch)
    finally:
        stop_session(spark)


def _work(spark: Any, scratch: Path) -> None:
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


def _kafka(java: Java, scratch: Path, classes: str) -> None:
    """What a controller does: topics made, a transaction written and read."""
    with server.LocalKafka(scratch, classes=classes) as kafka:
        server.create_topics(kafka.bootstrap, [NewTopic(TOPIC, 1, 1)])
        there = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
        producer = Producer({**there, "transactional.id": TOPIC})
        producer.init_transactions(ANSWER_S)
        producer.begin_transaction()
        producer.produce(TOPIC, b"value")
        producer.commit_transaction(ANSWER_S)
        consumer = Consumer({**there, "group.id": TOPIC, "auto.offset.reset": "earliest"})
        consumer.subscribe([TOPIC])
        consumer.poll(ANSWER_S)
        consumer.close()


ARCHIVES: Mapping[str, tuple[Path, Callable[[Java, Path, str], None]]] = MappingProxyType(
    {"kafka": (server.CLASS_ARCHIVE, _kafka), "spark": (CLASS_ARCHIVE, _spark)}
)


def main(words: Sequence[str]) -> int:
    """`python -m infra.cluster.class_archive [kafka] [spark]`: what `make classes` runs. Without an
    archive all works, slower.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(ARCHIVES)}")
    for name in parser.parse_args(words).names or ARCHIVES:
        _lay_out(name, *ARCHIVES[name])
    return 0


def _lay_out(name: str, archive: Path, work: Callable[[Java, Path, str], None]) -> None:
    try:
        java = find_java()
        if is_made(java, archive):
            return
        print(f"java: laying out {name}'s classes for {java}, once …", flush=True)
        made = make(java, archive, work)
        text = "done" if made else f"this Java keeps none; {name} starts without, slower"
    except (Problem, LakehouseError, KafkaException, OSError) as error:
        text = f"not done: {error}; {name} starts without, slower"
    print(f"java: {name}'s classes: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
