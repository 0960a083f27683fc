"""Bronze beside the log in Kafka: how far both reach, and record by record whether they are the
same.

Reads the log once from the beginning, some thousand records at a time. Responsible for naming every
record that is not that of the log. Refuses to know what records mean.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from events.topics import TOPIC_NAMES
from lakehouse.errors import LakehouseError
from lakehouse.invariants.lengths import AHEAD_MAX_MS
from lakehouse.landing.log_probe import LogEnds, log_ends
from lakehouse.layers.difference import Compared, runs
from lakehouse.proof.finding import Finding
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.delta import milliseconds
from lakehouse.tables.high_water import Partition
from lakehouse.tables.specs import BRONZE

RECORDS_AT_ONCE = 5_000
STALLED_S = 20.0
POLL_S = 1.0
COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value")
WHAT_TO_DO = (
    "put the files back from a copy; without one keep these tables and land into a new folder: "
    "the log has them"
)
ANOTHER_LOG_TO_DO = (
    "see whether this is the Kafka that these tables were landed from, and whether it lost records"
)
NOT_LANDED_TO_DO = (
    "see whether the landing job runs ('regent status'); where it does, start it without its "
    "checkpoint folder: what was taken away lands again"
)


class Record(NamedTuple):
    """What the log gave, but for the offset."""

    timestamp_ms: int | None
    timestamp_type: int
    """0 set by the producer, 1 set by the log."""
    key: bytes | None
    value: bytes | None


def compare_kafka(
    files: BronzeFiles, kafka: Mapping[str, str], now_ms: int | None = None
) -> Compared:
    """All partitions that either has. Raises `LakehouseError` when Kafka does not answer."""
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    found = Compared()
    ends, landed = log_ends(kafka, TOPIC_NAMES), files.ends
    for place in sorted({*ends, *landed}):
        there, bronze = ends.get(place, LogEnds(0, 0)), landed.get(place, 0)
        if bronze > there.end:
            said = f"the log ends at offset {there.end - 1}: it is another one or lost its end"
            found.found([_finding(place, there.end, bronze - 1, said, ANOTHER_LOG_TO_DO)])
        first = int(files.offsets[place][0]) if place in landed else there.first
        if first < there.first and place in landed:
            lost = min(there.first, bronze) - first
            found.notices.append(
                f"{place[0]}-{place[1]}: {lost} records that landed are no longer in the log"
            )
        if there.end > max(there.first, bronze):
            found.take(_behind(kafka, place, max(there.first, bronze), there.end, now_ms))
        start, stop = max(first, there.first), min(bronze, there.end)
        if start < stop:
            found.take(_compared(files, kafka, place, start, stop))
    if not found.findings:
        found.notices.append(f"Kafka: {found.rows} records of bronze are those of the log")
    return found


def _behind(
    kafka: Mapping[str, str], place: Partition, first: int, end: int, now_ms: int
) -> Compared:
    """Records of the log that have not landed: new ones are on their way."""
    found = Compared()
    oldest = next(_records(kafka, place, first, end), None)
    at_ms = None if oldest is None else oldest[1].timestamp_ms
    if at_ms is not None and now_ms - at_ms > AHEAD_MAX_MS:
        age_s = (now_ms - at_ms) // 1000
        said = (
            f"the log holds them, for {age_s} s, and bronze does not: landing stands still, or "
            "the end was taken away"
        )
        found.found([_finding(place, first, end - 1, said, NOT_LANDED_TO_DO)])
    else:
        found.notices.append(f"{place[0]}-{place[1]}: {end - first} records are on their way")
    return found


def _compared(
    files: BronzeFiles, kafka: Mapping[str, str], place: Partition, first: int, end: int
) -> Compared:
    found = Compared()
    log = _records(kafka, place, first, end)
    ahead = next(log, None)
    for start in range(first, end, RECORDS_AT_ONCE):
        stop = min(start + RECORDS_AT_ONCE, end)
        held: dict[int, Record] = {}
        while ahead is not None and ahead[0] < stop:
            held[ahead[0]] = ahead[1]
            ahead = next(log, None)
        landed = _landed(files, place, start, stop)
        found.rows += len(landed)
        found.found(_differences(place, held, landed))
    return found


def _landed(files: BronzeFiles, place: Partition, first: int, end: int) -> dict[int, Record]:
    rows = files.rows(place, first, end, COLUMNS)
    records = zip(
        milliseconds(rows["timestamp"]),
        *(rows[name].to_pylist() for name in COLUMNS[2:]),
        strict=True,
    )
    return {
        offset: Record(*record)
        for offset, record in zip(rows["offset"].to_pylist(), records, strict=True)
    }


def _differences(
    place: Partition, held: Mapping[int, Record], landed: Mapping[int, Record]
) -> Iterator[Finding]:
    other: dict[str, list[int]] = {}
    for offset in sorted(held.keys() & landed.keys()):
        if held[offset] != landed[offset]:
            other.setdefault(_columns(held[offset], landed[offset]), []).append(offset)
    for columns, offsets in other.items():
        yield from _of(place, offsets, f"{columns} is not what the log holds")
    yield from _of(place, sorted(held.keys() - landed.keys()), "the log holds them, bronze not")
    yield from _of(
        place, sorted(landed.keys() - held.keys()), "bronze holds them, the log has no such record"
    )


def _columns(held: Record, landed: Record) -> str:
    return ", ".join(
        name.removesuffix("_ms")
        for name, one, other in zip(Record._fields, held, landed, strict=True)
        if one != other
    )


def _of(place: Partition, offsets: Sequence[int], said: str) -> Iterator[Finding]:
    return (_finding(place, first, last, said, WHAT_TO_DO) for first, last in runs(offsets))


def _finding(place: Partition, first: int, last: int, said: str, what_to_do: str) -> Finding:
    return Finding(BRONZE.name, *place, first, last, said, what_to_do)


def _records(
    kafka: Mapping[str, str], place: Partition, first: int, end: int
) -> Iterator[tuple[int, Record]]:
    """Offset and record from `first` up to, not including, `end`, as far as the log has them."""
    consumer = Consumer(
        {
            **kafka,
            "group.id": "regent-verify",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(*place, first)])
        heard = time.monotonic()
        while True:
            for message in consumer.consume(RECORDS_AT_ONCE, POLL_S):
                heard = time.monotonic()
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise LakehouseError(f"{place[0]}-{place[1]} cannot be read: {error.str()}")
                offset = message.offset()
                if offset is None or offset >= end:
                    return
                yield offset, _record(message)
                if offset == end - 1:
                    return
            if time.monotonic() - heard > STALLED_S:
                raise LakehouseError(
                    f"Kafka gave no record of {place[0]}-{place[1]} for {STALLED_S:g} s"
                )
    except KafkaException as error:
        raise LakehouseError(f"{place[0]}-{place[1]} cannot be read: {error}") from error
    finally:
        consumer.close()


def _record(message: Message) -> Record:
    kind, at_ms = message.timestamp()
    # librdkafka counts from 1, the log from 0, and 0 stands for a record without one.
    return Record(at_ms if kind else None, kind - 1, message.key(), message.value())
