"""Producers end their transactions: 37; operators bring back what was given up: 323
(PROTOCOL 4.7).

Responsible for: what a producer may end, once; that nobody is answered before the members hold it.
Refuses to know: which halves are asked about.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField, flag, number, text
from brokers.replica.put_rules import PutStatus, code_of
from brokers.service.role.forward import Serve
from brokers.service.role.services import Moves, Served, Service, Where
from brokers.service.sending.delayed import HALF_TOPIC, REAL_TOPIC, as_stored
from brokers.service.sending.half import QUEUE_ID
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.transactions.decided import Decided, Decision
from brokers.service.transactions.forms import (
    GIVEN_UP_TOPIC,
    PRODUCER_GROUP,
    again,
    committed,
    property_text,
)
from brokers.service.transactions.ledger import TransactionLedger
from brokers.service.transactions.rules import TransactionTerms, comes_too_late
from brokers.store.index.key_query import message_at
from brokers.store.log.integrity import BadRecord
from brokers.store.log.records import (
    RecordError,
    StoredMessage,
    decode_message,
    parse_offset_message_id,
)
from brokers.store.store import MessageStore

UNKNOWN, COMMIT, ROLLBACK = 0, 8, 12
TOPICS_COUNTED = 10_000
# Ends that are not answered yet (endTransactionPoolQueueCapacity); more is answered with 2.
WAITING_ENDS_MAX = 100_000
# A put that is refused for the moment is tried again, as clients do not.
PUT_WITHIN_S, PUT_PAUSE_S = 2.0, 0.1
# A new master has read by then what its predecessor decided; else 2.
LOADED_WITHIN_S = 2.0
_BUSY = "[OVERLOAD]system busy, this broker reads what was decided before it became master"


class _End(NamedTuple):
    """One decision that waits for the end of this turn of the loop."""

    half: StoredMessage
    commit: bool
    physical_offset: int
    done: asyncio.Future[int]
    """The end of what was put for it, in the log."""


class _Refused(Exception):
    """The request is answered with this."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code, self.remark = code, remark


class EndTransactions(Service):
    """`leads()`: this broker may write. `passed_on(connection, request, serve)`: the answer of
    whoever leads, this broker's when it does.
    """

    def __init__(
        self,
        store: MessageStore,
        ledger: TransactionLedger,
        puts: OwnPuts,
        clock: Clock,
        terms: TransactionTerms,
        *,
        repair: Callable[[BadRecord, str], object],
        leads: Callable[[], bool],
        passed_on: Callable[[Connection, RemotingCommand, Serve], Answer],
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._puts = puts
        self._clock = clock
        self._terms = terms
        self._repair = repair
        self._leads = leads
        self._passed_on = passed_on
        self._turn: list[_End] = []
        self.waiting = 0
        """Requests that are not answered yet."""
        self.committed = self.rolled_back = 0
        self.ended: Counter[tuple[str, bool]] = Counter()
        """(topic, whether committed) -> halves that were ended, of the first TOPICS_COUNTED."""

    def serves(self) -> dict[int, Served]:
        """Both are the master's: they put messages."""
        return {
            RequestCode.END_TRANSACTION: Served(
                self.end, Where.MASTER, writes=True, moves=Moves.MESSAGES_IN
            ),
            RequestCode.RESUME_CHECK_HALF_MESSAGE: Served(self.resume, Where.MASTER, writes=True),
        }

    async def end(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Handler of 37."""
        return await self._tried(connection, request, self._ended, self.end)

    async def resume(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """Handler of 323."""
        return await self._tried(connection, request, self._resumed, self.resume)

    async def _tried(
        self,
        connection: Connection,
        request: RemotingCommand,
        once: Callable[[RemotingCommand], Awaitable[RemotingCommand]],
        serve: Serve,
    ) -> RemotingCommand | None:
        if self.waiting >= WAITING_ENDS_MAX:
            return request.reply(ResponseCode.SYSTEM_BUSY, remark=_BUSY)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PUT_WITHIN_S
        self.waiting += 1
        try:
            while True:
                try:
                    return await once(request)
                except _Refused as refused:
                    return request.reply(refused.code, remark=refused.remark)
                except BadField as error:
                    return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
                except NotPut as refusal:
                    if not self._leads():
                        answer = self._passed_on(connection, request, serve)
                        if answer is None or isinstance(answer, RemotingCommand):
                            return answer
                        return await answer
                    if loop.time() + PUT_PAUSE_S > give_up:
                        return request.reply(refusal.code, remark=refusal.remark)
                await asyncio.sleep(PUT_PAUSE_S)
        finally:
            self.waiting -= 1

    # -- 37 ----------------------------------------------------------------------------------------

    async def _ended(self, request: RemotingCommand) -> RemotingCommand:
        """NotPut, BadField, _Refused."""
        ext = request.ext
        group = text(ext, "producerGroup")
        half_offset, physical = number(ext, "tranStateTableOffset"), number(ext, "commitLogOffset")
        how = number(ext, "commitOrRollback")
        if how not in (UNKNOWN, COMMIT, ROLLBACK):
            raise _Refused(ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong")
        if how == UNKNOWN:
            return request.reply()
        if not await self._ledger.loaded(LOADED_WITHIN_S):
            raise _Refused(ResponseCode.SYSTEM_BUSY, _BUSY)
        half = self._half_at(physical)
        if half is None or half.fields.topic != HALF_TOPIC:
            raise _Refused(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        late = comes_too_late(half.fields, self._clock.wall_ms(), self._terms)
        if late and not flag(ext, "fromTransactionCheck"):
            raise _Refused(
                ResponseCode.ILLEGAL_OPERATION, "it comes too late: the check asks about it"
            )
        if property_text(half.fields, PRODUCER_GROUP) != group:
            raise _Refused(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
        if half.queue_offset != half_offset:
            raise _Refused(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
        return await self._decide(request, half, how == COMMIT, physical)

    def _half_at(self, offset: int) -> StoredMessage | None:
        data = message_at(self._store.log, offset, self._store.log_end) if offset >= 0 else None
        if isinstance(data, BadRecord):
            self._repair(data, "transactions")
        return decode_message(data) if isinstance(data, bytes) else None

    async def _decide(
        self, request: RemotingCommand, half: StoredMessage, commit: bool, physical: int
    ) -> RemotingCommand:
        decided = self._leading()
        newest = decided.newest(half.queue_offset)
        if decided.is_decided(newest):
            _require_same(decided.how(newest), commit)
            return await self._held(request, self._store.log_end)
        if newest != half.queue_offset:
            # Its producer answers by the place of the first copy, which was asked about meanwhile.
            half = self._half_in_queue(newest)
        loop = asyncio.get_running_loop()
        one = _End(half, commit, physical, loop.create_future())
        if not self._turn:
            loop.call_soon(self._flush)
        self._turn.append(one)
        return await self._held(request, await one.done)

    async def _held(self, request: RemotingCommand, end_offset: int) -> RemotingCommand:
        """Answered when the members have the log up to there, as a send that waits."""
        if request.is_oneway:
            return request.reply()
        if self._ledger.waits:
            raise NotPut(ResponseCode.SYSTEM_BUSY, "the log did not take what says so yet")
        status = await self._puts.settled(end_offset)
        if status is PutStatus.OUTCOME_UNKNOWN:
            raise _Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the outcome is unknown")
        return request.reply()

    def _leading(self) -> Decided:
        decided = self._ledger.decided
        if decided is None:
            raise NotPut(*code_of(PutStatus.SERVICE_NOT_AVAILABLE, "this broker is not the master"))
        return decided

    def _half_in_queue(self, offset: int) -> StoredMessage:
        found = self._store.query(HALF_TOPIC, QUEUE_ID, offset, 1)
        if not found.body:
            raise _Refused(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        return decode_message(found.body)

    def _flush(self) -> None:
        """All decisions of this turn: messages first, then the record that says so. What stands in
        the log without its record is asked about again; never the other way round.
        """
        turn, self._turn = self._turn, []
        try:
            self._put(turn)
        except NotPut as refusal:
            for one in turn:
                _answer_later(one, refusal)

    def _put(self, turn: list[_End]) -> None:
        decided = self._leading()
        fresh: dict[int, _End] = {}
        for one in turn:
            offset = one.half.queue_offset
            if fresh.setdefault(offset, one) is not one or decided.is_decided(offset):
                _answer_later(one, NotPut(ResponseCode.SYSTEM_BUSY, _BUSY))
                if fresh[offset] is one:
                    del fresh[offset]
        names = self._commits([one for one in fresh.values() if one.commit], decided)
        for offset, one in fresh.items():
            if not one.commit:
                decided.note(offset, Decision.ROLLED_BACK)
                self.rolled_back += 1
                self._count(one)
                names.append(offset)
        self._ledger.record(names)
        for offset in names:
            if not fresh[offset].done.done():
                fresh[offset].done.set_result(self._store.log_end)

    def _commits(self, ends: list[_End], decided: Decided) -> list[int]:
        """The halves whose messages are in the log now. NotPut: of none."""
        finals, ready = [], []
        for one in ends:
            try:
                finals.append(as_stored(committed(one.half.fields, one.physical_offset)))
                ready.append(one)
            except ValueError as error:
                _answer_later(one, _Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)))
        stored = []
        for one, result in zip(ready, self._puts.append(finals) if finals else (), strict=True):
            if isinstance(result, RecordError):
                _answer_later(one, _Refused(ResponseCode.MESSAGE_ILLEGAL, str(result)))
                continue
            decided.note(one.half.queue_offset, Decision.COMMITTED)
            self.committed += 1
            self._count(one)
            stored.append(one.half.queue_offset)
        return stored

    def _count(self, one: _End) -> None:
        key = property_text(one.half.fields, REAL_TOPIC), one.commit
        if key in self.ended or len(self.ended) < TOPICS_COUNTED:
            self.ended[key] += 1

    # -- 323 ---------------------------------------------------------------------------------------

    async def _resumed(self, request: RemotingCommand) -> RemotingCommand:
        """NotPut, BadField, _Refused."""
        try:
            _, offset = parse_offset_message_id(text(request.ext, "msgId"))
        except RecordError as error:
            raise _Refused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        found = self._half_at(offset)
        if found is None or found.fields.topic != GIVEN_UP_TOPIC:
            raise _Refused(ResponseCode.SYSTEM_ERROR, f"no message of {GIVEN_UP_TOPIC} has this id")
        outcome = await self._puts.put(again(found.fields, 0))
        if outcome.status is not PutStatus.PUT_OK:
            raise _Refused(ResponseCode.SYSTEM_ERROR, f"Put message back to {HALF_TOPIC} failed.")
        return request.reply()


def _require_same(how: Decision | None, commit: bool) -> None:
    """A second decision that says what the first one said is answered as that was. What is not
    known to have been ended is not promised: a copy of it is asked about. _Refused.
    """
    same = Decision.COMMITTED if commit else Decision.ROLLED_BACK
    if how not in (same, Decision.ENDED):
        what = "is not known here any more" if how is None else f"was {how.value}"
        raise _Refused(ResponseCode.ILLEGAL_OPERATION, f"the transaction {what}")


def _answer_later(one: _End, error: Exception) -> None:
    if not one.done.done():
        one.done.set_exception(error)
