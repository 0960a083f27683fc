"""Facts of a controller on their way to Kafka."""

from confluent_kafka import Consumer

from events.broker_events import BrokerEventHeader, HeartbeatGap
from events.codec import decode
from events.topics import BROKER_EVENTS_TOPIC
from processors.log.facts import FactReporter
from tests.support.mock_kafka import mock_kafka


def fact(name: str = "broker-a") -> HeartbeatGap:
    return HeartbeatGap(
        BrokerEventHeader(bytes(16), "regent", name, -1, "c1", 1, 0), 2, 5_000, 10_000, False, False
    )


def test_a_fact_arrives_under_the_name_of_its_set() -> None:
    with mock_kafka() as kafka:
        reporter = FactReporter(kafka)
        reporter.report(fact())
        reporter.close()
        consumer = Consumer({**kafka, "group.id": "test", "auto.offset.reset": "earliest"})
        consumer.subscribe([BROKER_EVENTS_TOPIC])
        message = consumer.poll(20)
        consumer.close()
    assert message is not None and message.error() is None
    assert (
        message.key() == b"broker-a" and decode(message.value()) == fact() and reporter.dropped == 0
    )


def test_what_cannot_be_sent_is_dropped_and_counted_and_stops_nobody() -> None:
    reporter = FactReporter(
        {"bootstrap.servers": "127.0.0.1:1", ("queue.buffering.max.kbytes"): "not a number"}
    )
    reporter.report(fact())
    reporter.report(fact("\ud800"))
    reporter.close()
    assert reporter.dropped == 2


def test_one_that_told_nothing_ends_at_once() -> None:
    FactReporter({"bootstrap.servers": "127.0.0.1:1"}).close()
