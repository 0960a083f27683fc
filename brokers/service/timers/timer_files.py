"""Wheel and log of one broker together, and how they are found after a start (PROTOCOL 4.18).

Responsible for: a message that goes into a slot, a folder of ours or of Java's opened, what is
rebuilt from the log and what cannot be trusted thrown away: the topic holds everything.
Refuses to know: when a slot is read, who leads, what the records say beyond their place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from brokers.service.sending.timed import TimerRules
from brokers.service.timers.formats import (
    MAGIC,
    MAGIC_DELETE,
    MAGIC_ROLL,
    NOWHERE,
    UNIT_BYTES,
    Slot,
    Unit,
)
from brokers.service.timers.time_rules import Target
from brokers.service.timers.timer_log import LOG_NAME, TimerLog
from brokers.service.timers.wheel import WHEEL_NAME, Wheel

# A slot further from now was written with another precision, whose times differ by years.
SLOT_AWAY_MAX_MS = 400 * 86_400_000
# About a second, in which the broker does nothing else. The topic is read piece by piece.
UNITS_AT_ONCE_MAX = 200_000

_log = logging.getLogger("regent.broker.timers")


class Entry(NamedTuple):
    """A message for the wheel. `write_ms`: the wheel's time. Offset and size in bytes of the commit
    log.
    """

    target: Target
    write_ms: int
    offset: int
    size: int
    topic_hash: int
    deletes: bool


# The record of a unit: its queue offset; None: another one lies there, or none; −1: its file of the
# log is gone.
QueueOffsetOf = Callable[[Unit], int | None]


class TimerFiles:
    """`next_offset`: of the timer queue; everything in front of it is in the wheel, was delivered,
    or was passed.
    """

    def __init__(self, wheel: Wheel, log: TimerLog, next_offset: int) -> None:
        self.wheel = wheel
        self.log = log
        self.next_offset = next_offset

    def close(self) -> None:
        self.wheel.close()
        self.log.close()

    def put(self, entries: Sequence[Entry]) -> None:
        """Into their slots, behind what is there. OSError: none is."""
        places = self.log.places(len(entries))
        slots: dict[int, Slot] = {}
        units = []
        for entry, place in zip(entries, places, strict=True):
            time_ms = entry.target.slot_ms
            slot = slots.get(time_ms) or self.wheel.slot(time_ms)
            magic = MAGIC | MAGIC_ROLL * entry.target.rolls | MAGIC_DELETE * entry.deletes
            unit = Unit(
                NOWHERE if slot is None else slot.last,
                magic,
                entry.write_ms,
                time_ms - entry.write_ms,
                entry.offset,
                entry.size,
                entry.topic_hash,
            )
            units.append(unit)
            slots[time_ms] = _with(slot, unit, place)
        self.log.append(places, units)
        for slot in slots.values():
            self.wheel.put(slot)

    def start_over(self) -> None:
        """Nothing is in the wheel: all of the topic is read again. OSError."""
        self.wheel.empty()
        self.log.drop()
        self.next_offset = 0

    def take_up(self, position: int) -> None:
        """Units from there on are in their slots; the log ends behind the last one. ValueError:
        there are too many to be looked at at once.
        """
        self.log.end = position
        for number, (place, unit) in enumerate(self.log.scan(position)):
            if number >= UNITS_AT_ONCE_MAX:
                raise ValueError(f"more than {number} units are not in it")
            slot = self.wheel.slot(unit.slot_ms)
            if slot is None or slot.last < place:
                self.wheel.put(_with(slot, unit, place))
            self.log.end = place + UNIT_BYTES

    def check_tail(self, queue_offset_of: QueueOffsetOf) -> int | None:
        """Takes units off the end whose records the log does not have any more, as after a cut. The
        queue offset behind the last one that stays; None: none is left that tells.
        """
        position, end = self.log.end, self.log.end
        found: int | None = None
        while (last := self._unit_before(position)) is not None:
            place, unit = last
            offset = queue_offset_of(unit)
            if offset is not None:
                found = None if offset < 0 else offset + 1
                break
            self._take_back(place, unit)
            position = end = place
        if end != self.log.end:
            self.log.cut(end)
        return found

    def _unit_before(self, position: int) -> tuple[int, Unit] | None:
        place = self.log.place_before(position)
        unit = None if place is None else self.log.unit(place)
        return None if place is None or unit is None else (place, unit)

    def _take_back(self, place: int, unit: Unit) -> None:
        slot = self.wheel.slot(unit.slot_ms)
        if slot is None or slot.last < place:
            return
        if unit.previous < self.log.start or slot.first >= place:
            self.wheel.clear(unit.slot_ms)
        else:
            number = slot.number - (-1 if unit.recalls else 1)
            self.wheel.put(Slot(slot.time_ms, slot.first, unit.previous, number))


def _with(slot: Slot | None, unit: Unit, place: int) -> Slot:
    step = -1 if unit.magic & MAGIC_DELETE else 1
    if slot is None:
        return Slot(unit.slot_ms, place, place, step)
    return Slot(slot.time_ms, slot.first, place, slot.number + step)


def open_files(
    root: Path,
    rules: TimerRules,
    *,
    flushed: int,
    enqueued: int,
    now_ms: int,
    queue_offset_of: QueueOffsetOf,
) -> TimerFiles:
    """The folder as it was left. `flushed`, `enqueued`: the log's end and the queue offset of the
    last check point. OSError.
    """
    try:
        files = _opened(root, rules, now_ms)
    except ValueError as error:
        _log.error("the timer wheel is made again from its topic: %s", error)
        _remove(root)
        files = _opened(root, rules, now_ms)
    log, wheel = files.log, files.wheel
    known = flushed if not wheel.made and log.start <= flushed <= log.limit else log.start
    if (known % log.file_bytes) % UNIT_BYTES:
        known = log.start
    try:
        files.take_up(known)
        if wheel.newest() >= log.end:  # what it points to is lost, and so the way to what is not
            wheel.empty()
            files.take_up(log.start)
    except ValueError as error:
        _log.error("the timer wheel is made again from its topic: %s", error)
        files.start_over()
        return files
    log.cut(log.end)
    is_whole = log.end >= flushed
    behind = files.check_tail(queue_offset_of)
    files.next_offset = max(behind or 0, enqueued if is_whole else 0)
    return files


def _opened(root: Path, rules: TimerRules, now_ms: int) -> TimerFiles:
    log = TimerLog(root / LOG_NAME, rules.log_file_bytes)
    try:
        path = root / WHEEL_NAME
        if not log.limit:  # its slots would point nowhere
            path.unlink(missing_ok=True)
        wheel = Wheel(path, rules.precision_ms)
    except BaseException:
        log.close()
        raise
    first = next(wheel.in_file(), None)
    if first is not None and abs(first.time_ms - now_ms) > SLOT_AWAY_MAX_MS:
        log.close()
        wheel.close()
        raise ValueError(f"it was written with another precision than {rules.precision_ms} ms")
    return TimerFiles(wheel, log, 0)


def _remove(root: Path) -> None:
    (root / WHEEL_NAME).unlink(missing_ok=True)
    folder = root / LOG_NAME
    if folder.is_dir():
        for path in folder.iterdir():
            if path.is_file():
                path.unlink()


def has_files(root: Path) -> bool:
    """Whether a wheel was here before."""
    return (root / WHEEL_NAME).exists() or (root / LOG_NAME).is_dir()
