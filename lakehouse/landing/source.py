"""What the checkpoint of a streaming query says of its progress.

Responsible for reading how far the last finished batch went, so that a job that starts with
nothing new to land knows how far it is. Nothing rests on it: a checkpoint that is gone or not
understood means 0, and the batches that then come again change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from lakehouse.tables.lake import lake_at


def finished_offsets(place: str) -> dict[str, int]:
    """`topic-partition` -> next offset after the last finished batch; empty when unknown, as in an
    object store.
    """
    checkpoint = lake_at(place).folder
    if checkpoint is None:
        return {}
    finished = [int(path.name) for path in checkpoint.glob("commits/*") if path.name.isdigit()]
    if not finished:
        return {}
    try:
        lines = (checkpoint / "offsets" / str(max(finished))).read_text("utf-8").splitlines()
        # Version, metadata, then one line per source; ours has one.
        topics = json.loads(lines[-1])
        return {
            f"{topic}-{number}": int(end)
            for topic, partitions in topics.items()
            for number, end in partitions.items()
        }
    except (OSError, ValueError, AttributeError, IndexError):
        return {}


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
