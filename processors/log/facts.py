"""Facts of a controller, or of a name server, into `regent.broker-events`.

Responsible for: a bounded queue towards Kafka that never blocks, and counted drops: losing a fact
changes no decision.
Refuses to know: what the facts mean.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from events.broker_events import BrokerEvent
from events.codec import CodecError, encode
from events.topics import BROKER_EVENTS_TOPIC

SETTINGS: Mapping[str, Any] = {
    ("queue.buffering.max.messages"): 10_000,
    "delivery.timeout.ms": 60_000,
    "linger.ms": 20,
    "enable.idempotence": True,
}
FLUSH_AT_END_S = 1.0
_log = logging.getLogger("regent.controller.facts")


class FactReporter:
    """The producer is made with the first fact: most processes have none to tell."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._kafka = kafka
        self._producer: Producer | None = None
        self.dropped = 0

    def report(self, fact: BrokerEvent) -> None:
        """Queue one fact. Never blocks, never raises."""
        try:
            if self._producer is None:
                self._producer = Producer({**self._kafka, **SETTINGS}, logger=_log)
            key = fact.header.broker_name.encode()
            self._producer.produce(
                BROKER_EVENTS_TOPIC, encode(fact), key=key, on_delivery=self._delivered
            )
            self._producer.poll(0)
        except (BufferError, KafkaException, CodecError) as error:
            # A name from the wire may have no encoding.
            self._drop(error)

    def poll(self) -> None:
        """What came of facts is noted: a process that tells few needs to ask now and then."""
        if self._producer is not None:
            self._producer.poll(0)

    def close(self) -> None:
        """Give what is queued a bounded time to leave. Blocking."""
        if self._producer is not None:
            self._producer.flush(FLUSH_AT_END_S)

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._drop(error)

    def _drop(self, error: object) -> None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:
            _log.warning(
                "a fact for %s was dropped (%d so far): %s",
                BROKER_EVENTS_TOPIC,
                self.dropped,
                error,
            )
