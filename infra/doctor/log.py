"""Kafka as Regent needs it: reachable, the topics with every setting that safety rests on, and its
newest records' time.
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition, libversion
from confluent_kafka.admin import AdminClient, ClusterMetadata

from events.producer import LOG_CLIENT_SETTINGS
from events.topics import (
    BROKER_EVENTS,
    COMMANDS,
    COMMANDS_TOPIC,
    OUTCOMES,
    PRODUCTION_REPLICATION_MIN,
    TOPICS,
    WITHOUT_CONTROLLERS,
    TopicSpec,
)
from infra import waiting
from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, warn, well
from processors.log import topics as topic_check
from processors.log.health import too_short
from processors.log.reader import LogReader, LogUnreachable
from processors.log.start_notes import NOTES_FILE, StartNotes

ASK_TIMEOUT_S = 5.0
WAY_OUT_OF_LOSS = (
    "Stop all controllers and restore the log (--from-delta TABLES where tables hold more, else "
    "--from-log); without --dry-run it is done:"
)
NTP = "sudo timedatectl set-ntp true"
AHEAD_MS = 2_000
"""A record from the future: more than any clock that is kept should be off."""
_SAID = re.compile(", set it|: set it")


@dataclass(frozen=True, slots=True)
class Wish:
    """How safe the topics have to be. `few_copies`: fewer than three are as wished; `self_made`:
    controllers make what is missing; `accept_unflushed`: see OPERATING; `there`: topics without
    which something waits; `fit`: those that are written to, so that settings matter.
    """

    few_copies: bool = False
    self_made: bool = False
    accept_unflushed: bool = False
    there: tuple[TopicSpec, ...] = TOPICS
    fit: tuple[TopicSpec, ...] = TOPICS


REPORTS = Wish(there=WITHOUT_CONTROLLERS, fit=WITHOUT_CONTROLLERS)
"""Of brokers and name servers that no controller speaks to."""


def check(
    kafka: Mapping[str, str], wish: Wish, folders: Sequence[Path], commands: Commands
) -> list[Finding]:
    """All of it; the rest is left out when Kafka does not answer. `folders`: those of controllers
    tell how far they were.
    """
    where = kafka.get("bootstrap.servers", "")
    if not where:
        return [well("kafka", "the configuration names no Kafka, so it is not looked at")]
    try:
        admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})
        with waiting.told(f"waiting for Kafka at {where}, {ASK_TIMEOUT_S:g} s at most"):
            cluster = admin.list_topics(timeout=ASK_TIMEOUT_S)
        nodes = well(
            "kafka",
            f"{len(cluster.brokers)} node(s) at {where}, cluster {cluster.cluster_id}, client "
            f"librdkafka {libversion()[0]}",
        )
        return [
            nodes,
            *_topics(admin, cluster, where, wish, commands),
            *_times(kafka, cluster, wish),
            *(lost(kafka, folders, commands) if COMMANDS_TOPIC in cluster.topics else []),
        ]
    except KafkaException as error:
        text = error.args[0].str() if error.args and hasattr(error.args[0], "str") else str(error)
        return [
            fail(
                "kafka",
                f"{where} is not reachable: {text}",
                "Start it, or correct bootstrap.servers and the security settings. It is back when "
                "this says so:",
                commands.topics("check"),
            )
        ]
    except topic_check.TopicsUnfit as error:
        way_out = "Let the user of [kafka] describe configurations, then look again:"
        return [fail("kafka", str(error), way_out, commands.topics("check"))]


def topics(kafka: Mapping[str, str], wish: Wish, commands: Commands) -> list[Finding]:
    """The topics alone. KafkaException, processors.log.topics.TopicsUnfit."""
    admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})
    cluster = admin.list_topics(timeout=ASK_TIMEOUT_S)
    return _topics(admin, cluster, kafka["bootstrap.servers"], wish, commands)


def _topics(
    admin: AdminClient, cluster: ClusterMetadata, where: str, wish: Wish, commands: Commands
) -> list[Finding]:
    findings: list[Finding] = []
    there = [spec for spec in wish.there if spec.name in cluster.topics]
    asked = [spec.name for spec in there if spec in wish.fit]
    reported = topic_check.settings_of(admin, asked) if asked else {}
    for spec in wish.there:
        if spec in there and spec not in wish.fit:
            findings.append(well("topics", f"{spec.name} is there, and nobody writes to it"))
        elif spec in there:
            findings += _topic(spec, reported[spec.name], cluster, where, wish, commands)
        elif wish.self_made:
            way_out = "The first controller that starts makes it; without waiting for one:"
            command = commands.topics("create", "--replication", str(_copies_possible(cluster)))
            findings.append(warn("topics", f"{spec.name} is not there", way_out, command))
        else:
            may_be_few = wish.few_copies or COMMANDS not in wish.fit
            few = ("--replication", str(_copies_possible(cluster))) if may_be_few else ()
            way_out, command = "Make it:", commands.topics("create", *few)
            findings.append(fail("topics", f"{spec.name} is not there", way_out, command))
    return findings


def _topic(
    spec: TopicSpec,
    reported: Mapping[str, str],
    cluster: ClusterMetadata,
    where: str,
    wish: Wish,
    commands: Commands,
) -> list[Finding]:
    topic = cluster.topics[spec.name]
    few_copies = wish.few_copies or spec is BROKER_EVENTS
    problems = topic_check.unfit(spec, topic, reported, few_copies, wish.accept_unflushed)
    findings = [
        fail(
            "topics",
            f"{spec.name}: {_SAID.split(problem)[0]}",
            *_way_out(problem, spec, cluster, where, commands),
        )
        for problem in problems
    ]
    if spec is COMMANDS and wish.accept_unflushed and not topic_check.is_flushed(reported):
        way_out = "Set it as soon as this Kafka allows it:"
        findings.append(warn("topics", topic_check.UNFLUSHED, way_out, commands.topics("repair")))
    if not problems:
        text = (
            f"{spec.name}: {len(topic.partitions)} partition(s), {_copies(cluster, spec.name)}, "
            "settings as needed"
        )
        findings.append(well("topics", text))
    return findings


def _copies_possible(cluster: ClusterMetadata) -> int:
    return min(len(cluster.brokers), PRODUCTION_REPLICATION_MIN)


def _copies(cluster: ClusterMetadata, name: str) -> str:
    partitions = cluster.topics[name].partitions.values()
    copies = min(len(one.replicas) for one in partitions)
    behind = sum(len(one.isrs) < len(one.replicas) for one in partitions)
    return (
        f"{copies} {'copy' if copies == 1 else 'copies'} "
        f"each{f', {behind} not in sync' if behind else ''}"
    )


def _way_out(
    problem: str, spec: TopicSpec, cluster: ClusterMetadata, where: str, commands: Commands
) -> tuple[str, str]:
    """What to do, and the command."""
    if "partitions where" in problem:
        words = ("kafka-topics.sh", "--bootstrap-server", where, "--delete", "--topic", spec.name)
        anew = f"{shlex.join(words)} && {commands.topics('create')}"
        way_out = (
            "A log with several partitions has no order, and no controller starts on it: make the "
            "topic anew (what it holds goes with it):"
        )
        return way_out, anew
    if not problem.startswith("replication"):
        return "Set what is not as it has to be:", commands.topics("repair")
    if len(cluster.brokers) < PRODUCTION_REPLICATION_MIN:
        way_out = (
            f"This Kafka has {len(cluster.brokers)} node(s), a log that survives one needs "
            f"{PRODUCTION_REPLICATION_MIN}. For trying out, local_cluster = true takes it; the "
            "topics alone:"
        )
        return way_out, commands.topics("check", "--replication", str(len(cluster.brokers)))
    way_out = f"Give it {PRODUCTION_REPLICATION_MIN} copies with Kafka's own tool:"
    return way_out, more_copies(spec.name, cluster, where)


def more_copies(topic: str, cluster: ClusterMetadata, where: str) -> str:
    """Kafka's own command that gives each partition as many copies as a log needs."""
    nodes = sorted(cluster.brokers)
    placed = [
        {
            "topic": topic,
            "partition": number,
            "replicas": [*one.replicas, *(n for n in nodes if n not in one.replicas)][
                :PRODUCTION_REPLICATION_MIN
            ],
        }
        for number, one in sorted(cluster.topics[topic].partitions.items())
    ]
    file = f"{topic}.json"
    words = ("kafka-reassign-partitions.sh", "--bootstrap-server", where, "--execute")
    plan = json.dumps({"version": 1, "partitions": placed})
    return (
        f"echo {shlex.quote(plan)} > {file} && "
        f"{shlex.join((*words, '--reassignment-json-file', file))}"
    )


def _times(kafka: Mapping[str, str], cluster: ClusterMetadata, wish: Wish) -> list[Finding]:
    """The newest record's time against this machine's clock: the future means that a clock is
    wrong.
    """
    findings = []
    for spec in (COMMANDS, OUTCOMES):
        name = spec.name
        is_asked = name in cluster.topics and spec in wish.fit
        stamp = newest_ms(kafka, name) if is_asked else None
        if stamp is None:
            continue
        ahead_ms = stamp - time.time_ns() // 1_000_000
        if ahead_ms > AHEAD_MS:
            text = f"the newest record of {name} is from {ahead_ms / 1000:.1f} s in the future"
            way_out = (
                "Keep the clock of every machine by NTP: waiting is not affected, but the "
                "history's times are."
            )
            findings.append(warn("clocks", text, way_out, NTP))
        else:
            text = f"the newest record of {name} is {max(0, -ahead_ms) / 1000:.1f} s old"
            findings.append(well("clocks", text))
    return findings


def lost(kafka: Mapping[str, str], folders: Sequence[Path], commands: Commands) -> list[Finding]:
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
        text = f"how long {COMMANDS_TOPIC} is could not be learnt: {error}"
        return [warn("log", text, "Ask again:", commands.topics("check"))]
    finally:
        reader.close()
    ahead = {folder: applied for folder, applied in noted.items() if applied >= end}
    if not ahead:
        text = f"{COMMANDS_TOPIC} ends at offset {end}, no controller of this machine had applied "
        return [well("log", f"{text}more")]
    return [
        fail("log", f"{folder}: {too_short(end, applied + 1)}", WAY_OUT_OF_LOSS, commands.rebuild())
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
