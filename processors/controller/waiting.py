"""Commands of this controller that are on their way through the log.

Responsible for: who waits for which command id, since when, and the stamps of its phases.
Refuses to know: what the commands say, and how answers look.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx

PENDING_MAX = 20_000


class Purpose(Enum):
    """Why the command was issued."""

    REQUEST = "request"
    ELECTION = "election"
    CLAIM = "claim"
    FORMATION = "formation"


@dataclass(frozen=True, slots=True)
class Waiter:
    """Someone to be answered: the connection, its far end, and the request itself."""

    conn_id: int
    peer: str
    request: RemotingCommand
    arrived_ms: int | None = None
    """When it came to this controller (monotonic): whichever part holds it, it waits no longer than
    the deadline.
    """

    def answer_by_ms(self, deadline_ms: int, now_ms: int) -> int:
        """The moment by which it must have been answered."""
        return (now_ms if self.arrived_ms is None else self.arrived_ms) + deadline_ms

    def answer(self, response: RemotingCommand, status: str = "success") -> list[fx.Effect]:
        """The answer on its way; a one-way request never gets one, however late (RULES
        1).
        """
        return [] if self.request.is_oneway else [fx.Reply(self.conn_id, response, status)]


@dataclass(slots=True)
class PendingCommand:
    """One command between its append and the moment this controller applies it. Stamps are wall
    ms.
    """

    command_id: bytes
    purpose: Purpose
    issued_ms: int
    term: int
    phases: dict[str, int]
    waiters: list[Waiter] = field(default_factory=list)
    unknown: bool = False
    """The producer could not say whether the record is in the log."""


class PendingCommands:
    """By command id, in the order of issue."""

    def __init__(self, deadline_ms: int, limit: int = PENDING_MAX) -> None:
        self._deadline_ms = deadline_ms
        self._limit = limit
        self._by_id: dict[bytes, PendingCommand] = {}
        # Those with somebody who had waited elsewhere before: their time is over sooner.
        self._hurried: dict[bytes, PendingCommand] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def is_full(self) -> bool:
        return len(self._by_id) >= self._limit

    def get(self, command_id: bytes) -> PendingCommand | None:
        return self._by_id.get(command_id)

    def add(self, pending: PendingCommand) -> None:
        """A repeat of an id joins the present waiters."""
        before = self.take(pending.command_id)
        if before is not None:
            pending.waiters[:0] = before.waiters
        self._by_id[pending.command_id] = pending
        for waiter in pending.waiters:
            self._note_hurry(pending, waiter)

    def join(self, pending: PendingCommand, waiter: Waiter) -> None:
        """One more waiter for a command under way."""
        pending.waiters.append(waiter)
        self._note_hurry(pending, waiter)

    def _note_hurry(self, pending: PendingCommand, waiter: Waiter) -> None:
        if waiter.arrived_ms is not None and waiter.arrived_ms < pending.issued_ms:
            self._hurried[pending.command_id] = pending

    def take(self, command_id: bytes) -> PendingCommand | None:
        self._hurried.pop(command_id, None)
        return self._by_id.pop(command_id, None)

    def has(self, purpose: Purpose) -> bool:
        return any(one.purpose is purpose for one in self._by_id.values())

    def oldest_age_ms(self, now_ms: int) -> int:
        """Age of the command that waits longest; 0 when none waits."""
        first = next(iter(self._by_id.values()), None)
        return 0 if first is None else now_ms - first.issued_ms

    def expired(self, now_ms: int) -> list[PendingCommand]:
        """Those past the deadline; they are forgotten here, though they may still come to be
        applied.
        """
        late: list[PendingCommand] = []
        for pending in self._by_id.values():
            if now_ms - pending.issued_ms < self._deadline_ms:
                break
            late.append(pending)
        for pending in late:
            self.take(pending.command_id)
        return late

    def impatient(self, now_ms: int) -> list[Waiter]:
        """Waiters that came from another part and whose own time is over; the command stays."""
        late: list[Waiter] = []
        for pending in self._hurried.values():
            for waiter in tuple(pending.waiters):
                if now_ms >= waiter.answer_by_ms(self._deadline_ms, pending.issued_ms):
                    pending.waiters.remove(waiter)
                    late.append(waiter)
        return late
