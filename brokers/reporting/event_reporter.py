"""Facts of this broker for `regent.broker-events` (DESIGN 7).

Responsible for: headers, encoding, a bounded queue towards Kafka, counted drops. Refuses to know:
what the facts mean. Losing one changes no decision, and producing one never blocks: the queue is
the producer's, what does not fit is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, Producer

from brokers.clock import Clock
from events import codec
from events.broker_events import BROKER_EVENTS, BrokerEventHeader
from events.topics import BROKER_EVENTS_TOPIC

QUEUE_MAX = 10_000
QUEUE_KIBIBYTES_MAX = 16_384
POLL_MS = 200
DELIVERY_TIMEOUT_MS = 60_000
FLUSH_AT_END_MS = 2_000

_RECORDS = {record.__name__: record for record in BROKER_EVENTS}
_log = logging.getLogger("regent.broker.events")
# What the client library says while Kafka is away, many times a second.
_client_log = logging.getLogger("regent.broker.events.client")


class EventReporter:
    """`kafka` None: nothing is produced, everything still counted. `broker_id` is set once it is
    known.
    """

    def __init__(
        self,
        kafka: Mapping[str, str] | None,
        cluster_name: str,
        broker_name: str,
        incarnation: str,
        clock: Clock,
    ) -> None:
        self.broker_id = 0
        self.reported = 0
        self.dropped = 0
        self._cluster_name = cluster_name
        self._broker_name = broker_name
        self._incarnation = incarnation
        self._clock = clock
        self._sequence = 0
        self._producer = (
            None if kafka is None else Producer(producer_settings(kafka), logger=_client_log)
        )
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to serve the producer's callbacks; needs a running loop."""
        if self._producer is not None:
            self._producer.poll(0)
            self._timer = asyncio.get_running_loop().call_later(POLL_MS / 1000, self.start)

    def report(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Queue one fact; `fields` are the record's without its header. Never blocks, never
        raises.
        """
        self._sequence += 1
        if self._producer is None:
            return
        try:
            values = {
                key: tuple(value) if isinstance(value, list) else value
                for key, value in fields.items()
            }
            data = codec.encode(_RECORDS[kind](header=self._header(), **values))
            self._producer.produce(
                BROKER_EVENTS_TOPIC,
                data,
                key=self._broker_name.encode(),
                on_delivery=self._delivered,
            )
            self.reported += 1
        except (BufferError, KafkaException) as error:
            self._count_dropped(kind, error)
        except (KeyError, TypeError, codec.CodecError) as error:
            # A fact of ours that does not fit its schema is a defect, but not one to stop the data
            # path for.
            _log.exception("broker event %s cannot be encoded", kind)
            self._count_dropped(kind, error)

    def leave_out(self, kind: str) -> None:
        """One fact too many: it is counted, and a gap in the numbers tells it."""
        self._sequence += 1
        self._count_dropped(kind, "too many in a short time")

    async def close(self) -> None:
        """Give what is queued a bounded time to leave."""
        if self._timer is not None:
            self._timer.cancel()
        if self._producer is not None:
            left = await asyncio.to_thread(self._producer.flush, FLUSH_AT_END_MS / 1000)
            self.dropped += left
            if left:
                _log.warning("%d broker events were not delivered before the end", left)

    def _header(self) -> BrokerEventHeader:
        return BrokerEventHeader(
            uuid.uuid4().bytes,
            self._cluster_name,
            self._broker_name,
            self.broker_id,
            self._incarnation,
            self._clock.wall_ms(),
            self._sequence,
        )

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self.dropped += 1

    def _count_dropped(self, kind: str, why: object) -> None:
        self.dropped += 1
        if self.dropped & (self.dropped - 1) == 0:
            _log.warning("broker event %s dropped (%d so far): %s", kind, self.dropped, why)


def producer_settings(kafka: Mapping[str, str]) -> dict[str, Any]:
    """The client's settings: the cluster's own pass through, the limits here are fixed."""
    return {
        **kafka,
        "queue.buffering.max.messages": QUEUE_MAX,
        "queue.buffering.max.kbytes": QUEUE_KIBIBYTES_MAX,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "linger.ms": 20,
        "enable.idempotence": True,
    }
