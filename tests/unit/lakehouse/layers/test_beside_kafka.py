"""Every record that is not that of the log is named, and how far the log reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.invariants.lengths import AHEAD_MAX_MS
from lakehouse.layers import beside_kafka
from lakehouse.layers.beside_kafka import compare_kafka
from lakehouse.layers.difference import Compared
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake
from tests.support import tampered_lake
from tests.support.judged_history import sound_history
from tests.support.landed_log import BEGAN_MS, Record, command_records, land, outcome_records
from tests.support.mock_kafka import mock_kafka

RECORDS = sound_history().records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)
EVENTS: list[Record] = [(BROKER_EVENTS_TOPIC, 1, offset, b"e%d" % offset) for offset in range(5)]
LOG = [*COMMANDS, *OUTCOMES, *EVENTS]
END = len(COMMANDS)
NOW_MS = BEGAN_MS + 1_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[dict[str, str]]:
    """The log, each record taken a second after the one before."""
    with mock_kafka() as settings:
        producer = Producer(settings)
        for topic, partition, offset, value in LOG:
            at_ms = BEGAN_MS + 1_000 * offset
            producer.produce(topic, value, partition=partition, timestamp=at_ms)
        producer.flush()
        yield settings


def compared(lake: Lake, kafka: dict[str, str], now_ms: int = NOW_MS) -> Compared:
    return compare_kafka(BronzeFiles(lake), kafka, now_ms)


@pytest.mark.parametrize("at_once", [1, 4, 1_000])
def test_bronze_that_holds_the_log_is_said_so(
    lake: Lake, kafka: dict[str, str], monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(beside_kafka, "RECORDS_AT_ONCE", at_once)
    land(lake, LOG)
    found = compared(lake, kafka)
    assert found.findings == []
    assert found.notices == [f"Kafka: {len(LOG)} records of bronze are those of the log"]


LATER = datetime(2030, 1, 1, tzinfo=UTC)
ALTERATIONS: dict[str, tuple[str, int, Callable[[list[Any]], list[Any]], str]] = {
    "timestamp": (
        COMMANDS_TOPIC,
        0,
        lambda rows: [*rows[:3], rows[3] | {"timestamp": LATER}, *rows[4:]],
        "regent.commands-0 offset 3: timestamp is not what the log holds",
    ),
    "values": (
        BROKER_EVENTS_TOPIC,
        1,
        lambda rows: [rows[0], *(row | {"value": b"x"} for row in rows[1:3]), *rows[3:]],
        "regent.broker-events-1 offsets 1 to 2: value is not what the log holds",
    ),
    "key and type": (
        OUTCOMES_TOPIC,
        0,
        lambda rows: [rows[0] | {"key": b"k", "timestamp_type": 1}, *rows[1:]],
        "regent.outcomes-0 offset 0: timestamp_type, key is not what the log holds",
    ),
    "gone": (
        OUTCOMES_TOPIC,
        0,
        lambda rows: [*rows[:2], *rows[4:]],
        "regent.outcomes-0 offsets 2 to 3: the log holds them, bronze not",
    ),
    "invented": (
        BROKER_EVENTS_TOPIC,
        1,
        lambda rows: [*rows, rows[-1] | {"offset": 5}],
        "regent.broker-events-1 offset 5: the log ends at offset 4",
    ),
}


@pytest.mark.parametrize("what", ALTERATIONS)
def test_what_is_not_what_the_log_holds_is_named(
    lake: Lake, kafka: dict[str, str], what: str
) -> None:
    land(lake, LOG)
    topic, partition, change, expected = ALTERATIONS[what]
    tampered_lake.tamper(lake, topic, 0, change, partition)
    [found] = compared(lake, kafka).findings
    assert f"bronze/records, {expected}" in found.text()
    assert found.what_to_do


def test_what_the_log_holds_and_bronze_not_is_on_its_way_or_a_finding(
    lake: Lake, kafka: dict[str, str]
) -> None:
    land(lake, [*COMMANDS[:-2], *OUTCOMES[:-2], *EVENTS])
    found = compared(lake, kafka)
    assert not found.findings
    assert f"{COMMANDS_TOPIC}-0: 2 records are on their way" in found.notices
    late = compared(lake, kafka, BEGAN_MS + 1_000 * END + AHEAD_MAX_MS).findings
    assert [(one.topic, one.first, one.last) for one in late] == [
        (COMMANDS_TOPIC, END - 2, END - 1),
        (OUTCOMES_TOPIC, END - 2, END - 1),
    ]
    assert "landing stands still, or the end was taken away" in late[0].text()


def test_a_kafka_that_does_not_answer_is_an_error(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(lake, LOG)
    monkeypatch.setattr("lakehouse.landing.log_probe.ASK_TIMEOUT_S", 0.3)
    with pytest.raises(LakehouseError, match="Kafka"):
        compared(lake, {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"})
