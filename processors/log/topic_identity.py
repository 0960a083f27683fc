"""
Which topic this is: Kafka gives each topic an id when it is created.

Responsible for asking for it. A topic of the same name with another id is another log (design S11).
Blocking; one caller at a time. Refuses to know what follows from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from events.producer import LOG_CLIENT_SETTINGS

ASK_TIMEOUT_S = 1.0
GONE = ""


class TopicIdentity:
    """Asks one Kafka. Keeps a client for itself."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._admin = AdminClient({**LOG_CLIENT_SETTINGS, **kafka})

    def ask(self, topic: str, timeout_s: float = ASK_TIMEOUT_S) -> str | None:
        """The topic's id; `GONE` when there is no such topic; None when it could not be learnt."""
        asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_s)
        try:
            return str(asked[topic].result(timeout_s + 1).topic_id)
        except KafkaException as error:
            return GONE if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART else None
        except FutureTimeout:
            return None
