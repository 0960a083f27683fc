"""Topics of a Kafka that tests share one after the other.

Responsible for their end, and for a node that lives when the next ones ask for it. Refuses to know
what topics hold.
"""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from infra.kafka.server import LocalKafka, wait_ready
from tests.support.local_cluster import wait_until

ANSWER_S = 60.0


def delete_topics(admin: AdminClient, chosen: Callable[[str], bool]) -> None:
    """Delete the chosen ones of those that are there; return when they are gone."""

    def present() -> list[str]:
        return [name for name in admin.list_topics(timeout=ANSWER_S).topics if chosen(name)]

    names = present()
    for future in admin.delete_topics(names).values() if names else ():
        future.result(ANSWER_S)
    wait_until(lambda: not present(), "the topics are gone")


def delete_records(admin: AdminClient, topic: str, below: int) -> None:
    """Delete what partition 0 of a topic holds below that offset. Of a topic that was made anew a
    client may know for a moment only that the former one is gone.
    """

    def deleted() -> bool:
        (future,) = admin.delete_records([TopicPartition(topic, 0, below)]).values()
        try:
            future.result(ANSWER_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._NOENT:
                raise
            return False
        return True

    wait_until(deleted, f"records of {topic} below {below} are deleted")


def emptied(kafka: LocalKafka) -> LocalKafka:
    """The same node, running, with no topic but Kafka's own: as good as a new one, and there at
    once.
    """
    [node] = kafka.nodes
    if kafka.children[node.node_id].poll() is not None:
        kafka.start_node(node.node_id)
    wait_ready(kafka.bootstrap, 1)
    delete_topics(
        AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0}),
        lambda name: not name.startswith("__"),
    )
    return kafka
