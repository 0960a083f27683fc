"""Reading a store through its queues.

Responsible for: messages, bounds and times of a queue, as PROTOCOL 4.5 and 4.6 have them. Refuses
to know: how messages came there, what is confirmed, who asks.
"""

from __future__ import annotations

from collections.abc import Collection

from brokers.store.log.integrity import QueueCheck
from brokers.store.log.message_log import MessageLog
from brokers.store.queues import query
from brokers.store.queues.cold_query import ColdRead, read_or_cold
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.dispatch import Dispatcher
from brokers.store.queues.matching import Wants
from brokers.store.queues.query import GetResult


class QueueReads:
    """The reading side of a store, which has a `log`, `queues` and a `dispatcher`."""

    log: MessageLog
    queues: ConsumeQueues
    dispatcher: Dispatcher
    _memory_bytes: int
    """What lies further behind the log's end counts as cold."""

    def query(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        codes: Collection[int] | None = None,
        wants: Wants | None = None,
    ) -> GetResult:
        """Messages of a queue from `offset` with the store results of 4.5; `codes`: tag hashes,
        None = all; `wants`: what else must be true of them.
        """
        queue, check = self.queues.get(topic, queue_id), QueueCheck(topic, queue_id)
        return query.get_messages(
            self.log, queue, offset, max_messages, codes, self._memory_bytes, check, wants
        )

    def query_or_cold(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_messages: int,
        codes: Collection[int] | None = None,
        wants: Wants | None = None,
    ) -> GetResult | ColdRead:
        """As `query`; what is not in memory is left to be read on another thread."""
        queue, check = self.queues.get(topic, queue_id), QueueCheck(topic, queue_id)
        selection = query.select(
            self.log, queue, offset, max_messages, codes, self._memory_bytes, check, wants
        )
        return selection if isinstance(selection, GetResult) else read_or_cold(self.log, selection)

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min, max) offset of a queue, (0, 0) when it was never written."""
        queue = self.queues.get(topic, queue_id)
        return (
            (0, 0) if queue is None else (queue.min_offset(self.log.min_offset), queue.max_offset)
        )

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, *, upper: bool = False
    ) -> int:
        """Queue offset by store time (4.6); 0 for a queue that was never written."""
        queue = self.queues.get(topic, queue_id)
        return (
            0 if queue is None else query.offset_by_time(self.log, queue, timestamp_ms, upper=upper)
        )

    def message_store_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time (ms) of a message, −1 when there is none."""
        queue = self.queues.get(topic, queue_id)
        return -1 if queue is None else query.store_ms(self.log, queue, offset)

    def first_store_ms(self) -> int:
        """Store time (ms) of the first message of the log, -1 without one."""
        log = self.log
        for record in log.walk(log.min_offset, self.dispatcher.dispatched_offset, check_body=True):
            return record.store_ms
        return -1

    def earliest_store_ms(self, topic: str, queue_id: int) -> int:
        """Store time (ms) of the oldest message of a queue, −1 when there is none."""
        return self.message_store_ms(topic, queue_id, self.queue_bounds(topic, queue_id)[0])
