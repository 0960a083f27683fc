"""What sends need of the member of a majority group behind a broker's log.

Responsible for: whether it takes messages now and why not, new entries, and who waits until they
are committed. Refuses to know: how a member runs, requests, what a role means for a broker.

It is to sends what the driver of a replica of an in-sync set is (`Mastership` of
`brokers/service/sending/send.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.effects import AppendDone, NewEntry
from brokers.majority.wire.codes import Code
from brokers.replica.waiters import Confirmation, ConfirmWaiters


class Proposal:
    """The token of entries that were handed over together. `code`: what came of them, None while
    they wait for a majority.
    """

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code: Code | None = None

    def done(self, effect: AppendDone) -> None:
        """Its AppendDone."""
        self.code = effect.code


class Member(Protocol):
    """A member that runs, on the thread of its log."""

    @property
    def core(self) -> QuorumCore: ...
    def append(self, proposal: Proposal, entries: Sequence[NewEntry]) -> None:
        """`QuorumCore.append`, with all its effects before this returns: never called from within
        one. The last entry has the proposal as its token; its `done` hears the AppendDone.
        """
        ...

    def storage_failed(self, reason: str) -> None:
        """The disk refused something that is not an effect."""
        ...


class Leading:
    """Made for one member, for its whole life. Offsets are those of the broker's log."""

    def __init__(self, member: Member, now_ms: Callable[[], int]) -> None:
        self._member, self._now_ms = member, now_ms
        self._waiters: ConfirmWaiters[asyncio.Future[Confirmation]] = ConfirmWaiters(_release)
        self._committed = 0

    # -- what sends ask ----------------------------------------------------------------------------

    def leads(self) -> bool:
        """Whether the first entry of its term is committed: from there on it takes messages."""
        return self._member.core.ready

    def write_refusal(self) -> str | None:
        """Why no message is taken now."""
        code = self._member.core.append_refusal()
        return None if code is None else f"this member takes no messages: {code.name}"

    def log_grew(self, _end_offset: int) -> None:
        """A member sends its entries by itself."""

    def confirmation(self, end_offset: int, timeout_ms: int) -> asyncio.Future[Confirmation]:
        """What becomes of the entries up to there. All but CONFIRMED leave it open: the next leader
        may have them, or not.
        """
        future: asyncio.Future[Confirmation] = asyncio.get_running_loop().create_future()
        if not self.leads():
            future.set_result(Confirmation.ABORTED)
        elif end_offset <= self._committed:
            future.set_result(Confirmation.CONFIRMED)
        elif not self._waiters.add(end_offset, self._now_ms() + timeout_ms, future):
            future.set_result(Confirmation.TOO_MANY)
        return future

    def storage_failed(self, reason: str) -> None:
        self._member.storage_failed(reason)

    def propose(self, entries: Sequence[NewEntry]) -> Code:
        """See `appender.Propose`."""
        proposal = Proposal()
        last = replace(entries[-1], token=proposal)
        self._member.append(proposal, [*entries[:-1], last])
        return Code.SUCCESS if proposal.code is None else proposal.code

    # -- what its member tells it ------------------------------------------------------------------

    def committed(self, offset: int) -> None:
        """Everything in front of it is committed."""
        self._committed = offset
        if self._member.core.ready:
            self._waiters.confirm(offset)

    def role_changed(self) -> None:
        """Whoever waits was promised nothing by the next leader."""
        self._waiters.abort()

    def tick(self) -> None:
        """Every few dozen milliseconds."""
        self._waiters.expire(self._now_ms())


def _release(future: asyncio.Future[Confirmation], how: Confirmation) -> None:
    if not future.done():
        future.set_result(how)
