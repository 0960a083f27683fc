"""When a controller asks to lead (design D6).

Responsible for: what is known of the other controllers, and whether a claim is due now.
Refuses to know: whether the claim wins (the fold decides), sockets, clocks.

Nothing here is needed for safety: two claims at once cost one refusal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

PEER_HEARTBEAT_MS = 200
LEADER_SILENCE_MS = 1_000
CLAIM_STAGGER_MS = 150
"""The second in rank waits this much longer than the first, so that they seldom race."""
CLAIM_RETRY_MS = 2_000
CLAIM_MEMORY_MS = 30_000
SILENCE_DOUBLINGS_MAX = 5
"""Two controllers that cannot hear each other must not depose each other every second."""
CHANGES_MEMORY_MS = 600_000
CHANGES_KEPT = 100
UNLISTED_DOUBLINGS_MAX = 6
"""A leader that is none of the configured peers cannot be heard: it is deposed once a minute at
most.
"""
OWN_STALL_MS = 500
CAUSE_NOT_ABLE = "leader_not_able"
PROBE_AGAIN_MS = (20, 60, 150)
"""A dying process may close its listening socket after its connections: ask again a few times."""


@dataclass(slots=True)
class PeerSight:
    """The last that was heard from one other controller. `gone_ms`: its port refused since then.

    `led_ms`: when a command of its came back through the log, in the term that it leads.
    """

    address: str
    heard_ms: int | None = None
    active: bool = False
    able: bool = True
    term: int = 0
    led_ms: int = 0
    gone_ms: int | None = None
    probes_due_ms: list[int] = field(default_factory=list)


class Leadership:
    """One controller's view of who leads. `note_state` must be called after every applied
    command.
    """

    def __init__(self, own_id: str, peers: Mapping[str, str]) -> None:
        self._own_id = own_id
        self.peers = {peer: PeerSight(address) for peer, address in peers.items() if peer != own_id}
        self._term = -1
        self._leader_id: str | None = None
        self._own_term: int | None = None
        self._since_ms: int | None = None
        self._unled_ms: int | None = None
        self._claimed_ms: int | None = None
        self._claims: deque[int] = deque(maxlen=SILENCE_DOUBLINGS_MAX + 2)
        self._changes: deque[int] = deque(maxlen=CHANGES_KEPT)
        self._unlisted: deque[int] = deque(maxlen=UNLISTED_DOUBLINGS_MAX + 1)
        self._ticked_ms: int | None = None

    @property
    def is_active(self) -> bool:
        """True when the claim *of this process* is the newest one; one of a former life does not
        count.
        """
        return self._own_term is not None and self._own_term == self._term

    def note_state(self, term: int, leader_id: str | None, own_claim: bool, now_ms: int) -> None:
        """Follow the fold. `own_claim`: the command just applied was a claim of this process."""
        if own_claim and leader_id == self._own_id:
            self._own_term = term
        if own_claim or term != self._term:
            self._claimed_ms = None
        if term != self._term or leader_id != self._leader_id:
            if self._term >= 0:
                self._claims.append(now_ms)
                self._changes.append(now_ms)
            self._term, self._leader_id = term, leader_id
            self._since_ms, self._unled_ms = now_ms, None
            if self.unlisted_leader is not None:
                self._unlisted.append(now_ms)

    @property
    def unlisted_leader(self) -> str | None:
        """The leader when it is neither this controller nor one of its configured peers."""
        leader = self._leader_id
        return None if leader in (None, self._own_id) or leader in self.peers else leader

    def changes(self, now_ms: int) -> int:
        """How often another claim won within the last CHANGES_MEMORY_MS; at most CHANGES_KEPT."""
        return sum(1 for at_ms in self._changes if now_ms - at_ms < CHANGES_MEMORY_MS)

    def heard(self, peer_id: str, active: bool, able: bool, term: int, now_ms: int) -> None:
        sight = self.peers.get(peer_id)
        if sight is None:
            return
        sight.heard_ms, sight.gone_ms = now_ms, None
        sight.probes_due_ms.clear()
        sight.active = active
        sight.able = able
        sight.term = term

    def heard_through_log(self, issuer: str, term: int, now_ms: int) -> None:
        """A command of the leader that came back through the log shows that it lives."""
        sight = self.peers.get(issuer)
        if sight is not None and issuer == self._leader_id and term == self._term:
            sight.led_ms = now_ms

    def refused(self, address: str, now_ms: int) -> bool:
        """A probe of `address` was refused. True when a controller lives (or lived) there."""
        known = False
        for sight in self.peers.values():
            if sight.address == address:
                known = True
                sight.probes_due_ms.clear()
                if sight.gone_ms is None:
                    sight.gone_ms = now_ms
        return known

    def lost(self, address: str, now_ms: int) -> None:
        """The connection to `address` is gone: it is probed now, and a few times more."""
        for sight in self.peers.values():
            if sight.address == address:
                sight.probes_due_ms = [now_ms + after_ms for after_ms in PROBE_AGAIN_MS]

    def probes_due(self, now_ms: int) -> list[str]:
        """The addresses of peers that must be probed (again) now."""
        due: list[str] = []
        for sight in self.peers.values():
            waiting = [at_ms for at_ms in sight.probes_due_ms if at_ms > now_ms]
            if len(waiting) < len(sight.probes_due_ms):
                due.append(sight.address)
            sight.probes_due_ms = waiting
        return due

    def leader_lost_ms(self, now_ms: int) -> int | None:
        """Since when nobody leads as far as can be told from here; None while somebody does."""
        if self.is_active:
            return None
        sight = self.peers.get(self._leader_id or "")
        if sight is None:  # Nobody, a stranger, or this controller in a former life.
            if self.unlisted_leader is not None:
                return self._silent_since(0, now_ms, self._unlisted_limit_ms(now_ms))
            return self._unled(now_ms)
        if sight.gone_ms is not None:
            return sight.gone_ms
        if sight.heard_ms is not None and sight.term >= self._term:
            if not (sight.active and sight.able):
                return self._unled(now_ms)
        self._unled_ms = None
        # A leader that is heard and still knows an older term has not applied its own claim: it
        # leads nobody.
        heard_ms = sight.heard_ms if sight.term >= self._term else None
        return self._silent_since(max(heard_ms or 0, sight.led_ms), now_ms)

    @property
    def unled_since_ms(self) -> int:
        """Since when the leader is heard to lead no more; 0 when that is not so."""
        return self._unled_ms or 0

    def _unled(self, now_ms: int) -> int:
        if self._unled_ms is None:
            self._unled_ms = now_ms
        return self._unled_ms

    def _silent_since(
        self, heard_ms: int, now_ms: int, silence_ms: int | None = None
    ) -> int | None:
        last_ms = max(heard_ms, self._since_ms if self._since_ms is not None else now_ms)
        limit_ms = last_ms + (silence_ms or self._silence_limit_ms(now_ms))
        return limit_ms if now_ms > limit_ms else None

    def _silence_limit_ms(self, now_ms: int) -> int:
        recent = sum(1 for at_ms in self._claims if now_ms - at_ms < CLAIM_MEMORY_MS)
        # The first claim of a cluster and one failover are no sign of a quarrel.
        return LEADER_SILENCE_MS << min(max(0, recent - 2), SILENCE_DOUBLINGS_MAX)

    def _unlisted_limit_ms(self, now_ms: int) -> int:
        """Longer each time: without its heartbeats nothing shows whether it lives."""
        recent = sum(1 for at_ms in self._unlisted if now_ms - at_ms < CHANGES_MEMORY_MS)
        return LEADER_SILENCE_MS << min(max(0, recent - 1), UNLISTED_DOUBLINGS_MAX)

    def rank(self) -> int:
        """Place in the deterministic order of those who may claim, 0 first."""
        claimants = [self._own_id]
        for peer_id, sight in self.peers.items():
            if peer_id != self._leader_id and sight.gone_ms is None and sight.able:
                claimants.append(peer_id)
        if self._leader_id == self._own_id:
            # This process comes back after a crash: those who stayed up go first.
            return len(claimants) - 1
        return sorted(claimants).index(self._own_id)

    def tick(self, now_ms: int) -> None:
        """Forgive our own standstill: what peers said meanwhile waits unread in our sockets."""
        before, self._ticked_ms = self._ticked_ms, now_ms
        if before is None:
            # Nobody could be heard before the first tick: silence is counted from here on.
            self._since_ms = now_ms
            return
        if now_ms - before <= OWN_STALL_MS:
            return
        for sight in self.peers.values():
            if sight.heard_ms is not None:
                sight.heard_ms += now_ms - before
            sight.led_ms += now_ms - before
        if self._since_ms is not None:
            self._since_ms += now_ms - before

    def claim_due(self, now_ms: int) -> bool:
        """True when this controller should append a claim now; the caller then calls `claimed`."""
        lost_ms = self.leader_lost_ms(now_ms)
        if lost_ms is None:
            return False
        if self._claimed_ms is not None and now_ms - self._claimed_ms < CLAIM_RETRY_MS:
            return False
        return now_ms >= lost_ms + self.rank() * CLAIM_STAGGER_MS

    def claimed(self, now_ms: int) -> None:
        self._claimed_ms = now_ms

    def claim_cause(self) -> str:
        """Why a claim is made, for the record."""
        if self._leader_id is None:
            return "no_leader"
        if self._leader_id == self._own_id:
            return "leader_restarted"
        sight = self.peers.get(self._leader_id)
        if sight is not None and sight.gone_ms is not None:
            return "leader_probe_refused"
        if sight is not None and sight.heard_ms is not None and self._unled_ms is not None:
            return "leader_stepped_down" if not sight.active else CAUSE_NOT_ABLE
        return "leader_silent"
