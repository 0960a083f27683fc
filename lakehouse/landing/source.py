"""What the checkpoint of a streaming query says of its progress, and how Spark reaches the log.

Responsible for reading how far the last finished batch went (what lies below is in all tables of
the query), and for removing a checkpoint that the log has overtaken. A checkpoint that is gone or
not understood says nothing; the batches that then come again change nothing, and what the log no
longer holds is made from bronze (`refill`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from typing import Any

from lakehouse.spark_session import hadoop_files, java_errors
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import lake_at

CHECKPOINT_PARTS = ("commits", "offsets", "sources", "state", "metadata")
"""In this order they may go."""


def finished_offsets(place: str, spark: Any = None) -> dict[str, int]:
    """`topic-partition` -> next offset after the last finished batch; empty when unknown.

    A checkpoint in an object store is read by Spark; without a session it is unknown.
    """
    checkpoint = lake_at(place).folder
    try:
        if checkpoint is None:
            return {} if spark is None else _by_spark(spark, place)
        finished = [int(path.name) for path in checkpoint.glob("commits/*") if path.name.isdigit()]
        if not finished:
            return {}
        return _ends((checkpoint / "offsets" / str(max(finished))).read_text("utf-8"))
    except (OSError, ValueError, AttributeError, IndexError):
        return {}


def planned_offsets(place: str, batch_id: int) -> dict[Partition, int]:
    """Next offset behind a batch of the query, by what Spark wrote down before it began; empty when
    that is unknown, as in an object store.
    """
    checkpoint = lake_at(place).folder
    if checkpoint is None:
        return {}
    try:
        ends = _ends((checkpoint / "offsets" / str(batch_id)).read_text("utf-8"))
    except (OSError, ValueError, AttributeError, IndexError):
        return {}
    found = {}
    for name, end in ends.items():
        topic, _, number = name.rpartition("-")
        found[topic, int(number)] = end
    return found


def must_begin_anew(told: Mapping[str, int], begins: Mapping[Partition, int]) -> bool:
    """Whether a query cannot go on by what its checkpoint says: the log begins behind that, or
    nothing is finished and a batch may be planned that the log no longer holds.
    """
    return not told or any(
        first > told.get(f"{topic}-{number}", 0) for (topic, number), first in begins.items()
    )


def forget_checkpoint(place: str, spark: Any = None) -> None:
    """Remove what Spark keeps of a query: it then begins where it is told to. Finished batches go
    first, so that what a kill leaves behind says nothing. Raises OSError.
    """
    checkpoint = lake_at(place).folder
    for name in CHECKPOINT_PARTS:
        if checkpoint is None:
            files, path = hadoop_files(spark, f"{place}/{name}")
            files.delete(path, True)
        elif (checkpoint / name).is_dir():
            shutil.rmtree(checkpoint / name)
        else:
            (checkpoint / name).unlink(missing_ok=True)


def starting_offsets(at: Mapping[Partition, int]) -> str:
    """Where a query without a checkpoint begins, as Spark wants it."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(at.items()):
        topics.setdefault(topic, {})[str(number)] = offset
    return json.dumps(topics)


def _by_spark(spark: Any, place: str) -> dict[str, int]:
    try:
        files, commits = hadoop_files(spark, f"{place}/commits")
        names = [one.getPath().getName() for one in files.listStatus(commits)]
        last = max(int(name) for name in names if name.isdigit())
        return _ends(spark.read.text(f"{place}/offsets/{last}", wholetext=True).first()[0])
    except java_errors():  # There is none yet.
        return {}


def _ends(text: str) -> dict[str, int]:
    # Version, metadata, then one line per source; ours has one.
    topics = json.loads(text.splitlines()[-1])
    return {
        f"{topic}-{number}": int(end)
        for topic, partitions in topics.items()
        for number, end in partitions.items()
    }


SAME_NAME_PREFIXES = (
    "bootstrap.servers",
    "client.id",
    "client.dns.lookup",
    "security.protocol",
    "sasl.kerberos.service.name",
    "sasl.jaas.config",
    "sasl.mechanism",
    "ssl.truststore.",
    "ssl.keystore.",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)


def java_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that decide where and as whom to connect, as a Java client names them.

    Timeouts and queue sizes of librdkafka are left out: they have no counterpart.
    """
    java = {
        name: value
        for name, value in settings.items()
        if name.startswith(SAME_NAME_PREFIXES) and name != "sasl.mechanisms"
    }
    if "sasl.mechanisms" in settings:
        java.setdefault("sasl.mechanism", settings["sasl.mechanisms"])
    if "sasl.username" in settings:
        java.setdefault("sasl.jaas.config", _jaas(settings, java.get("sasl.mechanism", "PLAIN")))
    if "ssl.ca.location" in settings:
        java.setdefault("ssl.truststore.type", "PEM")
        java.setdefault("ssl.truststore.location", settings["ssl.ca.location"])
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        java["ssl.endpoint.identification.algorithm"] = ""
    return java


def spark_options(settings: Mapping[str, str]) -> dict[str, str]:
    """The same, as options of Spark's Kafka source."""
    return {f"kafka.{name}": value for name, value in java_settings(settings).items()}


def _jaas(settings: Mapping[str, str], mechanism: str) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    name = _quoted(settings["sasl.username"])
    password = _quoted(settings.get("sasl.password", ""))
    return (
        f"org.apache.kafka.common.security.{module} required username={name} password={password};"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
