"""Serving sends on the master: 10, 310, 320 (PROTOCOL 4.3, design S1).

Responsible for: taking sends of one turn of the event loop together into the log, and answering
each when the replicas have it, when time is over, or when the mastership is. Refuses to know: how
replication works, who is master.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from msgspec import Struct

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField
from brokers.replica.put_rules import BusyGate, PutStatus, admit, code_of, combine
from brokers.replica.waiters import Confirmation
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Moves, Served, Service, Where
from brokers.service.sending.answers import AnswersTogether, answer_to
from brokers.service.sending.delayed import as_stored as with_level
from brokers.service.sending.log_writes import NotPut, into_log
from brokers.service.sending.messages import MessageMaker, UniqueKeys
from brokers.service.sending.request import (
    Refusal,
    SendRequest,
    is_transactional,
    kind_of,
    parse_v1,
    parse_v2,
    property_value,
    refusal,
    topic_refusal,
    tries_max,
    waits_for_replicas,
    with_property,
)
from brokers.service.sending.timed import TIMER_TOPIC, InWheel, TimerRefused, TimerRules, handle_of
from brokers.service.sending.usual import usual_send
from brokers.service.tables.topics import (
    NOT_WRITABLE_BY_CLIENTS,
    RETRY_PREFIX,
    REVIVE_PREFIX,
    TopicConfig,
    TopicTable,
)
from brokers.store.appender import PutResult
from brokers.store.log.group_commit import Flushed
from brokers.store.log.records import BODY_BYTES_MAX, MessageFields, RecordError
from brokers.store.store import MessageStore

# Sends taken and not answered yet, and the bytes of their bodies; more is answered with
# SYSTEM_BUSY.
WAITING_SENDS_MAX = 100_000
WAITING_BYTES_MAX = 256 * 1024 * 1024

_FLOW_CONTROL = "[REJECTREQUEST]system busy, start flow control for a while"
_log = logging.getLogger("regent.broker.sends")


class Pending(Struct):
    """One accepted send: its messages, and what its answer needs. `taken`: it came the short
    way.
    """

    connection: Connection
    request: RemotingCommand
    messages: Sequence[MessageFields]
    queue_id: int
    unique_key: str | None
    waits: bool = True
    taken: bool = False
    result: PutResult | None = None
    recall_handle: str | None = None


@dataclass(frozen=True, slots=True)
class Mastership:
    """What the sends need of the replica (`ReplicaDriver`): whether it leads, why no write is
    possible now, that the log grew, when everything below an offset is confirmed (offset, timeout
    in ms), that the disk failed; when everything below an offset is on this disk (None: nobody
    waits for that).
    """

    leads: Callable[[], bool]
    write_refusal: Callable[[], str | None]
    log_grew: Callable[[int], None]
    confirmation: Callable[[int, int], asyncio.Future[Confirmation]]
    storage_failed: Callable[[str], None]
    flushed: Callable[[int], asyncio.Future[Flushed]] | None = None


@dataclass(frozen=True)
class SendTerms:
    """On what terms this broker takes sends: the replica behind it, its names, for how long a send
    waits for the members, and which ones are refused because it is busy.
    """

    mastership: Mastership
    cluster_name: str
    store_host: bytes
    ack_timeout_ms: int
    unique_keys: UniqueKeys
    gate: BusyGate
    rejects_transactions: bool = False
    timers: TimerRules = field(default_factory=TimerRules)


class SendService(Service):
    """`create_topic` makes a topic of a first send and returns when it may be acknowledged, with a
    refusal if not. `retried(send, limit)`: where a send to a retry topic goes, by its client's own
    limit of tries. `stored(topic, messages, bytes, kind)`, `appended(ms, sends)`
    and `failed(sends)` count. `usual_timed`: see `Timed.usual`.
    """

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        roles: RoleView,
        clock: Clock,
        terms: SendTerms,
        *,
        create_topic: Callable[[SendRequest], Awaitable[Refusal | None]],
        unheld_topics: set[str],
        retried: Callable[[SendRequest, int | None], SendRequest],
        stored: Callable[[str, int, int, str], object],
        not_serving: Callable[[Connection, RemotingCommand], Answer],
        as_stored: Callable[[MessageFields], MessageFields] = with_level,
        usual_timed: Callable[[MessageFields, str], InWheel | None] = lambda message, key: None,
        appended: Callable[[int, int], object] = lambda took_ms, messages: None,
        failed: Callable[[int], object] = lambda messages: None,
    ) -> None:
        self._appended, self._failed = appended, failed
        self._store = store
        self._topics = topics
        self._roles = roles
        self._clock = clock
        self._mastership, self._unique_keys = terms.mastership, terms.unique_keys
        self._maker = MessageMaker(terms.cluster_name, terms.store_host, as_stored)
        self._usual_timed = usual_timed
        self._broker_name = terms.timers.broker_name
        self._ack_timeout_ms = terms.ack_timeout_ms
        self._create_topic, self._not_serving = create_topic, not_serving
        self._retried = retried
        self._stored = stored
        self._pending: list[Pending] = []
        self._waiting_sends = self._waiting_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._unheld_topics = unheld_topics
        self.gate = terms.gate
        self.rejects_transactions = terms.rejects_transactions
        self._taken_ms = 0  # when the first of `_pending` was

    @property
    def waiting(self) -> int:
        """Sends that are not answered yet."""
        return self._waiting_sends

    def serves(self) -> dict[int, Served]:
        """Sends are the master's. 310 has an express way."""
        send = Served(self.serve, Where.MASTER, writes=True, moves=Moves.MESSAGES_IN)
        return {
            RequestCode.SEND_MESSAGE: send,
            RequestCode.SEND_BATCH_MESSAGE: send,
            RequestCode.SEND_MESSAGE_V2: replace(send, express=self.take),
        }

    def serve(self, connection: Connection, request: RemotingCommand) -> Answer:
        """Handler of 10, 310 and 320 on the master."""
        try:
            send = (
                parse_v1(request.ext)
                if request.code == RequestCode.SEND_MESSAGE
                else parse_v2(request.ext)
            )
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if send.topic.startswith(RETRY_PREFIX) and not send.batch:
            send = self._retried(send, tries_max(request))
        config = self._topics.get(send.topic)
        if config is None or send.topic in self._unheld_topics:
            refused = topic_refusal(send.topic)
            return (
                _refuse(request, refused)
                if refused
                else self._first_send(connection, request, send)
            )
        return self._accept(connection, request, send, config)

    async def _first_send(
        self, connection: Connection, request: RemotingCommand, send: SendRequest
    ) -> RemotingCommand | None:
        # Also without waiting for replicas: a topic is there when the members of the set hold it
        # (S10).
        kept_out = admit(self._mastership.write_refusal(), waits=True)
        if kept_out is not None:
            return request.reply(kept_out[0], remark=kept_out[1])
        if len(request.body) > BODY_BYTES_MAX:
            return request.reply(
                ResponseCode.MESSAGE_ILLEGAL,
                remark=(f"the body of {len(request.body)} bytes is larger than {BODY_BYTES_MAX}"),
            )
        if self._waiting_sends >= WAITING_SENDS_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            return request.reply(ResponseCode.SYSTEM_BUSY, remark=_FLOW_CONTROL)
        self._waiting_sends, self._waiting_bytes = (
            self._waiting_sends + 1,
            self._waiting_bytes + len(request.body),
        )
        try:
            refused = await self._create_topic(send)
        finally:
            self._waiting_sends, self._waiting_bytes = (
                self._waiting_sends - 1,
                self._waiting_bytes - len(request.body),
            )
        if refused is not None:
            return _refuse(request, refused)
        config = self._topics.get(send.topic)
        if config is None:
            return request.reply(
                ResponseCode.TOPIC_NOT_EXIST, remark=(f"topic {send.topic} does not exist")
            )
        answer = self._accept(connection, request, send, config)
        return answer if answer is None or isinstance(answer, RemotingCommand) else await answer

    def _accept(
        self,
        connection: Connection,
        request: RemotingCommand,
        send: SendRequest,
        config: TopicConfig,
    ) -> Answer:
        refused = (
            _forbidden(send.topic)
            or refusal(send, config, request.body)
            or self._transaction_refusal(send)
        )
        if refused is not None:
            return _refuse(request, refused)
        if self._waiting_sends >= WAITING_SENDS_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            return request.reply(ResponseCode.SYSTEM_BUSY, remark=_FLOW_CONTROL)
        unique_key = property_value(send.properties, "UNIQ_KEY")
        if unique_key is None and not send.batch:
            unique_key = self._unique_keys.next_key(self._clock.wall_ms())
            send = replace(send, properties=with_property(send.properties, "UNIQ_KEY", unique_key))
        queue_id = (
            send.queue_id if send.queue_id >= 0 else random.randrange(max(1, config.write_queues))
        )
        try:
            messages = self._maker.messages(connection, request, send, queue_id)
        except TimerRefused as error:
            return request.reply(error.code, remark=str(error))
        except (RecordError, ValueError) as error:
            return request.reply(ResponseCode.MESSAGE_ILLEGAL, remark=str(error))
        self._hold(
            Pending(
                connection,
                request,
                messages,
                queue_id,
                unique_key,
                waits_for_replicas(send.properties),
                recall_handle=self._recall_handle(send, messages),
            )
        )
        return None

    def _transaction_refusal(self, send: SendRequest) -> Refusal | None:
        if self.rejects_transactions and is_transactional(send.properties):
            return Refusal(ResponseCode.NO_PERMISSION, "this broker takes no transaction messages")
        return None

    def _recall_handle(self, send: SendRequest, messages: Sequence[MessageFields]) -> str | None:
        """Of a message that this broker put into the wheel."""
        if send.topic == TIMER_TOPIC or len(messages) != 1:
            return None
        return handle_of(messages[0], self._broker_name)

    def take(self, connection: Connection, request: RemotingCommand) -> bool:
        """A usual 310 whose topic is here, at once; False, and nothing was done, when `serve` has
        to look at it.
        """
        send, body = usual_send(request.ext), request.body
        if send is None or not self._roles.serves(writes=True):
            return False
        topic = send.topic
        config = self._topics.get(topic)
        if (
            config is None
            or topic in self._unheld_topics
            or topic in NOT_WRITABLE_BY_CLIENTS
            or topic == TIMER_TOPIC
            or topic.startswith(REVIVE_PREFIX)
            or send.queue_id >= config.queues
            or not 0 < len(body) <= BODY_BYTES_MAX
            or self._waiting_sends >= WAITING_SENDS_MAX
            or self._waiting_bytes >= WAITING_BYTES_MAX
        ):
            return False
        message = self._maker.usual(connection, send, body)
        if message is None:
            return False
        pending = Pending(connection, request, (), send.queue_id, send.unique_key, True, True)
        if send.timed:
            waits = self._usual_timed(message, send.unique_key)
            if waits is None:
                return False
            message, pending.recall_handle = waits
        pending.messages = (message,)
        self._hold(pending)
        return True

    def _hold(self, pending: Pending) -> None:
        """Until everything that comes in this turn of the loop is there."""
        if not self._pending:
            self._loop.call_soon(self._flush)
            self._taken_ms = self._clock.now_ms()
        self._pending.append(pending)
        self._waiting_sends += 1
        self._waiting_bytes += len(pending.request.body)

    def _flush(self) -> None:
        """Everything that came in this turn of the loop goes into the log with one write."""
        batch, self._pending = self._pending, []
        # The replica knows first; the role view hears of it a moment later.
        if not self._roles.serves(writes=True) or not self._mastership.leads():
            self._count_out(batch)
            for each in batch:
                if each.taken:
                    each.connection.leave_express(each.request)
                _answer_later(each, self._not_serving(each.connection, each.request))
            return
        batch = self._admitted(batch)
        results = self._written(batch) if batch else None
        if results is not None:
            self._mastership.log_grew(self._store.log_end)
            self._await_confirmation(batch, results)

    def _admitted(self, batch: list[Pending]) -> list[Pending]:
        """Those that may be written now; the others are answered, and nothing of them is stored."""
        busy = self.gate.refusal(self._taken_ms, self._clock.now_ms())
        if busy is not None:
            self._answer_all(batch, *busy)
            return []
        reason = self._mastership.write_refusal()
        if reason is None:
            return batch
        for waits in (True, False):
            answer = admit(reason, waits=waits)
            if answer is not None:
                self._answer_all([each for each in batch if each.waits is waits], *answer)
                batch = [each for each in batch if each.waits is not waits]
        return batch

    def _written(self, batch: list[Pending]) -> list[PutResult | RecordError] | None:
        began_ms = self._clock.now_ms()
        try:
            groups = [each.messages for each in batch]
            return into_log(self._store, groups, self._clock.wall_ms())
        except NotPut as refusal:
            self._failed(len(batch))
            if refusal.disk_failed is not None:
                _log.error("the log refused a write: %s", refusal.disk_failed)
            self._answer_all(batch, refusal.code, refusal.remark)
            if refusal.disk_failed is not None:
                self._mastership.storage_failed(refusal.disk_failed)
        finally:
            ended_ms = self._clock.now_ms()
            self.gate.appended(began_ms, ended_ms)
            self._appended(ended_ms - began_ms, len(batch))
        return None

    def _await_confirmation(
        self, batch: list[Pending], results: list[PutResult | RecordError]
    ) -> None:
        stored = []
        for each, result in zip(batch, results, strict=True):
            if isinstance(result, RecordError):
                self._answer_all([each], *code_of(PutStatus.MESSAGE_ILLEGAL, str(result)))
                continue
            ext = each.request.ext
            size = result.end_offset - result.physical_offset
            stands_in, told = each.messages[0].topic, ext.get("i") or ext.get("properties") or ""
            kind = kind_of(stands_in, told)
            self._stored(ext.get("b") or ext.get("topic") or "", len(each.messages), size, kind)
            each.messages = ()
            each.result = result
            if each.waits:
                stored.append(each)
            else:  # in this log is all it asked for: neither the disk nor a replica has it yet
                self._answer_all([each], *code_of(PutStatus.PUT_OK))
        if stored:
            # One wait for the whole batch: its messages lie behind one another and are confirmed
            # together.
            end_offset = stored[-1].result.end_offset  # type: ignore[union-attr]
            flushed = self._mastership.flushed
            flush = None if flushed is None else flushed(end_offset)
            future = self._mastership.confirmation(end_offset, self._ack_timeout_ms)
            future.add_done_callback(lambda done: self._settled(stored, done, flush))

    def _settled(
        self,
        batch: list[Pending],
        future: asyncio.Future[Confirmation],
        flush: asyncio.Future[Flushed] | None,
    ) -> None:
        how = Confirmation.ABORTED if future.cancelled() else future.result()
        if flush is not None and not flush.done() and how is Confirmation.CONFIRMED:
            flush.add_done_callback(lambda _: self._settled(batch, future, flush))
            return
        on_disk = Flushed.DURABLE if flush is None or not flush.done() else flush.result()
        status = combine(how, on_disk)
        unknown = (
            (f"the outcome is unknown: {how.value}")
            if status is PutStatus.OUTCOME_UNKNOWN
            else None
        )
        self._answer_all(batch, *code_of(status, unknown))

    def _answer_all(self, batch: list[Pending], code: int, remark: str | None) -> None:
        self._count_out(batch)
        together = AnswersTogether(code, remark)
        for each in batch:
            if each.taken:
                known = each.result, each.queue_id, each.unique_key, each.recall_handle
                together.add(each.connection, each.request, *known)
            elif not each.request.is_oneway:
                each.connection.send(
                    answer_to(
                        each.request,
                        each.result,
                        each.queue_id,
                        each.unique_key,
                        code,
                        remark,
                        each.recall_handle,
                    )
                )
        together.go()

    def _count_out(self, batch: list[Pending]) -> None:
        self._waiting_sends -= len(batch)
        self._waiting_bytes -= sum(len(each.request.body) for each in batch)


def _refuse(request: RemotingCommand, refused: Refusal) -> RemotingCommand:
    return request.reply(refused.code, remark=refused.remark)


def _forbidden(topic: str) -> Refusal | None:
    # A topic of the table has a valid name; only these must not be written to.
    return topic_refusal(topic) if topic in NOT_WRITABLE_BY_CLIENTS else None


def _answer_later(each: Pending, answer: Answer) -> None:
    if answer is None or (each.request.is_oneway and isinstance(answer, RemotingCommand)):
        return
    if isinstance(answer, RemotingCommand):
        each.connection.send(answer)
        return

    def done(task: asyncio.Future[RemotingCommand | None]) -> None:
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            _log.error("a send from %s was not handed on", each.connection.peer, exc_info=error)
            response: RemotingCommand | None = each.request.reply(
                ResponseCode.SYSTEM_ERROR,
                remark=(f"the outcome is unknown: {type(error).__name__}"),
            )
        else:
            response = task.result()
        if response is not None and not each.request.is_oneway:
            each.connection.send(response)

    asyncio.ensure_future(answer).add_done_callback(done)
