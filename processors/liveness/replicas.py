"""Who is alive, as one controller sees it (RULES 4.2 and 8, design D8).

Responsible for: one pulse per (cluster, set, broker id), what closed connections, refused probes
and silence make of it, and the evidence a command carries away.
Refuses to know: what is decided because of it, and what time it is (`now_ms` is an argument,
monotonic).

A closed connection is a hint: the replica is no candidate until it is heard again, but it is only
called gone when its port refuses (or its own timeout passes).
"""

from __future__ import annotations

from collections.abc import Iterator

from events.envelope import ReplicaEvidence
from processors.fold.candidates import REASON_STALE, REASON_UNSHOWN
from processors.fold.state import BrokerSet, Replica
from processors.liveness.heard_losses import expected_of
from processors.liveness.pulses import (
    DEFAULT_TIMEOUT_MS,
    REASON_AWAITED,
    REASON_EXPIRED,
    REASON_HEARTBEAT,
    REASON_NEVER_SEEN,
    REASON_NOT_FENCED,
    REASON_REFUSED,
    BrokerKey,
    Heartbeat,
    Pulse,
    PulsesByAddress,
    PulseWatch,
    evidence_row,
    is_awaited,
    may_still_acknowledge,
)

PULSES_MAX = 50_000
"""A flood of invented names must not grow memory without end."""
OWN_STALL_MS = 1_000
"""A gap between two ticks above this is our own standstill and is not held against anybody."""
COUNT_EVERY_MS = 500
PROBE_AGAIN_MS = (30, 100, 300, 1_000)
"""A dying process may close its listening socket after the connection: ask again a few times."""


class Liveness:
    """The pulses of every replica that ever spoke to this controller process."""

    def __init__(self) -> None:
        self._pulses: dict[BrokerKey, Pulse] = {}
        self._watch = PulseWatch(self._pulses)
        self._by_conn: dict[int, set[BrokerKey]] = {}
        self._at = PulsesByAddress()
        self._ticked_ms: int | None = None
        self._early_until_ms = 0
        self._probing: set[str] = set()
        self._refused: set[str] = set()
        self._counted: tuple[int, int] = (0, 0)
        self.silences = 0
        """How often a replica fell silent. While it stays, silence has not spread."""

    def pulse(self, key: BrokerKey) -> Pulse | None:
        return self._pulses.get(key)

    def heard_count(self, now_ms: int) -> int:
        """How many replicas are heard, as it was counted within the last `COUNT_EVERY_MS`."""
        due_ms, count = self._counted
        if now_ms >= due_ms:
            count = sum(
                pulse.gone is None
                and pulse.conn_id is not None
                and not pulse.relayed
                and 0 < pulse.timeout_ms >= now_ms - pulse.heard_ms
                for pulse in self._pulses.values()
            )
            self._counted = now_ms + COUNT_EVERY_MS, count
        return count

    def pulses(self) -> Iterator[Pulse]:
        return iter(self._pulses.values())

    def heard(
        self, beat: Heartbeat, conn_id: int, now_ms: int, relayed: bool = False, host: str = ""
    ) -> bool:
        """Take a heartbeat that came from `host`; True when this replica had been gone, or its
        connection lost, until now.

        The connection is bound anew by every heartbeat (defect 1 of RULES 15).
        """
        pulse, returned = self._touch(beat.key, beat.address, beat.incarnation, conn_id, now_ms)
        if pulse is None:
            return False
        pulse.take_beat(beat, now_ms, relayed, host)
        pulse.take_position(beat)
        self._watch.keep(pulse)
        return returned and beat.timeout_ms > 0

    def introduced(
        self,
        key: BrokerKey,
        address: str,
        incarnation: str | None,
        position: tuple[int, int] | None,
        conn_id: int,
        now_ms: int,
        notice_token: str | None = None,
    ) -> None:
        """A registration is a sign of life too; `position` is (last epoch, end offset) if it was
        stated.
        """
        pulse, _ = self._touch(key, address, incarnation, conn_id, now_ms)
        if pulse is None:
            return
        pulse.notice_token = notice_token
        pulse.direct_ms = None  # A start may know other controllers than the one before.
        if position is not None:
            pulse.epoch, pulse.max_offset = position
        self._watch.keep(pulse)

    def starts_anew(self, key: BrokerKey) -> None:
        """A replica without an incarnation registered without its position: it is another start."""
        pulse = self._pulses.get(key)
        if pulse is not None:
            pulse.starts_anew()

    def _touch(
        self, key: BrokerKey, address: str, incarnation: str | None, conn_id: int, now_ms: int
    ) -> tuple[Pulse | None, bool]:
        pulse = self._pulses.get(key)
        returned = False
        if pulse is None:
            if len(self._pulses) >= PULSES_MAX and not self._make_room(now_ms):
                return None, False
            pulse = self._pulses[key] = Pulse(
                key, address, None, now_ms, incarnation=incarnation, first_ms=now_ms
            )
            self._at.enter(pulse)
            returned = True
        elif not pulse.is_alive(now_ms):
            returned = True
        if pulse.incarnation != incarnation:
            # Another life of that broker: what the former one told about its log is void (S5).
            pulse.incarnation, pulse.direct_ms = incarnation, None
            pulse.epoch = pulse.max_offset = pulse.confirm_offset = pulse.epoch_seen = -1
        self._refused.discard(address)
        if pulse.address != address:
            self._at.move(pulse, address)
        pulse.heard_ms = now_ms
        pulse.gone, pulse.closed_ms = None, None
        pulse.probes_due_ms.clear()
        self._bind(pulse, conn_id)
        return pulse, returned

    def _make_room(self, now_ms: int) -> bool:
        """Drop replicas that have been gone for long, so that new ones can be tracked; their
        registration is in the log.
        """
        for pulse in self._watch.long_gone(now_ms):
            self._bind(pulse, None)
            self._at.leave(pulse)
            del self._pulses[pulse.key]
        return len(self._pulses) < PULSES_MAX

    def _bind(self, pulse: Pulse, conn_id: int | None) -> None:
        if pulse.conn_id == conn_id:
            return
        if pulse.conn_id is not None:
            keys = self._by_conn.get(pulse.conn_id)
            if keys is not None:
                keys.discard(pulse.key)
                if not keys:
                    del self._by_conn[pulse.conn_id]
        pulse.conn_id = conn_id
        if conn_id is not None:
            self._by_conn.setdefault(conn_id, set()).add(pulse.key)

    def connection_closed(self, conn_id: int, now_ms: int) -> list[str]:
        """The addresses to probe at once. A close of a connection nobody is bound to means
        nothing.
        """
        addresses: list[str] = []
        for key in sorted(self._by_conn.pop(conn_id, ())):
            pulse = self._pulses[key]
            pulse.conn_id = None
            pulse.closed_ms = now_ms
            pulse.probes_due_ms = [now_ms + after for after in PROBE_AGAIN_MS]
            self._watch.keep(pulse)
            addresses.append(pulse.address)
        return self.want_probes(addresses)

    def want_probes(self, addresses: list[str]) -> list[str]:
        """Those of `addresses` that are not being probed already; they count as being probed
        now.
        """
        wanted = [address for address in dict.fromkeys(addresses) if address not in self._probing]
        self._probing.update(wanted)
        return wanted

    def probe_result(self, address: str, result: str, now_ms: int) -> list[BrokerKey]:
        """The replicas that are gone because `address` refused.

        A pulse with an open connection is left alone: the heartbeat came after the question.
        """
        self._probing.discard(address)
        if result != "refused":
            self._refused.discard(address)
            return []
        if len(self._refused) < PULSES_MAX:
            self._refused.add(address)
        gone: list[BrokerKey] = []
        for key in sorted(self._at.at(address)):
            pulse = self._pulses[key]
            if pulse.conn_id is None and pulse.gone is None:
                self._bury(pulse, REASON_REFUSED, now_ms)
                gone.append(key)
        return gone

    def _bury(self, pulse: Pulse, reason: str, now_ms: int) -> None:
        pulse.gone, pulse.gone_ms = reason, now_ms
        pulse.probes_due_ms.clear()

    def tick(self, now_ms: int) -> tuple[list[BrokerKey], list[str]]:
        """Replicas that fell silent since the last tick, and addresses to probe again."""
        self._forgive_own_stall(now_ms)
        expired: list[BrokerKey] = []
        probes: list[str] = []
        for pulse in self._watch.due(now_ms):
            if pulse.gone is not None:
                continue
            if now_ms > pulse.heard_ms + pulse.timeout_ms:
                self._bury(pulse, REASON_EXPIRED, now_ms)
                self.silences += 1
                if pulse.timeout_ms > 0:  # Else it never was alive: that is no news.
                    expired.append(pulse.key)
                continue
            if pulse.probes_due_ms and now_ms >= pulse.probes_due_ms[0]:
                pulse.probes_due_ms = [due_ms for due_ms in pulse.probes_due_ms if due_ms > now_ms]
                probes.append(pulse.address)
            self._watch.keep(pulse)
        return sorted(expired), self.want_probes(probes)

    def _forgive_own_stall(self, now_ms: int) -> None:
        # Heartbeats of the time we stood still wait unread in our sockets.
        before, self._ticked_ms = self._ticked_ms, now_ms
        self._early_until_ms = self._early_until_ms or now_ms + DEFAULT_TIMEOUT_MS
        if before is None or now_ms - before <= OWN_STALL_MS:
            return
        for pulse in self._pulses.values():
            if pulse.gone is None:
                pulse.heard_ms += now_ms - before

    def reason_of(self, broker_set: BrokerSet, replica: Replica, now_ms: int) -> str:
        """One of the `REASON_*` words; `heartbeat` and `awaited` mean alive."""
        pulse = self._pulse_of(broker_set, replica)
        if pulse is None and replica.address in self._refused:
            return REASON_REFUSED
        if pulse is None:
            awaited = is_awaited(broker_set, replica, self._heard_of(broker_set), now_ms)
            return REASON_AWAITED if awaited else REASON_NEVER_SEEN
        reason = pulse.reason(now_ms)
        if reason == REASON_HEARTBEAT and replica.incarnation not in (None, pulse.incarnation):
            return REASON_STALE
        if reason == REASON_HEARTBEAT and may_still_acknowledge(broker_set, replica, pulse):
            return REASON_NOT_FENCED
        if (
            reason == REASON_HEARTBEAT
            and pulse.is_unshown
            and expected_of(broker_set, replica, pulse.before) is not None
        ):
            return REASON_UNSHOWN
        return reason

    def is_alive(self, broker_set: BrokerSet, replica: Replica, now_ms: int) -> bool:
        return self.reason_of(broker_set, replica, now_ms) in (REASON_HEARTBEAT, REASON_AWAITED)

    def awaited(self, broker_set: BrokerSet, now_ms: int) -> str | None:
        """The address of an imported master that others of its set arrived before: it is to be
        probed.
        """
        master = broker_set.master() if broker_set.imported else None
        if master is None or self.reason_of(broker_set, master, now_ms) != REASON_AWAITED:
            return None
        return master.address if any(self._heard_of(broker_set)) else None

    def _heard_of(self, broker_set: BrokerSet) -> Iterator[Pulse]:
        pulses = (self._pulse_of(broker_set, replica) for replica in broker_set.replicas)
        return (pulse for pulse in pulses if pulse is not None)

    def is_gone(self, broker_set: BrokerSet, replica: Replica, now_ms: int) -> bool:
        """Refused or silent; a mere closed connection, or never having been heard, is not gone."""
        return self.reason_of(broker_set, replica, now_ms) in (REASON_REFUSED, REASON_EXPIRED)

    def _pulse_of(self, broker_set: BrokerSet, replica: Replica) -> Pulse | None:
        return self._pulses.get(
            (broker_set.cluster_name, broker_set.broker_name, replica.broker_id)
        )

    def evidence(
        self, broker_set: BrokerSet | None, now_ms: int, asked_by: int | None = None
    ) -> tuple[ReplicaEvidence, ...]:
        """One row per registered replica, by id, as it is seen now. `asked_by`: the broker whose
        own request is being made into a command lives, heartbeat or not (RULES 16, broker
        row 8).
        """
        if broker_set is None:
            return ()
        return tuple(
            evidence_row(
                replica,
                self._pulse_of(broker_set, replica),
                self.reason_of(broker_set, replica, now_ms),
                replica.broker_id == asked_by,
                now_ms,
                is_early=now_ms < self._early_until_ms,
            )
            for replica in broker_set.replicas
        )
