"""Queue offsets of new messages: one for each, without gaps or repeats, whatever is dispatched.

Responsible for: where each queue goes on, behind everything in the log. Refuses to know: how
messages are appended, who acknowledges.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.store.files.errors import LogError
from brokers.store.log.message_log import MessageLog, RecordWalk
from brokers.store.log.records import has_queue_entry
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.dispatch import Dispatcher


class QueueOffsets:
    """Queue offsets of queues written to are kept; those of all others are the ends of their
    queues, or their `floors` where these are higher. What appends by them is a kind of this.
    """

    def __init__(
        self,
        log: MessageLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        floors: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self._floors = {} if floors is None else floors
        self._messages = log
        self._queues = queues
        self._dispatcher = dispatcher
        self._next_slots: dict[tuple[str, int], int] = {}
        self._slots_known = False

    def forget_queue_offsets(self) -> None:
        """The log changed in another way than by appending here."""
        self._slots_known = False

    def rebuild_queue_offsets(self) -> None:
        """See `MessageStore.rebuild_queue_offsets`."""
        tail = self._walk_undispatched()
        if tail.end != self._messages.end_offset:
            raise LogError(
                f"the log cannot be read at {tail.end} ({tail.reason}): this replica cannot lead"
            )
        self._slots_known = True

    def _walk_undispatched(self) -> RecordWalk:
        """Walks what has no entries yet and notes its queue offsets."""
        self._next_slots.clear()
        log, start = self._messages, self._dispatcher.dispatched_offset
        tail = log.walk(start, log.end_offset, check_body=False)
        for record in tail:
            if has_queue_entry(record.sys_flag):
                key = (record.topic, record.queue_id)
                self._next_slots[key] = max(self._next_slot(key), record.queue_offset + 1)
        return tail

    def _next_slot(self, key: tuple[str, int]) -> int:
        slot = self._next_slots.get(key)
        if slot is not None:
            return slot
        queue = self._queues.get(*key)
        return max(0 if queue is None else queue.max_offset, self._floors.get(key, 0))

    def waiting_from(self, key: tuple[str, int]) -> int | None:
        """Messages of this queue may wait for their entries; they have no slot in front of this
        one. None: none does.
        """
        return self._floors.get(key, 0) if self._slots_known and key in self._next_slots else None
