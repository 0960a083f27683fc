"""Consume queues of a simulated disk: entries in memory, some of them on the medium.

Responsible for: what `brokers.store.queues.consume_queue.ConsumeQueues` promises, and what a power
loss does to it.
Refuses to know: which entry a message gets (brokers.store.queues.dispatch), where a cut goes
(brokers.store.queues.entries).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from brokers.store.files.open_files import Unsynced
from brokers.store.log import segments
from brokers.store.queues.entries import (
    ENTRY,
    ENTRY_BYTES,
    FILLER_SIZE,
    Entry,
    entry_of,
    first_cut,
    first_kept,
    is_deleted,
    kept_below,
    reaches,
)
from tests.simulation.world import World

FILE_ENTRIES = 16
NOTHING, FILLER = Entry(0, 0, 0), Entry(0, FILLER_SIZE, 0)


class SimulatedQueue:
    """One queue. Slots below `first` are in files that are gone, or never were."""

    def __init__(self) -> None:
        self.first = 0
        self.synced = 0  # entries below this slot are on the medium
        self._entries: list[Entry] = []
        self.lacks_from: int | None = None
        self.taken: tuple[int, int, int] | None = None

    @property
    def max_offset(self) -> int:
        return self.first + len(self._entries)

    @property
    def last_physical(self) -> int:
        return (
            self._entries[-1].physical_offset
            if self._entries and self._entries[-1].size != FILLER_SIZE
            else -1
        )

    def read(self, slot: int, count: int) -> list[Entry]:
        at = slot - self.first
        return [] if at < 0 else self._entries[at : at + count]

    def append(self, slot: int, entries: bytes | bytearray, last_physical: int) -> int:
        """Consecutive entries from `slot`; those already there are skipped. How many were new."""
        if (
            slot != self.max_offset
            and self.last_physical < 0
            and self.min_offset(0) >= self.max_offset
        ):
            self._entries.clear()
            self.first = self.synced = 0
        self._mend(slot, entries)
        known = max(0, self.max_offset - slot)
        fresh = list(map(entry_of, ENTRY.iter_unpack(bytes(entries[known * ENTRY_BYTES :]))))
        if not fresh:
            return 0
        if not self._entries and slot != self.first:
            self.first = self.synced = segments.file_start(slot, FILE_ENTRIES)
        missing = slot + known - self.max_offset
        self._entries += [
            FILLER if self.last_physical < 0 else Entry(self.last_physical, 0, 0)
        ] * missing
        self._entries += fresh
        return len(fresh)

    def _mend(self, slot: int, entries: bytes | bytearray) -> None:
        for number, entry in enumerate(
            map(entry_of, ENTRY.iter_unpack(bytes(entries))), slot - self.first
        ):
            if 0 <= number < len(self._entries) and self._entries[number].size <= 0:
                self._entries[number] = entry
                self.synced = min(self.synced, self.first + number)

    def min_offset(self, log_min: int) -> int:
        """Slot of the first entry whose message the log still has."""
        return first_kept(self.read, self.first, self.max_offset, log_min)

    def truncate(self, physical_offset: int, leads: Callable[[int], object]) -> None:
        """As the real one: the entries of messages at or above `physical_offset` go."""
        if reaches(self._entries, physical_offset):
            self._cut(first_cut(self.read, self.first, self.max_offset, physical_offset, leads))

    def keep_valid_below(self, physical_offset: int) -> None:
        """As the real one, after a power loss."""
        kept = kept_below(self.read, self.first, self.max_offset, physical_offset)
        if kept.end < self.max_offset:
            self._cut(kept.end)
        self.lacks_from = kept.lacks_from

    def _cut(self, slot: int) -> None:
        del self._entries[max(0, slot - self.first) :]
        self.synced = min(self.synced, self.max_offset)

    def trim(self, log_min: int) -> None:
        """Files of which the log has no message any more go, the newest one never."""
        while self.max_offset - self.first > FILE_ENTRIES:
            border = self._entries[FILE_ENTRIES - 1 : FILE_ENTRIES + 1]
            if not any(is_deleted(entry, log_min) for entry in border):
                return
            del self._entries[:FILE_ENTRIES]
            self.first += FILE_ENTRIES

    def lose_power(self, world: World) -> None:
        """Each entry that was not synced may be gone; zeros at the end are no entries."""
        for slot in range(max(self.synced, self.first), self.max_offset):
            if world.one_in(3):
                self._entries[slot - self.first] = NOTHING
        while self._entries and self._entries[-1] == NOTHING:
            self._entries.pop()


class SimulatedQueues:
    """All queues of a store."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], SimulatedQueue] = {}

    def get(self, topic: str, queue_id: int) -> SimulatedQueue | None:
        return self._queues.get((topic, queue_id))

    def get_or_create(self, topic: str, queue_id: int) -> SimulatedQueue:
        return self._queues.setdefault((topic, queue_id), SimulatedQueue())

    def __iter__(self) -> Iterator[tuple[tuple[str, int], SimulatedQueue]]:
        return iter(list(self._queues.items()))

    def last_physical(self) -> int:
        return max((queue.last_physical for queue in self._queues.values()), default=-1)

    def truncate(
        self, physical_offset: int, leads: Callable[[SimulatedQueue, tuple[str, int], int], object]
    ) -> None:
        for key, queue in self:
            queue.truncate(physical_offset, partial(leads, queue, key))

    def keep_valid_below(self, physical_offset: int, ends: None = None) -> None:
        for _, queue in self:
            queue.keep_valid_below(physical_offset)

    def lacks_from(self, known_below: int = 0) -> int | None:
        return min(
            (queue.lacks_from for _, queue in self if queue.lacks_from is not None), default=None
        )

    def take_unsynced(self) -> Unsynced:
        """For a sync that follows at once: nothing is left of it to be done."""
        self.synced(self.ends())
        return Unsynced([], [])

    def mark_unsynced(self, physical_offset: int, *, cut: bool = False) -> None:
        """Entries of messages at or above it may have been written by an earlier run: the next sync
        has them.
        """
        for _, queue in self:
            while (
                queue.synced > queue.first
                and (known := queue.read(queue.synced - 1, 1))
                and known[0].physical_offset >= physical_offset
            ):
                queue.synced -= 1

    def trim(self, log_min: int) -> None:
        for _, queue in self:
            queue.trim(log_min)

    def ends(self) -> dict[tuple[str, int], int]:
        """What a sync that begins now has to write."""
        return {key: queue.max_offset for key, queue in self}

    def synced(self, ends: dict[tuple[str, int], int]) -> None:
        for key, end in ends.items():
            queue = self._queues.get(key)
            if queue is not None:
                queue.synced = max(queue.synced, min(end, queue.max_offset))

    def lose_power(self, world: World) -> None:
        for _, queue in self:
            queue.lose_power(world)
