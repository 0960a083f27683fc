"""A topic's id: only a real Kafka has one (tests/integration); what cannot be learnt is no id."""

from processors.log.topic_identity import TopicIdentity


def test_a_kafka_that_does_not_answer_tells_no_id() -> None:
    assert TopicIdentity({"bootstrap.servers": "127.0.0.1:1"}).ask("t", timeout_s=0.1) is None
