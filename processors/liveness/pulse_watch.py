"""When to look at a pulse again: a heap instead of a look at every replica in every tick.

Responsible for: the earliest moment at which a pulse may have news (its silence is too long, a
probe is due), kept lazily: a heartbeat only moves the fields of its pulse, and the entry made
before finds that out when its time comes.
Refuses to know: what is done about a pulse.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from processors.liveness.pulses import BrokerKey, Pulse

GONE_KEPT_MS = 60_000
"""When there are too many, who has been gone for so long is forgotten."""
ROOM_EVERY_MS = 1_000
ENTRIES_SPARE = 1_000
"""Entries beyond two for each pulse that are kept before the outdated ones are thrown away."""


class PulseWatch:
    """The entries of the pulses in `pulses`, which belongs to the caller."""

    def __init__(self, pulses: Mapping[BrokerKey, Pulse]) -> None:
        self._pulses = pulses
        self._heap: list[tuple[int, BrokerKey]] = []
        self._room_due_ms = 0

    def __len__(self) -> int:
        return len(self._heap)

    def keep(self, pulse: Pulse) -> None:
        """Look at `pulse` when it may have news; what was to be earlier stays so."""
        due_ms = pulse.heard_ms + pulse.timeout_ms + 1
        if pulse.probes_due_ms and pulse.probes_due_ms[0] < due_ms:
            due_ms = pulse.probes_due_ms[0]
        if pulse.look_ms is not None and pulse.look_ms <= due_ms:
            return
        pulse.look_ms = due_ms
        heappush(self._heap, (due_ms, pulse.key))
        if len(self._heap) > 2 * len(self._pulses) + ENTRIES_SPARE:
            self._heap = [
                (one.look_ms, key) for key, one in self._pulses.items() if one.look_ms is not None
            ]
            heapify(self._heap)

    def due(self, now_ms: int) -> list[Pulse]:
        """Those whose time has come, each once; whoever is to be looked at again is to be kept
        again.
        """
        found: list[Pulse] = []
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, key = heappop(self._heap)
            pulse = self._pulses.get(key)  # None: forgotten since.
            if pulse is not None and pulse.look_ms == due_ms:
                pulse.look_ms = None
                found.append(pulse)
        return found

    def long_gone(self, now_ms: int) -> list[Pulse]:
        """Those that may be forgotten; nobody when it was asked a moment ago, for it looks at
        all.
        """
        if now_ms < self._room_due_ms:
            return []
        self._room_due_ms = now_ms + ROOM_EVERY_MS
        return [
            one
            for one in self._pulses.values()
            if one.gone is not None and now_ms - one.gone_ms >= GONE_KEPT_MS
        ]


class PulsesByAddress:
    """Which replicas are heard at an address; there are hardly ever two."""

    def __init__(self) -> None:
        self._keys: dict[str, set[BrokerKey]] = {}

    def at(self, address: str) -> set[BrokerKey]:
        return self._keys.get(address, set())

    def enter(self, pulse: Pulse) -> None:
        self._keys.setdefault(pulse.address, set()).add(pulse.key)

    def leave(self, pulse: Pulse) -> None:
        keys = self._keys[pulse.address]
        keys.discard(pulse.key)
        if not keys:
            del self._keys[pulse.address]

    def move(self, pulse: Pulse, address: str) -> None:
        self.leave(pulse)
        pulse.address = address
        self.enter(pulse)
