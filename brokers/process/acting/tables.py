"""Own places as the way back of a master compares them, and what is taken (PROTOCOL 7.3).

Responsible for: reading them out of the tables, writing a decision into them and onto the disk,
making their versions newer. Refuses to know: what is decided, who asked whom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from brokers.acting.reverse_sync import Decision, Places, Tables, TimerCheckPoint
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.offsets import SEPARATOR, ConsumerOffsets
from brokers.service.tables.table_files import TableFiles


class OwnTables:
    """`timers`: whether this broker has a timer wheel."""

    def __init__(self, files: TableFiles, *, timers: bool) -> None:
        self._files, self._timers = files, timers

    @property
    def empty(self) -> bool:
        """Nothing is in them that could be older than what others have."""
        return not self._files.offsets.entries() and not self._files.kept.delays.table

    def now(self) -> Tables:
        """As they are at this moment."""
        offsets = {
            (topic + SEPARATOR + group, queue_id): place
            for topic, group, queues in self._files.offsets.entries()
            for queue_id, place in queues.items()
        }
        return Tables(
            Places(self._files.offsets.version, offsets), self._delays(), self._check_point()
        )

    def _delays(self) -> Places:
        kept = self._files.kept.delays
        places = {
            ("", int(level)): place
            for level, place in kept.table.items()
            if str(level).isascii() and str(level).isdigit() and type(place) is int
        }
        return Places(kept.version, places)

    def _check_point(self) -> TimerCheckPoint | None:
        if not self._timers:
            return None
        read, flushed, own, place, *version = self._files.kept.timer_check_point.value
        return TimerCheckPoint(read, flushed, own, place, DataVersion(*version))

    async def take(self, decision: Decision) -> None:
        """In force and on the disk when this returns. OSError: it is not on the disk."""
        if decision.offsets is not None:
            found = ConsumerOffsets.from_wire(_offsets_text(decision.offsets))
            self._files.offsets.adopt(found)
        if decision.delays is not None:
            table = {str(level): to for (_, level), to in decision.delays.places.items()}
            self._files.kept.delays.take(table, decision.delays.version)
        if decision.timers is not None:
            self._files.kept.timer_check_point.value = _fields(decision.timers)
        await self.save()

    async def save(self) -> None:
        """Everything is on the disk when this returns. OSError."""
        await self._files.offsets_saved()
        await asyncio.to_thread(self._files.kept.save)

    def bump(self, step: int) -> None:
        """All versions are newer by so many changes."""
        offsets, kept = self._files.offsets, self._files.kept
        offsets.version, offsets.dirty = _newer(offsets.version, step), True
        kept.delays.take(kept.delays.table, _newer(kept.delays.version, step))
        if (found := self._check_point()) is not None and found.version is not None:
            newer = replace(found, version=_newer(found.version, step))
            kept.timer_check_point.value = _fields(newer)


def _newer(version: DataVersion, step: int) -> DataVersion:
    return replace(version, counter=version.counter + step)


def _fields(one: TimerCheckPoint) -> tuple[int, ...]:
    version = one.version or DataVersion()
    return (
        *(one.read_ms, one.log_flushed, one.own_queue_offset, one.queue_offset),
        *(version.state_version, version.timestamp_ms, version.counter),
    )


def _offsets_text(places: Places) -> Mapping[str, object]:
    table: dict[str, dict[int, int]] = {}
    for (key, queue_id), place in places.places.items():
        table.setdefault(key, {})[queue_id] = place
    return {"dataVersion": places.version.to_wire(), "offsetTable": table}
