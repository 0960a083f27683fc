"""Messages that this broker itself puts into its log: delivered ones, retries, dead letters
(PROTOCOL 4.14, design S1).

Responsible for: the same terms as a producer's send has: only the master writes, never without
hope, and what is answered as stored is held by every member. Refuses to know: what the messages
are for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from brokers.clock import Clock
from brokers.replica.put_rules import PutStatus, admit, code_of, combine
from brokers.replica.waiters import Confirmation
from brokers.service.role.role_view import RoleView
from brokers.service.sending.log_writes import NotPut, into_log
from brokers.service.sending.send import SendTerms
from brokers.store.appender import PutResult
from brokers.store.log.group_commit import Flushed
from brokers.store.log.records import MessageFields, RecordError
from brokers.store.store import MessageStore

_log = logging.getLogger("regent.broker.sends")


class PutOutcome(NamedTuple):
    """What became of one message."""

    status: PutStatus
    result: PutResult


class OwnPuts:
    """On the store's thread."""

    def __init__(
        self, store: MessageStore, roles: RoleView, clock: Clock, terms: SendTerms
    ) -> None:
        self._store = store
        self._roles = roles
        self._clock = clock
        self._mastership, self._ack_timeout_ms = terms.mastership, terms.ack_timeout_ms
        self.store_host = terms.store_host
        self._together: list[tuple[Sequence[MessageFields], asyncio.Future[PutStatus]]] = []
        self._settling: set[asyncio.Future[Any]] = set()
        self.waiting = 0
        """Messages that are in the log and whose outcome somebody waits for."""

    @property
    def safe_offset(self) -> int:
        """See `outlet.Outlet`: what is on the disk and with every member, as far as known."""
        return self._store.durable_offset

    @property
    def is_full(self) -> bool:
        """The log refuses by itself."""
        return False

    def append(self, messages: Sequence[MessageFields]) -> list[PutResult | RecordError]:
        """Into the log of this master, at once; who needs them confirmed looks at the confirm
        offset. A message that cannot be stored gets its RecordError. NotPut.
        """
        mastership = self._mastership
        if not self._roles.serves(writes=True) or not mastership.leads():
            raise NotPut(*code_of(PutStatus.SERVICE_NOT_AVAILABLE, "this broker is not the master"))
        refused = admit(mastership.write_refusal(), waits=True)
        if refused is not None:
            raise NotPut(*refused)
        try:
            results = into_log(self._store, [(each,) for each in messages], self._clock.wall_ms())
        except NotPut as refusal:
            if refusal.disk_failed is not None:
                _log.error("the log refused a write: %s", refusal.disk_failed)
                mastership.storage_failed(refusal.disk_failed)
            raise
        mastership.log_grew(self._store.log_end)
        return results

    async def put(self, message: MessageFields) -> PutOutcome:
        """One message, until every member has it, as a send that waits. NotPut."""
        (result,) = self.append((message,))
        if isinstance(result, RecordError):
            raise NotPut(*code_of(PutStatus.MESSAGE_ILLEGAL, str(result)))
        self.waiting += 1
        try:
            return PutOutcome(await self.settled(result.end_offset), result)
        finally:
            self.waiting -= 1

    async def put_all(self, messages: Sequence[MessageFields]) -> PutStatus:
        """Several messages, until every member has all of them. What is put within one turn of the
        loop goes into the log together, each caller's behind one another. NotPut; some may be
        stored then.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[PutStatus] = loop.create_future()
        if not self._together:
            loop.call_soon(self._put_together)
        self._together.append((messages, done))
        self.waiting += 1
        try:
            return await done
        finally:
            self.waiting -= 1

    def _put_together(self) -> None:
        together, self._together = self._together, []
        try:
            results = self.append([message for messages, _ in together for message in messages])
        except NotPut as refusal:
            for _, done in together:
                _fail(done, refusal)
            return
        waiting: list[asyncio.Future[PutStatus]] = []
        at = 0
        for messages, done in together:
            refused = [
                one for one in results[at : at + len(messages)] if isinstance(one, RecordError)
            ]
            at += len(messages)
            if refused:
                _fail(done, NotPut(*code_of(PutStatus.MESSAGE_ILLEGAL, str(refused[0]))))
            else:
                waiting.append(done)
        ends = [one.end_offset for one in results if not isinstance(one, RecordError)]
        if waiting:
            settling = asyncio.ensure_future(self._settle(max(ends, default=0), waiting))
            self._settling.add(settling)
            settling.add_done_callback(self._settling.discard)

    async def _settle(self, end_offset: int, waiting: list[asyncio.Future[PutStatus]]) -> None:
        try:
            status = await self.settled(end_offset)
            for done in waiting:
                if not done.done():
                    done.set_result(status)
        finally:
            for done in waiting:  # the broker stops
                done.cancel()

    def tell(self, end_offset: int, messages: int, told: Callable[[PutStatus], None]) -> None:
        """`told(status)`, once: what becomes of so many messages that `append` put up to there."""
        self.waiting += messages
        settling = asyncio.ensure_future(self.settled(end_offset))

        def done(settled: asyncio.Future[PutStatus]) -> None:
            self.waiting -= messages
            self._settling.discard(settled)
            status = PutStatus.OUTCOME_UNKNOWN
            if settled.cancelled():  # the broker stops
                pass
            elif (error := settled.exception()) is not None:
                _log.error("what became of %d messages is not known", messages, exc_info=error)
            else:
                status = settled.result()
            told(status)

        self._settling.add(settling)
        settling.add_done_callback(done)

    async def settled(self, end_offset: int) -> PutStatus:
        """What becomes of the log up to there: every member has it, or not in time."""
        flushed = self._mastership.flushed
        flush = None if flushed is None else flushed(end_offset)
        how = await self._mastership.confirmation(end_offset, self._ack_timeout_ms)
        on_disk = Flushed.DURABLE
        if flush is not None:
            if how is Confirmation.CONFIRMED or flush.done():
                on_disk = await flush
            else:
                flush.cancel()
        return combine(how, on_disk)


def _fail(done: asyncio.Future[PutStatus], refusal: NotPut) -> None:
    if not done.done():
        done.set_exception(NotPut(refusal.code, refusal.remark, refusal.disk_failed))
