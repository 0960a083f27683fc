"""When to look at a pulse again: a heap instead of a look at every replica in every tick.

Responsible for: the earliest moment at which a pulse may have news (its silence is too long, a probe is due), kept
lazily: a heartbeat only moves the fields of its pulse, and the entry made before finds that out when its time comes.
Refuses to know: what is done about a pulse.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from processors.pulse import BrokerKey, Pulse

ENTRIES_SPARE = 1_000
"""Entries beyond two for each pulse that are kept before the outdated ones are thrown away."""


class PulseWatch:
    """The entries of the pulses in `pulses`, which belongs to the caller and only grows."""

    def __init__(self, pulses: Mapping[BrokerKey, Pulse]) -> None:
        self._pulses = pulses
        self._heap: list[tuple[int, BrokerKey]] = []

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
            self._heap = [(one.look_ms, key) for key, one in self._pulses.items() if one.look_ms is not None]
            heapify(self._heap)

    def due(self, now_ms: int) -> list[Pulse]:
        """Those whose time has come, each once; whoever is to be looked at again is to be kept again."""
        found: list[Pulse] = []
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, key = heappop(self._heap)
            pulse = self._pulses[key]
            if pulse.look_ms == due_ms:
                pulse.look_ms = None
                found.append(pulse)
        return found
