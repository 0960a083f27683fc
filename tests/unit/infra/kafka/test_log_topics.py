import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from events import topics
from infra.kafka import log_topics, server
from infra.kafka.server import LocalKafka
from infra.problems import Problem
from processors.log.topics import settings_of
from tests.support.kafka_topics import delete_topics


@pytest.mark.parametrize(("nodes", "in_sync"), [(1, "1"), (3, "2")])
def test_topics_are_as_safe_as_the_number_of_nodes_allows(nodes: int, in_sync: str) -> None:
    made = {one.topic: one for one in log_topics.wanted(nodes)}
    assert made.keys() == {spec.name for spec in topics.TOPICS}
    for spec in topics.TOPICS:
        one = made[spec.name]
        assert one.replication_factor == nodes and one.num_partitions == spec.partitions
        assert one.config["min.insync.replicas"] == in_sync
        assert all(one.config[name] == value for name, value in spec.required.items())


def test_a_kafka_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(Problem, match="Kafka not reachable at 127.0.0.1:1"):
        log_topics.create({"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": "500"}, 1)


@pytest.mark.parametrize("settings", [{}, {"no.such.setting": "1"}])
def test_a_foreign_kafka_must_answer_and_its_settings_be_known(settings: dict[str, str]) -> None:
    with pytest.raises(Problem, match="Kafka not reachable at 127.0.0.1:1: .*Check"):
        log_topics.require_reachable(
            {"bootstrap.servers": "127.0.0.1:1", **settings}, timeout_s=0.5
        )


@pytest.mark.kafka
def test_what_an_older_release_created_is_mended(kafka: LocalKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    delete_topics(admin, {topics.COMMANDS_TOPIC}.__contains__)
    server.create_topics(kafka.bootstrap, [NewTopic(topics.COMMANDS_TOPIC, 1, 1)])
    assert topics.COMMANDS_TOPIC not in log_topics.create({"bootstrap.servers": kafka.bootstrap}, 1)
    assert (
        settings_of(admin, [topics.COMMANDS_TOPIC])[topics.COMMANDS_TOPIC]["flush.messages"] == "1"
    )
    delete_topics(admin, set(topics.TOPIC_NAMES).__contains__)
