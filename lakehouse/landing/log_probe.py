"""Questions to the log that Spark does not answer.

Responsible for waiting until the topics are there, for learning whose log it is, and for seeing
before anything is landed that the log is the one these tables were made from.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from events import codec
from events.commands import ClusterFormed
from events.envelope import CLUSTER_ID_PATTERN
from events.topics import COMMANDS_TOPIC, KEPT_FOR_EVER
from lakehouse.errors import LakehouseError, LandingGap
from lakehouse.tables.high_water import HighWater, Partition

ASK_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 20.0
POLL_S = 0.25
NO_CLUSTER = "this is not the log of a cluster from its beginning"


@dataclass(frozen=True, slots=True)
class LogEnds:
    """First offset and end offset (exclusive) of a partition."""

    first: int
    end: int


def missing_topics(kafka: Mapping[str, str], topics: tuple[str, ...]) -> tuple[str, ...]:
    """The topics that do not exist. Raises `LakehouseError` when Kafka does not answer."""
    try:
        known = AdminClient(dict(kafka)).list_topics(timeout=ASK_TIMEOUT_S).topics
    except KafkaException as error:
        servers = kafka.get("bootstrap.servers")
        raise LakehouseError(f"Kafka at {servers} is not reachable: {error}") from error
    return tuple(name for name in topics if name not in known)


def wait_for_topics(
    kafka: Mapping[str, str],
    topics: tuple[str, ...],
    *,
    stopped: Callable[[], bool],
    tell: Callable[[str], None],
) -> None:
    """Return when the topics exist or `stopped()`; says now and then what it waits for."""
    told = ""
    while not stopped():
        try:
            missing = missing_topics(kafka, topics)
            waits_for = f"topics {', '.join(missing)}" if missing else ""
        except LakehouseError as error:
            waits_for = str(error)
        if not waits_for:
            return
        if waits_for != told:
            told = waits_for
            tell(f"waiting: {waits_for}")
        time.sleep(POLL_S)


def wait_for_cluster(
    kafka: Mapping[str, str],
    wanted: str | None,
    *,
    stopped: Callable[[], bool],
    tell: Callable[[str], None],
    may_be_unformed: bool = False,
) -> str | None:
    """The cluster whose log it is, as record 0 of the commands says; waits for that record, unless
    it `may_be_unformed`: the log is the `wanted` one's as long as there are no commands.

    None when `stopped()` first. A log that has lost its beginning is that of the `wanted` one,
    unless its first record says otherwise. Raises `LakehouseError` when it is not the `wanted` one,
    and when record 0 forms no cluster.
    """
    told = False
    commands = (COMMANDS_TOPIC, 0)
    while not stopped():
        ends = log_ends(kafka, (COMMANDS_TOPIC,)).get(commands, LogEnds(0, 0))
        if ends.end > ends.first:
            first = value_at(kafka, COMMANDS_TOPIC, ends.first)
            found = cluster_of(first) if ends.first == 0 else _stated(first, ends.first, wanted)
            if wanted is not None and found != wanted:
                raise LakehouseError(
                    f"{COMMANDS_TOPIC} is the log of cluster {found}, but cluster_id {wanted} is "
                    "configured: correct one of the two"
                )
            return found
        if may_be_unformed and wanted is not None and not ends.end:
            return wanted
        if not told:
            told = True
            tell("waiting: no controller has formed a cluster yet")
        time.sleep(POLL_S)
    return None


def cluster_of(value: bytes | None) -> str:
    """The cluster that record 0 of the commands forms. Raises `LakehouseError` when it forms
    none.
    """
    try:
        record = codec.decode(value or b"")
    except codec.CodecError as error:
        raise LakehouseError(
            f"record 0 of {COMMANDS_TOPIC} cannot be read ({error}): {NO_CLUSTER}"
        ) from error
    if not isinstance(record, ClusterFormed):
        raise LakehouseError(
            f"record 0 of {COMMANDS_TOPIC} is a {type(record).__name__}: {NO_CLUSTER}"
        )
    return _allowed(record.envelope.cluster_id)


def _stated(value: bytes | None, offset: int, wanted: str | None) -> str:
    """Whose log it is by a later record; what cannot be read says nothing. Raises `LakehouseError`
    where nothing says it.
    """
    if wanted is None:
        raise LakehouseError(
            f"{COMMANDS_TOPIC} begins at record {offset}, the log has lost what says whose it is: "
            "name the cluster with cluster_id"
        )
    try:
        record = codec.decode(value or b"")
    except codec.CodecError:
        return wanted
    envelope = getattr(record, "envelope", None)
    return wanted if envelope is None else str(envelope.cluster_id)


def _allowed(cluster_id: str) -> str:
    """The id, as it is. Raises `LakehouseError` for one that no controller takes: names of folders
    are made of it, and two libraries spell others differently.
    """
    if not re.fullmatch(CLUSTER_ID_PATTERN, cluster_id):
        raise LakehouseError(
            f"record 0 of {COMMANDS_TOPIC} forms a cluster {cluster_id[:80]!r}: a cluster's id has "
            "1 to 64 of A-Z a-z 0-9 . _ -"
        )
    return cluster_id


def log_ends(kafka: Mapping[str, str], topics: tuple[str, ...]) -> dict[tuple[str, int], LogEnds]:
    """First and end offset of every partition of the topics."""
    consumer = _reader(kafka)
    try:
        found: dict[tuple[str, int], LogEnds] = {}
        known = consumer.list_topics(timeout=ASK_TIMEOUT_S).topics
        for topic in topics:
            for number in known[topic].partitions if topic in known else ():
                asked = TopicPartition(topic, number)
                found[topic, number] = LogEnds(
                    *consumer.get_watermark_offsets(asked, timeout=ASK_TIMEOUT_S)
                )
        return found
    except KafkaException as error:
        raise LakehouseError(f"Kafka does not tell its offsets: {error}") from error
    finally:
        consumer.close()


def value_at(kafka: Mapping[str, str], topic: str, offset: int) -> bytes | None:
    """Value bytes of one record of partition 0. Raises `LakehouseError` if none comes."""
    return values_at(kafka, {(topic, 0): offset})[topic, 0]


def values_at(
    kafka: Mapping[str, str], places: Mapping[Partition, int]
) -> dict[Partition, bytes | None]:
    """Value bytes of one record of each partition; None where the log has none at that offset.
    Raises `LakehouseError` if one does not come.
    """
    consumer = _reader(kafka)
    found: dict[Partition, bytes | None] = {}
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in places.items()])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while len(found) < len(places):
            if time.monotonic() > deadline:
                (topic, number), offset = next(
                    one for one in sorted(places.items()) if one[0] not in found
                )
                raise LakehouseError(
                    f"record {offset} of {topic}-{number} could not be read from Kafka"
                )
            message = consumer.poll(0.5)
            if message is None:
                continue
            place, at = (str(message.topic()), int(message.partition() or 0)), message.offset()
            error = message.error()
            if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
                found.setdefault(place, None)  # Retention has just taken it.
            elif error is None and at is not None and at >= places[place]:
                found.setdefault(place, message.value() if at == places[place] else None)
        return found
    finally:
        consumer.close()


def check_same_log(
    kafka: Mapping[str, str],
    mark: HighWater,
    landed_value: Callable[[Partition, int], bytes | None],
) -> None:
    """Refuse to land from a log that is not the one the tables were made from.

    Without this a log that was made anew would look like a replay, and its records would be
    dropped as known. `mark` is bronze's; `landed_value(partition, offset)` is a landed record.
    Compared are the last landed record of every partition, and the first one that the log still
    holds. Raises `LandingGap`.
    """
    ends = log_ends(kafka, tuple(sorted({topic for topic, _ in mark.marks})))
    for (topic, number), last in sorted(mark.marks.items()):
        end = ends.get((topic, number), LogEnds(0, 0)).end
        if last >= end:
            raise LandingGap(
                f"{topic}-{number} ends at {end} but record {last} has landed: this log is "
                "another one or has lost its end. Keep these tables and land into a new folder"
            )
    held = {place: last for place, last in mark.marks.items() if ends[place].first <= last}
    for asked in ({place: ends[place].first for place in held}, held):
        for place, value in values_at(kafka, asked).items():
            landed = landed_value(place, asked[place])
            if value == landed:
                continue
            # Elsewhere retention takes records, and landing may have begun behind the first one.
            if place[0] in KEPT_FOR_EVER or (value is not None and landed is not None):
                topic, number = place
                raise LandingGap(
                    f"{topic}-{number} holds another record at offset {asked[place]} than the "
                    "one that has landed: this is another log. Keep these tables and land into "
                    "a new folder"
                )


def _reader(kafka: Mapping[str, str]) -> Consumer:
    return Consumer(
        {
            **kafka,
            "group.id": "regent-landing-probe",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "socket.timeout.ms": 5000,
        }
    )
