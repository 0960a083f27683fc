"""Requests for the leader that came to a standby (design D5).

Responsible for: holding them while nobody leads, handing them to the leader, and taking them back
when it could not answer; the command id given here makes every repeat harmless.
Refuses to know: who leads and how a call is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from msgspec.structs import replace

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR
from processors.controller.waiting import Waiter
from processors.liveness.pulses import BrokerKey
from processors.wire.operator_requests import COMMAND_BUILDERS

FORWARDED_MAX = 10_000
LEADERLESS_WAIT_MS = 1_000
"""A request that was sent to nobody is answered 2007 after this time without a leader."""
RETRY_AFTER_MS = 50


@dataclass(slots=True)
class Forwarded:
    """One request under way. `sent`: some leader may have acted on it."""

    waiter: Waiter
    request: RemotingCommand
    deadline_ms: int
    leaderless_until_ms: int
    not_before_ms: int
    sent: bool = False


class Forwarding:
    """Parked requests and those that are at the leader."""

    def __init__(self, deadline_ms: int, limit: int = FORWARDED_MAX) -> None:
        self._limit = limit
        self._deadline_ms = deadline_ms
        self._parked: list[Forwarded] = []
        self._away: dict[int, Forwarded] = {}
        self._token = 0

    @property
    def is_full(self) -> bool:
        return len(self._parked) + len(self._away) >= self._limit

    def park(self, waiter: Waiter, ids: Iterator[bytes], now_ms: int) -> None:
        """Take a request in; a command without an id of its own gets one."""
        ext = dict(waiter.request.ext)
        if waiter.request.code in COMMAND_BUILDERS and "regentCommandId" not in ext:
            ext["regentCommandId"] = next(ids).hex()
        self._parked.append(
            Forwarded(
                waiter,
                replace(waiter.request, ext=ext),
                deadline_ms=waiter.answer_by_ms(self._deadline_ms, now_ms),
                leaderless_until_ms=now_ms + LEADERLESS_WAIT_MS,
                not_before_ms=now_ms,
            )
        )

    def release(self) -> list[Forwarded]:
        """Everything parked, because this controller leads now."""
        parked, self._parked = self._parked, []
        return parked

    def to_send(self, now_ms: int) -> list[tuple[int, RemotingCommand, int]]:
        """(token, request, timeout in ms) of all that may go to the leader now."""
        sending: list[tuple[int, RemotingCommand, int]] = []
        staying: list[Forwarded] = []
        for one in self._parked:
            left_ms = one.deadline_ms - now_ms
            if now_ms < one.not_before_ms or left_ms <= 0:
                staying.append(one)
                continue
            self._token += 1
            self._away[self._token] = one
            one.sent = True
            ext = one.request.ext | {FORWARDED_FOR: one.waiter.peer}
            sending.append((self._token, replace(one.request, ext=ext), left_ms))
        self._parked = staying
        return sending

    def came_back(self, token: int) -> Forwarded | None:
        return self._away.pop(token, None)

    def park_again(self, one: Forwarded, now_ms: int) -> None:
        one.not_before_ms = now_ms + RETRY_AFTER_MS
        self._parked.append(one)

    def expired(self, now_ms: int) -> list[Forwarded]:
        """Those to be answered without a leader: 2007 when never sent, unknown otherwise."""
        late = [one for one in self._parked if self._is_late(one, now_ms)]
        if late:
            self._parked = [one for one in self._parked if not self._is_late(one, now_ms)]
        # The deadline is kept here, not by whoever makes the call; an answer that comes later finds
        # nobody.
        for token in [token for token, one in self._away.items() if now_ms >= one.deadline_ms]:
            late.append(self._away.pop(token))
        return late

    @staticmethod
    def _is_late(one: Forwarded, now_ms: int) -> bool:
        limit_ms = one.deadline_ms if one.sent else min(one.deadline_ms, one.leaderless_until_ms)
        return now_ms >= limit_ms


HEARD = "regentHeard"
HERE, RELAYED = "here", "relayed"
QUIET_MS = 3_000
"""Brokers heartbeat every second: most are heard by a new leader before this is over."""
SPREAD_MS = 3_000
ENOUGH_MS = 20_000
"""How long the leader's answer that it hears a broker itself holds before it is asked again."""
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
