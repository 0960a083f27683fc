"""Brokers' heartbeats that a standby hands on to the leader (defect 16 of controller.md 15). (P)

A broker heartbeats to the controllers that its file names, and the leader may be none of them: it
would hear nobody and depose a healthy master. So a standby hands on what it hears, until the leader
says that it hears that broker itself.
Responsible for: which heartbeat is handed on, and when the leader has said enough.
Refuses to know: how a call is made, and what the leader makes of it.
"""

from __future__ import annotations

from zlib import crc32

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from processors.liveness.pulses import BrokerKey

HEARD = "regentHeard"
HERE, RELAYED = "here", "relayed"
QUIET_MS = 3_000
"""Brokers heartbeat every second: most are heard by a new leader before this is over."""
SPREAD_MS = 3_000
ENOUGH_MS = 20_000
"""For so long the leader's word that it hears a broker itself is not asked for again."""
AWAY_MAX = 256
KEYS_MAX = 50_000


class HeartbeatRelay:
    """The memory of one standby. Tokens are negative, so that no forwarded request has the same."""

    def __init__(self) -> None:
        self._leader: str | None = None
        self._since_ms = 0
        self._enough: dict[BrokerKey, int] = {}
        self._away: dict[int, BrokerKey] = {}
        self._token = 0

    def begin(self, key: BrokerKey, leader: str | None, now_ms: int, *, anew: bool) -> int | None:
        """The token under which this heartbeat is to be handed on now; `anew`: the broker had been
        away.
        """
        # One that was out of sight for a moment is not new.
        if leader is not None and leader != self._leader:
            self._leader, self._since_ms = leader, now_ms
            self._enough.clear()
        if anew:
            self._enough.pop(key, None)
        if leader is None or len(self._away) >= AWAY_MAX or now_ms < self._enough.get(key, 0):
            return None
        if now_ms < self._since_ms + QUIET_MS + crc32(repr(key).encode()) % SPREAD_MS:
            return None
        self._token -= 1
        self._away[self._token] = key
        return self._token

    def answered(self, token: int, response: RemotingCommand | None, now_ms: int) -> None:
        """The leader's word on it; none, or that it leads no more: the next heartbeat is handed on
        as well.
        """
        key = self._away.pop(token, None)
        if key is None or response is None or response.code != ResponseCode.SUCCESS:
            return
        # An older release says nothing: it has no use for them.
        if response.ext.get(HEARD) != RELAYED:
            if len(self._enough) >= KEYS_MAX:
                self._enough.clear()
            self._enough[key] = now_ms + ENOUGH_MS
