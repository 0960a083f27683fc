"""A generated history goes onto a log whole, and in the order of its commands."""

from confluent_kafka import Consumer, TopicPartition

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from tests.bench.history_log import HistoryLog
from tests.support.generated_history import generate
from tests.support.mock_kafka import mock_kafka

HISTORY = generate(300, 2, seed=9)


def values(kafka: dict[str, str], topic: str, partition: int, count: int) -> list[bytes]:
    consumer = Consumer({**kafka, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    while len(found) < count and (message := consumer.poll(20)) is not None:
        found.append(message.value())
    consumer.close()
    return found


def test_what_is_written_at_once_and_at_a_rate_is_the_history() -> None:
    with mock_kafka() as kafka:
        log = HistoryLog(kafka, HISTORY)
        log.write(200)
        handed = log.write_at(2_000, 100)
        assert log.written == 300 and sorted(handed) == list(range(200, 300))
        assert list(handed.values()) == sorted(handed.values())
        assert values(kafka, COMMANDS_TOPIC, 0, 300) == list(HISTORY.commands)
        assert values(kafka, OUTCOMES_TOPIC, 0, len(HISTORY.outcomes)) == list(HISTORY.outcomes)
        told = values(kafka, BROKER_EVENTS_TOPIC, 0, 50)
        assert told == list(HISTORY.events[0])[: len(told)] and len(told) == 50


def test_records_can_bear_the_times_of_the_history() -> None:
    with mock_kafka() as kafka:
        HistoryLog(kafka, HISTORY, own_times=True).write(300)
        consumer = Consumer({**kafka, "group.id": "test", "enable.auto.commit": False})
        consumer.assign([TopicPartition(COMMANDS_TOPIC, 0, 0)])
        found = [
            message.timestamp()[1] for _ in range(300) if (message := consumer.poll(20)) is not None
        ]
        consumer.close()
        assert found == list(HISTORY.commands_ms)
