"""Landed records into a topic, on a mock Kafka (making the topic needs a real one:
tests/integration).
"""

from dataclasses import dataclass

import pytest
from confluent_kafka import Producer

from infra.kafka.topic_restore import FreshTopic
from infra.problems import Problem
from tests.support.mock_kafka import mock_kafka


@dataclass(frozen=True)
class Record:
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


RECORDS = [Record(n, 1_700_000_000_000 + n, None, b"%d" % n) for n in range(1_200)]


def test_every_record_gets_the_offset_it_had_and_can_be_read_back() -> None:
    shown: list[int] = []
    with mock_kafka() as kafka:
        fresh = FreshTopic(kafka, "restored")
        assert not fresh.require_fresh()
        assert fresh.write(RECORDS, shown.append) == len(RECORDS)
        seen: list[tuple[int, bytes]] = []
        fresh.read(lambda offset, data: seen.append((offset, data)), len(RECORDS))
        with pytest.raises(Problem, match="does not hold the 7 records"):
            fresh.read(lambda offset, data: None, 7)
        with pytest.raises(Problem, match="not fresh: its offsets run from 0 to 1200"):
            fresh.require_fresh()
    assert seen == [(one.offset, one.value) for one in RECORDS] and shown == [500, 1_000]


def test_a_stranger_who_writes_meanwhile_ends_it() -> None:
    with mock_kafka() as kafka:
        stranger = Producer(kafka)
        stranger.produce("restored", b"x", partition=0)
        stranger.flush(10)
        with pytest.raises(Problem, match="got offset 1: somebody else writes there"):
            FreshTopic(kafka, "restored").write(RECORDS[:3], lambda done: None)


def test_a_kafka_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.kafka.topic_restore.ASK_TIMEOUT_S", 0.1)
    with pytest.raises(Problem, match="127.0.0.1:1 is not reachable"):
        FreshTopic({"bootstrap.servers": "127.0.0.1:1"}, "restored").require_fresh()
