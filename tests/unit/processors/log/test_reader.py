"""Reading the log in bulk, and recognising one that is not whole or not ours (design S11)."""

import asyncio

import pytest
from confluent_kafka import KafkaError, KafkaException

from events.codec import COMMAND_FINGERPRINTS, encode
from events.commands import ChangeSettings, ClusterFormed
from events.envelope import Envelope
from events.producer import LogProducer
from processors.log import reader as log_reader
from processors.log.reader import (
    LogBroken,
    LogReader,
    LogUnreachable,
    check_bounds,
    check_first_record,
    newest_published,
)
from tests.support.mock_kafka import mock_kafka

TOPIC = "regent.test"
FORMED = encode(
    ClusterFormed(
        Envelope(b"f" * 16, "cluster", 0, "c1", 0, "empty_log"), 1, {}, COMMAND_FINGERPRINTS
    )
)


async def fill(kafka: dict[str, str], count: int) -> None:
    made = LogProducer(kafka, TOPIC, asyncio.get_running_loop())
    for number in range(count):
        made.append(b"%d" % number, lambda offset: None)
    await made.close(timeout_s=20)


async def test_records_are_handed_over_in_order_from_any_offset() -> None:
    with mock_kafka() as kafka:
        await fill(kafka, 50)
        reader = LogReader(kafka)
        first, end = reader.bounds(TOPIC, timeout_s=10)
        assert (first, end) == (0, 50)
        seen: list[tuple[int, bytes]] = []
        reader.read(TOPIC, 40, end, lambda offset, data: seen.append((offset, data)))
        assert seen == [(number, b"%d" % number) for number in range(40, 50)]
        assert reader.record(TOPIC, 3) == b"3"
        reader.read(TOPIC, 50, 50, lambda offset, data: pytest.fail("nothing is there"))
        reader.close()


async def test_the_start_offset_of_a_group_is_committed() -> None:
    with mock_kafka() as kafka:
        await fill(kafka, 5)
        reader = LogReader(kafka)
        reader.bounds(TOPIC, timeout_s=10)
        reader.commit_start("a-group", TOPIC, 3)
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**kafka, "group.id": "a-group"})
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=10)
        assert found.offset == 3
        consumer.close()
        reader.close()


def test_a_kafka_that_is_not_there_is_unreachable() -> None:
    reader = LogReader({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(LogUnreachable):
        reader.bounds(TOPIC, timeout_s=0.1)
    reader.close()


class ForgotAllAddresses:
    """A client as librdkafka leaves it after an answer that named no node. The real one cannot be
    brought there from outside.
    """

    closed = False

    def get_watermark_offsets(self, *_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def close(self) -> None:
        self.closed = True


async def test_a_client_that_says_for_ever_that_all_nodes_are_down_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_reader, "NEW_CLIENT_AFTER_S", 0.0)
    with mock_kafka() as kafka:
        await fill(kafka, 5)
        reader = LogReader(kafka)
        reader.close()
        dead = ForgotAllAddresses()
        reader._consumer = dead  # type: ignore[assignment]
        with pytest.raises(LogUnreachable, match="down"):
            reader.bounds(TOPIC)
        assert dead.closed
        assert reader.bounds(TOPIC, timeout_s=10) == (0, 5)
        reader.close()


@pytest.mark.parametrize(
    ("first", "end", "next_offset", "text"),
    [(3, 9, 0, "begins at offset 3"), (0, 4, 5, "ends at offset 4"), (0, 0, 1, "ends at offset 0")],
)
def test_a_cut_or_shortened_log_is_told_with_the_way_out(
    first: int, end: int, next_offset: int, text: str
) -> None:
    with pytest.raises(LogBroken, match=text) as caught:
        check_bounds(first, end, next_offset)
    assert "restore" in str(caught.value)


def test_a_log_as_long_as_the_fold_or_longer_is_fine() -> None:
    check_bounds(0, 5, 5)
    check_bounds(0, 0, 0)


def test_record_0_names_the_log() -> None:
    assert check_first_record(FORMED, "cluster", None) == b"f" * 16
    assert check_first_record(FORMED, "cluster", b"f" * 16) == b"f" * 16


@pytest.mark.parametrize(
    ("data", "cluster", "known", "text"),
    [
        (b"garbage", "cluster", None, "not a ClusterFormed"),
        (
            encode(ChangeSettings(Envelope(b"f" * 16, "cluster", 1, "c1", 0, ""), {})),
            "cluster",
            None,
            "not a ClusterFormed",
        ),
        (FORMED, "another", None, "belongs to the cluster 'cluster'"),
        (FORMED, "cluster", b"x" * 16, "made anew"),
    ],
)
def test_another_log_is_refused(data: bytes, cluster: str, known: bytes | None, text: str) -> None:
    with pytest.raises(LogBroken, match=text):
        check_first_record(data, cluster, known)


def test_unreadable_outcomes_at_the_end_are_passed_over() -> None:
    assert newest_published([b"garbage", FORMED]) == -1
    assert log_reader.hole("t", 3, 5).startswith("t has a hole")
