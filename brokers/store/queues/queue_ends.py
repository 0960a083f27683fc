"""Where each consume queue goes on, kept beside the queues: their files are not the only memory of
queue offsets.

Responsible for: a small file with a checksum, replaced atomically (S12); what it says of queues
whose files end lower or are gone. Refuses to know: how a queue is made again, who gives queue
offsets.

A queue whose messages have all expired cannot be made again from the log: without its end, offsets
would be given twice.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from brokers.store.files.durable import replace_file
from brokers.store.files.errors import LogError
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.entries import SLOT_MAX

QUEUE_ENDS_NAME = "queueEnds"
FILE_BYTES_MAX = 256 << 20
# Not every checkpoint writes the file: messages behind it are still in the log, and say what it
# does not. With many queues fewer do, for it grows with them.
CHECKPOINTS_BETWEEN = 10
QUEUES_AT_ONCE = 2000
# Entries at the end of a queue that count as lost ones which the log may still give.
LOST_MAX = 8192
# A consumer's word for more messages than this in one queue is none.
COMMITTED_MAX = 10**12

_HEAD = b"queueEnds 1 "
_log = logging.getLogger("regent.store.queues")

Key = tuple[str, int]


class QueueEnd(NamedTuple):
    """The slot of the next message, and the place in the log of the newest one, -1 where the log
    had none.
    """

    slot: int
    last_physical: int


class Remembered(NamedTuple):
    """The ends of all queues when everything in the log below `offset` had its entries, durably."""

    offset: int
    ends: Mapping[Key, QueueEnd]


def encode(remembered: Remembered) -> bytes:
    """A line with a checksum over what follows: the offset, then a line for each queue."""
    lines = [f"{remembered.offset}"]
    lines += [
        (f"{topic} {queue_id} {slot} {last}")
        for (topic, queue_id), (slot, last) in remembered.ends.items()
    ]
    body = "\n".join(lines).encode()
    return _HEAD + f"{zlib.crc32(body):08x}\n".encode() + body


def decode(data: bytes) -> Remembered | None:
    """None when these are not the bytes that were written."""
    head, _, body = data.partition(b"\n")
    if head != _HEAD + f"{zlib.crc32(body):08x}".encode():
        return None
    try:
        offset, *lines = body.decode().split("\n")
        rows = (line.split(" ") for line in lines)
        ends = {
            (topic, int(queue_id)): QueueEnd(int(slot), int(last))
            for topic, queue_id, slot, last in rows
        }
        return Remembered(int(offset), ends)
    except ValueError:
        return None


def lacks_from(queues: ConsumeQueues, ends: Mapping[Key, QueueEnd], log_min: int) -> int | None:
    """Where in the log messages begin that had durable entries which are gone; None when none is
    missing.
    """
    found: int | None = None
    for key, (slot, last) in ends.items():
        queue = queues.get(*key)
        if last >= log_min and (queue is None or queue.max_offset < slot):
            place = 0 if queue is None else max(queue.last_physical, 0)
            found = place if found is None else min(found, place)
    return found


class QueueEnds:
    """`floors`: ends that are higher than what the files of their queues say. `remembered` None: no
    file, or none that can be believed. `unsaved`: what was noted is not in the file yet.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / QUEUE_ENDS_NAME
        self.remembered = self._read()
        self.floors: dict[Key, int] = {}
        self._left = 0  # checkpoints until the next that writes
        self._noted = self._taken = self._saved = 0

    def _read(self) -> Remembered | None:
        try:
            with self._path.open("rb") as file:
                found = decode(file.read(FILE_BYTES_MAX))
        except FileNotFoundError:
            return None
        if found is None:
            _log.error(
                "%s is damaged: where queues go on is known from their files only", self._path
            )
        return found

    @property
    def ends(self) -> Mapping[Key, QueueEnd] | None:
        """What was remembered, None when nothing can be believed."""
        return None if self.remembered is None else self.remembered.ends

    @property
    def offset(self) -> int:
        """No message in front of it is needed to know where its queue goes on."""
        return 0 if self.remembered is None else self.remembered.offset

    def settle(self, queues: ConsumeQueues, log_end: int) -> None:
        """After recovery of a log that ends there: no queue goes on in front of where it was."""
        for key, (slot, _) in (self.ends or {}).items():
            self.floors[key] = max(slot, self.floors.get(key, 0))
        self._note_lost(queues, log_end)
        self.place(queues)

    def settle_cut(self, queues: ConsumeQueues, to_offset: int) -> None:
        """The log was cut there. No queue goes back in front of where it was remembered, if its
        newest message is still in the log: a damaged entry may have looked like one of a message
        that was cut.
        """
        self._note_lost(queues, to_offset)

    def _note_lost(self, queues: ConsumeQueues, log_end: int) -> None:
        """Where the newest message is in the log and its entry is not there, the slots up to it are
        nobody's until the log was asked. Where the disk refuses, the floor alone says where the
        queue goes on.
        """
        for key, (slot, newest) in (self.ends or {}).items():
            queue = queues.get(*key)
            if (
                queue is None
                or queue.is_bare()
                or not queue.max_offset < slot <= queue.max_offset + LOST_MAX
            ):
                continue
            if not queue.last_physical < newest < log_end:
                continue
            try:
                queue.lose_up_to(slot, newest)
            except (OSError, LogError) as error:
                _log.error(
                    "%s/%d goes on at %d, and its lost entries cannot be marked: %s",
                    *key,
                    slot,
                    error,
                )
                self.floors[key] = max(slot, self.floors.get(key, 0))

    def place(self, queues: ConsumeQueues) -> None:
        """Queues without messages begin at their floors; floors that their queues have reached are
        forgotten.
        """
        for key, slot in list(self.floors.items()):
            queue = queues.get_or_create(*key)
            if queue is not None and queue.max_offset < slot and queue.is_bare():
                queue.begin_at(slot)
            if queue is None or queue.max_offset >= slot:
                del self.floors[key]

    @property
    def unsaved(self) -> bool:
        return self._saved < self._noted

    def note(self, queues: ConsumeQueues, told: Mapping[Key, int]) -> None:
        """Another replica knows these ends: none of these queues goes on in front of it. The next
        checkpoint writes them.
        """
        for key, slot in told.items():
            queue = queues.get_or_create(*key) if slot <= SLOT_MAX else None
            if queue is None or max(queue.max_offset, self.floors.get(key, 0)) >= slot:
                continue
            if queue.is_bare():
                queue.begin_at(slot)
            else:
                self.floors[key] = slot
            self._noted += 1

    def note_committed(self, queues: ConsumeQueues, committed: Mapping[Key, int]) -> None:
        """Consumers have read up to there. Where the log has messages of a queue these say where it
        goes on; of the others consumers know what nobody else may know.
        """
        ahead = {}
        for key, slot in committed.items():
            queue = queues.get(*key)
            if 0 < slot <= COMMITTED_MAX and (
                queue is None or (queue.max_offset < slot and queue.is_bare())
            ):
                ahead[key] = slot
        self.note(queues, ahead)

    def without_messages(self, queues: ConsumeQueues, log_min: int) -> Remembered:
        """What a log that begins at `log_min` does not say: where queues go on of which it has no
        message.
        """
        ends = {
            key: QueueEnd(queue.max_offset, -1)
            for key, queue in queues
            if queue.max_offset and queue.last_physical < log_min
        }
        for key, slot in self.floors.items():
            if key not in ends or ends[key].slot < slot:
                ends[key] = QueueEnd(slot, -1)
        return Remembered(log_min, ends)

    def hold(self, queues: ConsumeQueues) -> None:
        """The log is emptied and copied anew, maybe from a place behind what these queues have. The
        next checkpoint writes it: until then nothing on the disk says so.
        """
        for key, queue in queues:
            if queue.max_offset > self.floors.get(key, 0):
                self.floors[key] = queue.max_offset
                self._noted += 1

    def taken(self, queues: ConsumeQueues, *, at_once: bool) -> dict[Key, QueueEnd] | None:
        """What a checkpoint that begins now should write; None: not this time. `at_once`: the last
        one of a life.
        """
        self._left -= 1
        if not at_once and self._left > 0 and not self.unsaved:
            return None
        self._taken = self._noted
        self._left = CHECKPOINTS_BETWEEN + len(queues) // QUEUES_AT_ONCE
        ends = {
            key: QueueEnd(queue.max_offset, queue.last_physical)
            for key, queue in queues
            if queue.max_offset
        }
        for key, slot in self.floors.items():
            if key not in ends or ends[key].slot < slot:
                ends[key] = QueueEnd(slot, ends[key].last_physical if key in ends else -1)
        return ends

    def write(self, remembered: Remembered) -> None:
        """OSError: the old file stays, whose ends are never too high but behind a cut."""
        if remembered != self.remembered:
            replace_file(self._path, encode(remembered))
            self.remembered = remembered
        self._saved = self._taken
