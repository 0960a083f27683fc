"""One replica of a generated set: its log in bytes, its epochs, its starts, and what it reports.

Responsible for headers with a growing sequence per start, and for a log that only a cut shortens.
Refuses to know who leads and why.
"""

from __future__ import annotations

from random import Random
from typing import Any

from events.broker_events import BrokerEvent, BrokerEventHeader
from processors.fold.state import BrokerSet
from processors.liveness.pulses import Heartbeat
from processors.liveness.replicas import Liveness
from tests.support.generated_leaders import Leaders

REGENT = "regent"
BEAT_MS = 1_000


class GeneratedReplica:
    """Replica `broker_id` of a set; offsets are bytes of the message log."""

    def __init__(self, leaders: Leaders, name: str, broker_id: int, chance: Random) -> None:
        self.name, self.broker_id = name, broker_id
        self.address = f"{leaders.network}.{int(name[-3:]) % 250}.{broker_id}:10911"
        self.ha_address = self.address.replace(":10911", ":10912")
        self.epochs: dict[int, int] = {}
        """Epoch -> where it starts in this log."""
        self.end = 0
        self.runs = True
        self.away = False
        """It sent no heartbeats for a while: the next one ends a silence."""
        self.linked = False
        """A slave that follows the master of now."""
        self.starts = 0
        self._leaders, self._chance = leaders, chance
        self._sequence = 0
        self._connection = 0
        self.start()

    @property
    def incarnation(self) -> str:
        """Name of the present start."""
        return f"{self.name}-{self.broker_id}-{self.starts}"

    @property
    def newest_epoch(self) -> int:
        """The epoch of the last byte, -1 for an empty history."""
        return max(self.epochs, default=-1)

    def start(self) -> None:
        """The process comes up."""
        self.starts += 1
        self.runs, self.linked, self._sequence = True, False, 0

    def tell(self, kind: type[BrokerEvent], *fields: Any) -> None:  # type: ignore[type-arg]
        """Report a fact."""
        self._sequence += 1
        event_id = self._chance.getrandbits(128).to_bytes(16, "big")
        head = (
            event_id,
            REGENT,
            self.name,
            self.broker_id,
            self.incarnation,
            self._leaders.now_ms,
            self._sequence,
        )
        self._leaders.tell(kind(BrokerEventHeader(*head), *fields))

    def cut(self, end: int) -> None:
        """The log ends at `end` from here on; epochs that begin behind are forgotten."""
        self.end = end
        self.epochs = {epoch: start for epoch, start in self.epochs.items() if start <= end}

    def beat(self, liveness: Liveness, confirmed: int, timeout_ms: int, priority: int) -> None:
        """The newest heartbeat, some part of an interval ago."""
        key = (REGENT, self.name, self.broker_id)
        at_ms = self._leaders.now_ms - self._chance.randrange(BEAT_MS)
        before = liveness.pulse(key)
        if before is not None and before.is_alive(at_ms):
            at_ms = max(at_ms, before.heard_ms)
        heartbeat = Heartbeat(
            key,
            self.address,
            self.newest_epoch,
            self.end,
            min(confirmed, self.end),
            timeout_ms,
            priority,
            self.incarnation,
        )
        self._connection = 1_000 * self.starts + self.broker_id
        if self.away:
            at_ms = self._leaders.now_ms
            self._leaders.tell_silence(liveness.pulse(key), heartbeat)
        self.away = False
        liveness.heard(heartbeat, self._connection, at_ms)

    def dies(self, liveness: Liveness) -> None:
        """The process is gone: its connection closes, and its port refuses."""
        self.runs = self.linked = False
        self.away = True
        liveness.connection_closed(self._connection, self._leaders.now_ms)
        liveness.probe_result(self.address, "refused", self._leaders.now_ms)

    def is_member(self, broker_set: BrokerSet) -> bool:
        """Whether it belongs to the SyncStateSet."""
        return self.broker_id in broker_set.sync_state_set
