"""Appending from a loop: order, reports, bounds, the unknown (design D5)."""

import asyncio

import pytest
from confluent_kafka import Consumer, TopicPartition

from events import producer
from events.producer import LogProducer
from tests.support.brokers import until
from tests.support.mock_kafka import mock_kafka

TOPIC = "regent.test"
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def read(kafka: dict[str, str], count: int) -> list[bytes]:
    consumer = Consumer({**kafka, "group.id": "test"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[bytes] = []
    while len(found) < count:
        found += [one.value() for one in consumer.consume(count, timeout=1) if one.error() is None]
    consumer.close()
    return found


async def test_reports_come_back_into_the_loop_in_order_with_offsets() -> None:
    with mock_kafka() as kafka:
        made = LogProducer(kafka, TOPIC, asyncio.get_running_loop())
        await made.warm_up()
        reports: list[int | None] = []
        done = asyncio.Event()

        def report(offset: int | None) -> None:
            reports.append(offset)
            if len(reports) == 100:
                done.set()

        for number in range(100):
            made.append(b"%d" % number, report)
        await done.wait()
        assert reports == list(range(100))
        assert made.in_flight == 0
        assert read(kafka, 100) == [b"%d" % number for number in range(100)]
        await made.close()


async def test_what_cannot_be_sent_is_reported_as_unknown_after_a_stall() -> None:
    made = LogProducer(NOWHERE, TOPIC, asyncio.get_running_loop(), stall_ms=50)
    answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
    made.append(b"x", answer.set_result)
    assert await answer is None
    await made.close()


async def test_closing_reports_everything_that_is_still_open() -> None:
    made = LogProducer(NOWHERE, TOPIC, asyncio.get_running_loop())
    reports: list[int | None] = []
    for _ in range(5):
        made.append(b"x", reports.append)
    await made.close(timeout_s=0.05)
    assert reports == [None] * 5


async def test_what_is_in_flight_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "IN_FLIGHT_MAX", 2)
    made = LogProducer(NOWHERE, TOPIC, asyncio.get_running_loop())
    reports: list[int | None] = []
    for _ in range(3):
        made.append(b"x", reports.append)
    assert made.in_flight == 2
    await asyncio.sleep(0)
    assert reports == [None]
    await made.close(timeout_s=0.05)


async def test_a_record_larger_than_the_log_takes_is_unknown_and_harms_nobody_else() -> None:
    with mock_kafka() as kafka:
        made = LogProducer(kafka, TOPIC, asyncio.get_running_loop())
        loop = asyncio.get_running_loop()
        large: asyncio.Future[int | None] = loop.create_future()
        small: asyncio.Future[int | None] = loop.create_future()
        made.append(bytes(2_000_000), large.set_result)
        made.append(b"small", small.set_result)
        assert await large is None
        assert await small == 0
        await made.close()


async def test_a_report_that_goes_wrong_does_not_end_the_reporting() -> None:
    with mock_kafka() as kafka:
        loop, wrong = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, told: wrong.append(told["exception"]))
        made = LogProducer(kafka, TOPIC, loop)

        def fail(offset: int | None) -> None:
            raise KeyError(offset)

        made.append(b"first", fail)
        await until(lambda: wrong, "the report of the first")
        answer: asyncio.Future[int | None] = loop.create_future()
        made.append(b"second", answer.set_result)
        assert (await answer, [str(one) for one in wrong]) == (1, ["0"])
        await made.close()
