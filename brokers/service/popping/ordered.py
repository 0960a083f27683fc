"""Ordered pops: one batch of a queue at a time (PROTOCOL 4.9).

Responsible for: whether a queue is blocked, what was given before, where the group goes on, the
table as Java's file has it. Refuses to know: the store, clocks, files.

The group's place stays at the first message that is not acknowledged; what was acknowledged behind
it is given again with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from brokers.service.popping.records import MESSAGES_MAX
from brokers.service.tables.subscription_groups import group_refusal
from brokers.service.tables.topics import QUEUES_PER_TOPIC_MAX, name_refusal

# The table is copied as one body, which must fit a frame (16 MiB).
QUEUES_MAX = 10_000
UNUSED_MS = 24 * 3_600_000
ATTEMPT_CHARACTERS_MAX = 255

QueueKey = tuple[str, str, int]  # topic, group, queue id


class Acked(Enum):
    """What came of an acknowledgement."""

    MOVED = "the group goes on at another place"
    NOTHING = "it is of an earlier attempt, was done before, or comes again"
    UNKNOWN = "no message of this pop has that offset"


@dataclass(slots=True)
class Batch:
    """What was popped last from a queue. Times in ms since 1970. `visible`: messages with another
    time than the others; `counts`: how often a message was given before, where it was.
    """

    pop_ms: int
    invisible_ms: int
    offsets: tuple[int, ...]
    attempt: str | None
    used_ms: int
    visible: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    @property
    def left(self) -> list[int]:
        return [offset for offset in self.offsets if offset not in self.done]

    def free_ms(self) -> int:
        """When no message of it is hidden any more; 0: all are acknowledged."""
        usual = self.pop_ms + self.invisible_ms
        return max((self.visible.get(offset, usual) for offset in self.left), default=0)

    @property
    def next_offset(self) -> int:
        """Where the group goes on."""
        return min(self.left, default=self.offsets[-1] + 1)


class OrderedPops:
    """All queues that are popped in order. `changes` counts what was changed."""

    def __init__(self) -> None:
        self._batches: dict[QueueKey, Batch] = {}
        self._frees: list[tuple[int, QueueKey]] = []
        self.changes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def blocks(self, key: QueueKey, attempt: str | None, wall_ms: int) -> bool:
        """Whether messages of this queue are still out, for another attempt than this one."""
        batch = self._batches.get(key)
        if batch is None or (attempt is not None and attempt == batch.attempt):
            return False
        return batch.free_ms() > wall_ms

    def has_room(self, key: QueueKey) -> bool:
        return key in self._batches or len(self._batches) < QUEUES_MAX

    def popped(
        self,
        key: QueueKey,
        attempt: str | None,
        pop_ms: int,
        invisible_ms: int,
        offsets: tuple[int, ...],
    ) -> Mapping[int, int]:
        """These are out now; how often each was given before."""
        last = self._batches.get(key)
        counts: dict[int, int] = {}
        if last is not None:
            again = 0 if attempt is not None and attempt == last.attempt else 1
            counts = {
                offset: count
                for offset in offsets
                if offset in last.offsets and (count := last.counts.get(offset, 0) + again)
            }
        self._put(key, Batch(pop_ms, invisible_ms, offsets, attempt, pop_ms, counts=counts))
        return counts

    def ack(self, key: QueueKey, offset: int, pop_ms: int, place: int | None) -> tuple[Acked, int]:
        """One message of a pop is done; and where the group goes on. `place`: where it would go on
        now. Of a pop that is not known here, as of a former master just before its end, only the
        next message moves it: one in front may be left, and would be passed over for good.
        """
        batch = self._batches.get(key)
        if batch is None:
            is_next = place is None or offset == place
            return (Acked.MOVED, offset + 1) if is_next else (Acked.NOTHING, 0)
        if batch.pop_ms != pop_ms:
            return Acked.NOTHING, 0
        if offset not in batch.offsets:
            return Acked.UNKNOWN, 0
        batch.done.add(offset)
        self._changed(key, batch)
        return Acked.MOVED, batch.next_offset

    def change(self, key: QueueKey, offset: int, pop_ms: int, visible_ms: int) -> bool:
        """A message stays hidden until another time; False: it is of no pop that is out."""
        batch = self._batches.get(key)
        if batch is None or batch.pop_ms != pop_ms or offset not in batch.offsets:
            return False
        batch.visible[offset] = visible_ms
        self._changed(key, batch)
        return True

    def is_free(self, key: QueueKey, wall_ms: int) -> bool:
        batch = self._batches.get(key)
        return batch is None or batch.free_ms() <= wall_ms

    def freed(self, wall_ms: int) -> list[QueueKey]:
        """Queues whose messages may be given again since they were not acknowledged in time."""
        found: dict[QueueKey, None] = {}
        while self._frees and self._frees[0][0] <= wall_ms:
            key = heapq.heappop(self._frees)[1]
            if key in self._batches and self.is_free(key, wall_ms):
                found[key] = None
        return list(found)

    def forget(self, key: QueueKey) -> None:
        """The group goes on elsewhere."""
        if self._batches.pop(key, None) is not None:
            self.changes += 1

    def drop(self, wall_ms: int, is_known: Callable[[str], bool]) -> None:
        """What is of topics that are gone, and of queues that nobody has popped for a day."""
        for key, batch in list(self._batches.items()):
            unused = wall_ms - batch.used_ms > UNUSED_MS and batch.free_ms() < wall_ms
            if unused or not is_known(key[0]):
                self.forget(key)

    def _put(self, key: QueueKey, batch: Batch) -> None:
        self._batches[key] = batch
        self._changed(key, batch)

    def _changed(self, key: QueueKey, batch: Batch) -> None:
        self.changes += 1
        if batch.left:
            heapq.heappush(self._frees, (batch.free_ms(), key))
        if len(self._frees) > 4 * len(self._batches) + 1_000:
            self._frees = [(one.free_ms(), name) for name, one in self._batches.items() if one.left]
            heapq.heapify(self._frees)

    # -- as it is kept -----------------------------------------------------------------------------

    def table(self) -> dict[str, dict[str, object]]:
        """The table of `consumerOrderInfo.json`."""
        table: dict[str, dict[str, object]] = {}
        for (topic, group, queue_id), batch in self._batches.items():
            table.setdefault(f"{topic}@{group}", {})[str(queue_id)] = _to_wire(batch)
        return table

    def take(self, table: Mapping[str, object]) -> int:
        """Become what a table says; how many of its entries are no valid ones, and left out."""
        self._batches, self._frees, left_out = {}, [], 0
        for name, queues in table.items():
            topic, _, group = str(name).partition("@")
            for queue_id, batch in queues.items() if isinstance(queues, Mapping) else ():
                try:
                    if name_refusal(topic) or group_refusal(group):
                        raise ValueError("no topic and group")
                    key = topic, group, _within(int(queue_id), QUEUES_PER_TOPIC_MAX)
                    self._put(key, _from_wire(batch))
                except (ValueError, TypeError):
                    left_out += 1
        return left_out


def _to_wire(batch: Batch) -> dict[str, object]:
    first = batch.offsets[0]
    fields: dict[str, object] = {
        "cm": sum(1 << at for at, offset in enumerate(batch.offsets) if offset in batch.done),
        "i": batch.invisible_ms,
        "l": batch.used_ms,
        "o": [first, *(offset - first for offset in batch.offsets[1:])],
        "popTime": batch.pop_ms,
    }
    if batch.attempt is not None:
        fields["a"] = batch.attempt
    for name, table in (("ot", batch.visible), ("oc", batch.counts)):
        if table:
            fields[name] = {str(offset): value for offset, value in table.items()}
    return fields


def _from_wire(fields: object) -> Batch:
    if not isinstance(fields, Mapping):
        raise ValueError("no batch")
    steps = fields.get("o")
    if not isinstance(steps, list) or not 0 < len(steps) <= MESSAGES_MAX:
        raise ValueError("no offsets")
    first = _within(steps[0])
    offsets = (first, *(first + _within(step) for step in steps[1:]))
    if list(offsets) != sorted(set(offsets)):
        raise ValueError("offsets in no order")
    attempt, done = fields.get("a"), _within(fields.get("cm", 0), 1 << MESSAGES_MAX)
    return Batch(
        _within(fields.get("popTime")),
        _within(fields.get("i")),
        offsets,
        attempt[:ATTEMPT_CHARACTERS_MAX] if isinstance(attempt, str) else None,
        _within(fields.get("l", 0)),
        _numbers(fields.get("ot"), offsets),
        _numbers(fields.get("oc"), offsets),
        {offset for at, offset in enumerate(offsets) if done >> at & 1},
    )


def _numbers(table: object, offsets: tuple[int, ...]) -> dict[int, int]:
    if not isinstance(table, Mapping):
        return {}
    return {
        int(offset): _within(value) for offset, value in table.items() if int(offset) in offsets
    }


def _within(value: object, maximum: int = (1 << 62) - 1) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise ValueError(f"{str(value)[:40]} is no number between 0 and {maximum}")
    return value
