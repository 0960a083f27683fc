"""One replica as one controller hears it (RULES 3.1 and 4.2).

Responsible for: the fields of a heartbeat, what is kept of them, why a replica counts as alive or
not, and whether the master of an imported set is still awaited. Refuses to know: connections,
probes and other replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from msgspec import Struct

from events.envelope import ReplicaEvidence
from processors.fold.candidates import REASON_ASKED, REASON_UNSHOWN
from processors.fold.state import BrokerSet, Replica

DEFAULT_TIMEOUT_MS = 10_000
DEFAULT_PRIORITY = 2_147_483_647
TIMEOUT_MS_MIN, TIMEOUT_MS_MAX = 100, 3_600_000
"""What a heartbeat may ask for: shorter falls silent between two heartbeats, longer hides a death.
0 and less: not alive.
"""
DIRECT_FOR_MS = 60_000
"""A broker that was heard here within this time is judged by that, whatever other controllers
hear.
"""
ARRIVAL_MS = 180_000
"""How long the master of an imported set may take to arrive after the first of its replicas (Java
brokers look for new controllers every 120 s). It goes on serving meanwhile; only a refused probe
says otherwise.
"""

NOTICE_TOKEN = "regentNoticeToken"
BrokerKey: TypeAlias = tuple[str, str, int]
"""(cluster name, broker name, broker controller id)"""

REASON_HEARTBEAT = "heartbeat"
REASON_CLOSED = "connection_closed"
REASON_REFUSED = "probe_refused"
REASON_EXPIRED = "heartbeat_expired"
REASON_NEVER_SEEN = "never_seen"
REASON_NOT_YET = "not_heard_yet"
REASON_AWAITED = "awaited"
REASON_NOT_FENCED = "not_fenced"


def timeout_within_bounds_ms(asked_ms: int) -> int:
    """How long a replica that asked for `asked_ms` counts as alive without a word."""
    return min(max(asked_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX) if asked_ms > 0 else asked_ms


class Heartbeat(Struct, frozen=True, gc=False):
    """The fields of a 904 (RULES 3.1), absent ones replaced by their defaults."""

    key: BrokerKey
    address: str
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    election_priority: int = DEFAULT_PRIORITY
    incarnation: str | None = None
    ha_address: str | None = None
    epoch_seen: int = -1
    """The highest master epoch it ever heard of, also in former lives; -1: it does not tell, as
    Java's do not.
    """
    set_epoch: int = -1
    """Of its SyncStateSet, sent by masters of ours."""
    notice_token: str | None = None
    """What a 1008 for it is to repeat."""


@dataclass(slots=True)
class Pulse:
    """Soft state of one replica. `conn_id` None: its last connection closed and none came back."""

    key: BrokerKey
    address: str
    conn_id: int | None
    heard_ms: int
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    election_priority: int = DEFAULT_PRIORITY
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    epoch_seen: int = -1
    incarnation: str | None = None
    gone: str | None = None
    gone_ms: int = 0
    closed_ms: int | None = None
    probes_due_ms: list[int] = field(default_factory=list)
    first_ms: int = 0
    direct_ms: int | None = None
    """When this start of it was last heard here; None when only another controller has heard it."""
    host: str = ""
    """From where its newest heartbeat came to this controller; empty when another controller passed
    it on.
    """
    notice_token: str | None = None
    """What a 1008 for it is to repeat; shown to nobody."""
    relayed: bool = False
    """The newest heartbeat came by way of another controller."""
    is_unshown: bool = False
    """It started anew and has not shown its log since."""
    before: tuple[int, int] = (-1, -1)
    """(epoch, offset): how far a former start of it held what was confirmed, as far as it told."""
    look_ms: int | None = None
    """The moment `PulseWatch` has noted for it."""

    def take_beat(self, beat: Heartbeat, now_ms: int, relayed: bool, host: str = "") -> None:
        self.relayed, self.host = relayed, host
        self.timeout_ms = beat.timeout_ms
        self.election_priority = beat.election_priority
        self.notice_token = beat.notice_token
        self.epoch_seen = max(self.epoch_seen, beat.epoch_seen)
        if not relayed:
            self.direct_ms = now_ms

    def take_position(self, beat: Heartbeat) -> None:
        """It moves only forward: heartbeats by way of other controllers come late."""
        self.is_unshown = False
        if (beat.epoch, beat.max_offset) == (self.epoch, self.max_offset):
            self.confirm_offset = max(self.confirm_offset, beat.confirm_offset)
        elif (beat.epoch, beat.max_offset) > (self.epoch, self.max_offset):
            self.epoch = beat.epoch
            self.max_offset = beat.max_offset
            self.confirm_offset = beat.confirm_offset

    def starts_anew(self) -> None:
        """Its former statement about its log is void, and what it held is expected of it (S15)."""
        self.before = max(self.before, (self.epoch, min(self.confirm_offset, self.max_offset)))
        self.epoch = self.max_offset = self.confirm_offset = -1
        self.is_unshown = True

    def is_heard_here(self, now_ms: int) -> bool:
        """True when this controller judges by its own ears; falling silent it stays so for a
        while.
        """
        return self.direct_ms is not None and now_ms < self.direct_ms + DIRECT_FOR_MS

    def is_alive(self, now_ms: int) -> bool:
        return self.reason(now_ms) == REASON_HEARTBEAT

    def reason(self, now_ms: int) -> str:
        if self.gone is not None:
            return self.gone
        if self.timeout_ms <= 0 or now_ms > self.heard_ms + self.timeout_ms:
            return REASON_EXPIRED
        if self.conn_id is None:
            return REASON_CLOSED
        return REASON_HEARTBEAT


def is_awaited(
    broker_set: BrokerSet, replica: Replica, heard: Iterable[Pulse], now_ms: int
) -> bool:
    """Whether `replica`, never heard here, is the master of an imported set that has not turned to
    us yet.

    `heard`: the pulses of its set. The time runs from the first of them.
    """
    if not broker_set.imported or replica.broker_id != broker_set.master_broker_id:
        return False
    begun = min((pulse.first_ms for pulse in heard), default=now_ms)
    return now_ms < begun + ARRIVAL_MS


def may_still_acknowledge(broker_set: BrokerSet, replica: Replica, pulse: Pulse) -> bool:
    """Whether a replica of an uncertain set may not have heard that all masters of before are over
    (design S11).

    Until it has, what it holds may grow, or be acknowledged by less than it knows. Java's brokers
    tell nothing of it.
    """
    return (
        bool(broker_set.uncertain)
        and replica.is_regent
        and pulse.epoch_seen < broker_set.master_epoch
    )


def evidence_row(
    replica: Replica,
    pulse: Pulse | None,
    reason: str,
    asked: bool,
    now_ms: int,
    is_early: bool = False,
) -> ReplicaEvidence:
    """What is known of `replica` now. `asked`: it asks itself, so it lives, heartbeat or not
    (RULES 16, row 8).

    `is_early`: this controller began to listen a moment ago, so a replica that registered and that
    it never heard may live all the same.
    """
    incarnation = pulse.incarnation if pulse is not None else None
    if is_early and reason == REASON_NEVER_SEEN and replica.is_registered:
        reason = REASON_NOT_YET
    if asked and reason not in (REASON_HEARTBEAT, REASON_NOT_FENCED, REASON_UNSHOWN):
        # What a former start of it told is not this one's: it counts as what it was, and the
        # registration instead (S5).
        reason, incarnation = REASON_ASKED, replica.incarnation if pulse is None else incarnation
    return ReplicaEvidence(
        broker_id=replica.broker_id,
        alive=reason in (REASON_HEARTBEAT, REASON_ASKED, REASON_AWAITED),
        reason=reason,
        silent_ms=-1 if pulse is None else max(0, now_ms - pulse.heard_ms),
        epoch=-1 if pulse is None else pulse.epoch,
        max_offset=-1 if pulse is None else pulse.max_offset,
        confirm_offset=-1 if pulse is None else pulse.confirm_offset,
        election_priority=DEFAULT_PRIORITY if pulse is None else pulse.election_priority,
        incarnation=incarnation,
    )


GONE_KEPT_MS = 60_000
"""When there are too many pulses, replicas that have been gone for this long are dropped."""
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
        """Pulses that are due, each once. Call `keep` for those to be checked
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
