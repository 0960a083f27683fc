"""Create the topics of the log in a local Kafka, as safe as its number of nodes allows.

A foreign Kafka's topics are its operator's to make: controllers check them at start and say what is
missing. Whether it answers at all is asked here first, so that a wrong address is reported at once
and not by a controller that gave up.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from events import topics
from events.producer import LOG_CLIENT_SETTINGS
from infra.kafka import server
from infra.problems import Problem
from processors.log import topics as topic_check

REACH_TIMEOUT_S = 10.0


def wanted(nodes: int) -> list[NewTopic]:
    """Every topic with one replica per node."""
    return topic_check.wanted(topics.TOPICS, nodes)


def create(kafka: Mapping[str, str], nodes: int) -> list[str]:
    """Create what is missing, mend what an older release created; gives the names. Problem when
    Kafka does not answer.
    """
    settings = {key: value for key, value in kafka.items() if key != "bootstrap.servers"}
    try:
        created = server.create_topics(kafka["bootstrap.servers"], wanted(nodes), settings)
        topic_check.flush_every_command(AdminClient({**LOG_CLIENT_SETTINGS, **kafka}))
        return created
    except topic_check.TopicsUnfit as error:
        raise Problem(
            str(error), "Start the cluster again; if it stays so, look into Kafka's log."
        ) from error
    except KafkaException as error:
        raise _unreachable(kafka, error) from error


def require_reachable(kafka: Mapping[str, str], timeout_s: float = REACH_TIMEOUT_S) -> None:
    """Problem when no node of a foreign Kafka answers, or its settings are none."""
    try:
        AdminClient({"log_level": 2, **kafka}).list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise _unreachable(kafka, error) from error


def _unreachable(kafka: Mapping[str, str], error: KafkaException) -> Problem:
    return Problem(
        f"Kafka not reachable at {kafka['bootstrap.servers']}: {error.args[0].str()}",
        "Check that it runs and that the address and the other settings are right.",
    )
