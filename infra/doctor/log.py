"""Kafka as Regent needs it: reachable, the topics with every setting that safety rests on, and its
newest records' time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition, libversion
from confluent_kafka.admin import AdminClient, ClusterMetadata

from events.producer import LOG_CLIENT_SETTINGS
from events.topics import BROKER_EVENTS, COMMANDS, COMMANDS_TOPIC, OUTCOMES_TOPIC, TOPICS
from infra import waiting
from infra.doctor.findings import FAIL, OK, WARN, Finding
from processors.log import topics as topic_check
from processors.log.health import too_short
from processors.log.reader import LogReader, LogUnreachable
from processors.log.start_notes import NOTES_FILE, StartNotes

ASK_TIMEOUT_S = 5.0
WAY_OUT_OF_LOSS = (
    "Stop all controllers and restore the log: 'regent controller rebuild' (--from-delta, or "
    "--from-log where no tables hold more)."
)
AHEAD_MS = 2_000
"""A record from the future: more than any clock that is kept should be off."""
_SAID = re.compile(", set it|: set it")


def check(
    kafka: Mapping[str, str],
    local_cluster: bool,
    accept_unflushed: bool = False,
    folders: Sequence[Path] = (),
) -> list[Finding]:
    """All of it; the rest is left out when Kafka does not answer. `folders`: those of controllers
    tell how far they were.
    """
    where = kafka.get("bootstrap.servers", "")
    if not where:
        return [Finding("kafka", WARN, "the configuration names no Kafka, so it is not looked at")]
    try:
        admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})
        with waiting.told(f"waiting for Kafka at {where}, {ASK_TIMEOUT_S:g} s at most"):
            cluster = admin.list_topics(timeout=ASK_TIMEOUT_S)
        nodes = Finding(
            "kafka",
            OK,
            f"{len(cluster.brokers)} node(s) at {where}, cluster {cluster.cluster_id}, client "
            f"librdkafka {libversion()[0]}",
        )
        fit = _topics(
            admin,
            cluster,
            where,
            few_copies=local_cluster,
            self_made=local_cluster,
            accept_unflushed=accept_unflushed,
        )
        return [
            nodes,
            *fit,
            *_times(kafka, cluster),
            *(lost(kafka, folders) if COMMANDS_TOPIC in cluster.topics else []),
        ]
    except KafkaException as error:
        text = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
        return [
            Finding(
                "kafka",
                FAIL,
                f"{where} is not reachable: {text}",
                "Start it, or correct bootstrap.servers and the security settings.",
            )
        ]
    except topic_check.TopicsUnfit as error:
        return [
            Finding("kafka", FAIL, str(error), "Let the user of [kafka] describe configurations.")
        ]


def topics(kafka: Mapping[str, str], *, few_copies: bool) -> list[Finding]:
    """The topics alone; `few_copies`: fewer than three are as wished. KafkaException,
    processors.log.topics.TopicsUnfit.
    """
    admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})
    cluster = admin.list_topics(timeout=ASK_TIMEOUT_S)
    return _topics(admin, cluster, kafka["bootstrap.servers"], few_copies=few_copies)


def _topics(
    admin: AdminClient,
    cluster: ClusterMetadata,
    where: str,
    *,
    few_copies: bool,
    self_made: bool = False,
    accept_unflushed: bool = False,
) -> list[Finding]:
    findings = []
    there = [spec for spec in TOPICS if spec.name in cluster.topics]
    reported = topic_check.settings_of(admin, [spec.name for spec in there]) if there else {}
    for spec in TOPICS:
        if spec not in there:
            way_out = (
                "The first controller makes it."
                if self_made
                else f"regent topics create --kafka bootstrap.servers={where}"
            )
            findings.append(
                Finding("topics", WARN if self_made else FAIL, f"{spec.name} is not there", way_out)
            )
            continue
        problems = topic_check.unfit(
            spec,
            cluster.topics[spec.name],
            reported[spec.name],
            few_copies or spec is BROKER_EVENTS,
            accept_unflushed,
        )
        findings += [
            Finding(
                "topics",
                FAIL,
                f"{spec.name}: {_SAID.split(problem)[0]}",
                _way_out(spec.name, problem),
            )
            for problem in problems
        ]
        if (
            spec is COMMANDS
            and accept_unflushed
            and not topic_check.is_flushed(reported[spec.name])
        ):
            findings.append(
                Finding(
                    "topics", WARN, topic_check.UNFLUSHED, "Set it as soon as this Kafka allows it."
                )
            )
        if not problems:
            count = len(cluster.topics[spec.name].partitions)
            findings.append(
                Finding(
                    "topics",
                    OK,
                    f"{spec.name}: {count} partition(s), {_copies(cluster, spec.name)}, settings "
                    "as needed",
                )
            )
    return findings


def _copies(cluster: ClusterMetadata, name: str) -> str:
    partitions = cluster.topics[name].partitions.values()
    copies = min(len(one.replicas) for one in partitions)
    behind = sum(len(one.isrs) < len(one.replicas) for one in partitions)
    return (
        f"{copies} {'copy' if copies == 1 else 'copies'} "
        f"each{f', {behind} not in sync' if behind else ''}"
    )


def _way_out(topic: str, problem: str) -> str:
    if "partitions where" in problem:
        return (
            "A log with several partitions has no order: make the topic anew, before the first "
            "controller starts."
        )
    return f"kafka-configs --alter --entity-type topics --entity-name {topic}: {problem}."


def _times(kafka: Mapping[str, str], cluster: ClusterMetadata) -> list[Finding]:
    """The newest record's time against this machine's clock: the future means that a clock is
    wrong.
    """
    findings = []
    for name in (COMMANDS_TOPIC, OUTCOMES_TOPIC):
        stamp = newest_ms(kafka, name) if name in cluster.topics else None
        if stamp is None:
            continue
        ahead_ms = stamp - time.time_ns() // 1_000_000
        if ahead_ms > AHEAD_MS:
            text = f"the newest record of {name} is from {ahead_ms / 1000:.1f} s in the future"
            findings.append(
                Finding(
                    "clocks",
                    WARN,
                    text,
                    "Run NTP on every machine: waiting is not affected, but the history's "
                    "times are.",
                )
            )
        else:
            findings.append(
                Finding(
                    "clocks",
                    OK,
                    f"the newest record of {name} is {max(0, -ahead_ms) / 1000:.1f} s old",
                )
            )
    return findings


def lost(kafka: Mapping[str, str], folders: Sequence[Path]) -> list[Finding]:
    """Controllers that had applied more than the log holds: it lost decisions (design S11)."""
    noted = {
        folder: StartNotes(folder).applied_offset()
        for folder in folders
        if (folder / NOTES_FILE).is_file()
    }
    if max(noted.values(), default=-1) < 0:
        return []
    reader = LogReader(kafka)
    try:
        _, end = reader.bounds(COMMANDS_TOPIC, ASK_TIMEOUT_S)
    except LogUnreachable as error:
        return [Finding("log", WARN, f"how long it is could not be learnt: {error}", "Ask again.")]
    finally:
        reader.close()
    ahead = {folder: applied for folder, applied in noted.items() if applied >= end}
    if not ahead:
        return [
            Finding(
                "log",
                OK,
                f"{COMMANDS_TOPIC} ends at offset {end}, no controller of this machine had applied "
                "more",
            )
        ]
    return [
        Finding("log", FAIL, f"{folder}: {too_short(end, applied + 1)}", WAY_OUT_OF_LOSS)
        for folder, applied in ahead.items()
    ]


def newest_ms(kafka: Mapping[str, str], topic: str) -> int | None:
    """When the last record of partition 0 was written; None when there is none or it could not be
    read in time.
    """
    consumer = Consumer(
        {**LOG_CLIENT_SETTINGS, **kafka, "group.id": "regent.doctor", ("enable.auto.commit"): False}
    )
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=ASK_TIMEOUT_S)
        if end <= first:
            return None
        consumer.assign([TopicPartition(topic, 0, end - 1)])
        record = consumer.poll(ASK_TIMEOUT_S)
        return None if record is None or record.error() else int(record.timestamp()[1])
    finally:
        consumer.close()
