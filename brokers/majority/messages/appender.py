"""Appending as leader: each message an entry's body, with its physical offset in it.

Responsible for: queue offsets and bytes of new messages, that all of one call are written or none.
Refuses to know: how entries are proposed and replicated, who acknowledges, recovery, reading.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from brokers.majority.entry import BODY_BYTES_MAX, HEAD_BYTES
from brokers.majority.messages.message_log import EntryMessageLog
from brokers.majority.positions import physical_offset
from brokers.majority.quorum.effects import NewEntry
from brokers.majority.wire.codes import Code
from brokers.store.appender import PutResult
from brokers.store.files.errors import DiskFull, LogError, NotNow
from brokers.store.log.properties import tags_code
from brokers.store.log.records import (
    BLANK_BYTES_MIN,
    MessageFields,
    Record,
    RecordError,
    encode_message,
    has_queue_entry,
    message_size,
    offset_message_id,
)
from brokers.store.queue_offsets import QueueOffsets
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.dispatch import Dispatcher

OFFSET_AT = 28
"""Where in a message its physical offset stands."""
_OFFSET = struct.Struct(">q")

Propose = Callable[[Sequence[NewEntry]], Code]
"""Writes these entries into the log of this leader, all of them before it returns: SUCCESS. Any
other code: why it took none, and whether it may take them later.
"""


class _Planned(Struct):
    """One message. `at`: its physical offset, -1 until its entry has a place."""

    fields: MessageFields
    size: int
    slot: int
    data: bytearray
    at: int = -1

    def build(self, position: int) -> bytes:
        self.at = physical_offset(position)
        _OFFSET.pack_into(self.data, OFFSET_AT, self.at)
        return bytes(self.data)


class EntryAppender(QueueOffsets):
    """As `store.appender.Appender`; groups need not stay within one file."""

    def __init__(
        self,
        log: EntryMessageLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        floors: Mapping[tuple[str, int], int],
        propose: Propose,
    ) -> None:
        super().__init__(log, queues, dispatcher, floors)
        self._log, self._propose = log, propose
        self._end = -1  # where the log ended when queue offsets were last known

    def put_many(
        self, groups: Sequence[Sequence[MessageFields]], now_ms: int
    ) -> list[PutResult | RecordError]:
        """A group that cannot be stored gets its RecordError and leaves the others alone. DiskFull,
        and NotNow where this member does not lead: none is stored.
        """
        if self._log.end_offset != self._end:  # entries came that are not from here
            self.forget_queue_offsets()
        if not self._slots_known:
            self.rebuild_queue_offsets()
        slots: dict[tuple[str, int], int] = {}
        planned: list[list[_Planned] | RecordError] = []
        for group in groups:
            try:
                planned.append(self._plan(group, slots, now_ms))
            except RecordError as error:
                planned.append(error)
        wanted = [one for group in planned if isinstance(group, list) for one in group]
        if wanted:
            self._append(wanted, now_ms)
            self._next_slots.update(slots)
        self._end = self._log.end_offset
        return [one if isinstance(one, RecordError) else _result(one) for one in planned]

    def _plan(
        self, group: Sequence[MessageFields], slots: dict[tuple[str, int], int], now_ms: int
    ) -> list[_Planned]:
        """Nothing is kept of a group of which one is refused."""
        if not group:
            raise RecordError("a group without messages")
        limit = min(BODY_BYTES_MAX, self._log.file_bytes - HEAD_BYTES - BLANK_BYTES_MIN)
        made: list[_Planned] = []
        taken: dict[tuple[str, int], int] = {}
        for message in group:
            size, slot = message_size(message), 0
            if size > limit:
                raise RecordError(f"a message of {size} bytes does not fit an entry of {limit}")
            if has_queue_entry(message.sys_flag):
                key = (message.topic, message.queue_id)
                slot = taken.get(key, slots.get(key, -1))
                slot = self._next_slot(key) if slot < 0 else slot
                taken[key] = slot + 1
            data = bytearray(encode_message(message, size, slot, 0, now_ms))
            made.append(_Planned(message, size, slot, data))
        slots.update(taken)
        return made

    def _append(self, planned: Sequence[_Planned], now_ms: int) -> None:
        start = self._log.end_offset
        self._log.entries.make_room([one.size for one in planned])
        code = self._propose([NewEntry(None, one.size, one.build) for one in planned])
        if code is Code.DISK_FULL:
            raise DiskFull("the log of this group has no room")
        if code is not Code.SUCCESS:
            raise NotNow(f"this member takes no messages: {code.name}")
        if any(one.at < 0 for one in planned):
            raise LogError(
                "this member did not write what it took: it is busy, or its disk refused"
            )
        # What is committed already has been read back from the log.
        if self._dispatcher.dispatched_offset <= start:
            records = [_record(one, now_ms) for one in planned]
            self._dispatcher.appended(start, self._log.end_offset, records)


def _record(one: _Planned, now_ms: int) -> Record:
    fields = one.fields
    code = tags_code(fields.properties, fields.topic, now_ms)
    return Record(
        one.at, one.size, fields.topic, fields.queue_id, one.slot, code, now_ms,
        fields.sys_flag, fields.properties,
    )  # fmt: skip


def _result(group: Sequence[_Planned]) -> PutResult:
    first, last = group[0], group[-1]
    ids = ",".join(offset_message_id(one.fields.store_host, one.at) for one in group)
    return PutResult(first.at, last.at + last.size, first.slot, ids)
