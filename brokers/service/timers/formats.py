"""Bytes of the wheel and of its log, as RocketMQ writes them (PROTOCOL 4.18).

Responsible for: one slot of `timerwheel`, one unit of `timerlog`, what a unit may say.
Refuses to know: files, which slots are read, what is due.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

# Twice seven days of seconds.
SLOTS = 2 * 604_800
SLOT_BYTES = 32
WHEEL_BYTES = SLOTS * SLOT_BYTES
UNIT_BYTES = 52
# At the end of a file.
BLANK_BYTES = 16
BLANK_MAGIC = 0xCBD43194
MAGIC, MAGIC_ROLL, MAGIC_DELETE = 1, 2, 4
MAGIC_MAX = 15
NOWHERE = -1

_SLOT = struct.Struct(">qqqii")
_UNIT = struct.Struct(">iqiqiqiiq")
_BLANK = struct.Struct(">iqI")
EMPTY_SLOT = bytes(SLOT_BYTES)


class Slot(NamedTuple):
    """`time_ms`: of the slot. `first`, `last`: where its oldest and its newest unit lie in the log.
    `number`: messages less recalls.
    """

    time_ms: int
    first: int
    last: int
    number: int


class Unit(NamedTuple):
    """One message in the wheel. `previous`: the unit before it in its slot, −1 none. `magic`: 1,
    and bits for a roll and a recall. `enqueued_ms`: the wheel's time when it came. Offset and size
    in bytes of the commit log.
    """

    previous: int
    magic: int
    enqueued_ms: int
    delay_ms: int
    offset: int
    size: int
    topic_hash: int

    @property
    def slot_ms(self) -> int:
        return self.enqueued_ms + self.delay_ms

    @property
    def rolls(self) -> bool:
        return bool(self.magic & MAGIC_ROLL)

    @property
    def recalls(self) -> bool:
        """Whether it ends here, and takes others of its slot with it."""
        return self.magic & (MAGIC_DELETE | MAGIC_ROLL) == MAGIC_DELETE


def slot_index(time_ms: int, precision_ms: int) -> int:
    """Its place in the wheel."""
    return time_ms // precision_ms % SLOTS


def pack_slot(slot: Slot, precision_ms: int) -> bytes:
    """32 bytes."""
    return _SLOT.pack(slot.time_ms // precision_ms, slot.first, slot.last, slot.number, 0)


def read_slot(data: bytes, at: int, precision_ms: int) -> Slot | None:
    """None: it is empty, or says what none can."""
    time, first, last, number, _ = _SLOT.unpack_from(data, at)
    if time <= 0 or time > 2**62 // precision_ms or first < 0 or last < first:
        return None
    return Slot(time * precision_ms, first, last, number)


def pack_unit(unit: Unit) -> bytes:
    """52 bytes. struct.error: a number does not fit."""
    return _UNIT.pack(UNIT_BYTES, *unit, 0)


def read_unit(data: bytes, at: int = 0) -> Unit | None:
    """None: what stands there is none, or not all of it."""
    if at < 0 or at + UNIT_BYTES > len(data):
        return None
    size, *fields, _ = _UNIT.unpack_from(data, at)
    unit = Unit(*fields)
    if size != UNIT_BYTES or not 0 <= unit.magic <= MAGIC_MAX:
        return None
    if unit.offset < 0 or unit.size <= 0 or unit.slot_ms <= 0 or unit.previous < NOWHERE:
        return None
    return unit


def pack_blank(bytes_left: int) -> bytes:
    """What closes a file that has no room for a unit and this."""
    return _BLANK.pack(bytes_left, 0, BLANK_MAGIC)


def is_blank(data: bytes, at: int = 0) -> bool:
    """Whether the file ends here and the next one goes on."""
    return at + BLANK_BYTES <= len(data) and _BLANK.unpack_from(data, at)[2] == BLANK_MAGIC


def needs_next_file(position: int, file_bytes: int) -> bool:
    """Whether no unit may begin at `position` of the log."""
    return file_bytes - position % file_bytes < UNIT_BYTES + BLANK_BYTES
