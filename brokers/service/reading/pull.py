"""Serving pulls on the master: 11, 361, long polling (PROTOCOL 4.5).

Responsible for: permissions, which messages a subscription takes, holding a pull until there is
something to say.
Refuses to know: how messages get into queues, who is master.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import FORWARDED_FOR, BadField
from brokers.service.clients.groups import ClientGroups
from brokers.service.clients.subscriptions import BadExpression
from brokers.service.clients.subscriptions import parse as parse_subscription
from brokers.service.reading.cold_reads import ColdReads
from brokers.service.reading.held_pulls import HeldPull, HeldPulls
from brokers.service.reading.pull_request import (
    SUSPEND_MS_MAX,
    PullRequest,
    answer_ext,
    code_of,
    parse,
)
from brokers.service.reading.repair import Repairs
from brokers.service.role.forward import CALL_TIMEOUT_MS
from brokers.service.role.services import Moves, Served, Service, Where
from brokers.service.sending.request import Refusal
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import PERM_READ
from brokers.store.queues.cold_query import ColdRead
from brokers.store.queues.query import GetResult, GetStatus
from brokers.store.store import MessageStore

# Held pulls that one turn of the loop looks at: everybody else is served between two slices.
LOOKED_AT_TOGETHER_MAX = 256


@dataclass(frozen=True, slots=True)
class Reader:
    """A pull on its way: its asker, its place, and the tags that count (None: all)."""

    connection: Connection
    request: RemotingCommand
    pull: PullRequest
    codes: frozenset[int] | None


class PullService(Service):
    """Reads queues for consumers. `soon(act)` acts in the loop's next turn; `may_commit()`: offsets
    that come with pulls are taken, which a master that is handing over no longer does.
    """

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        groups: ClientGroups,
        clock: Clock,
        soon: Callable[[Callable[[], None]], object],
        repairs: Repairs | None = None,
        may_commit: Callable[[], bool] = lambda: True,
    ) -> None:
        self._soon, self._may_commit = soon, may_commit
        self._store = store
        self._tables = tables
        self._groups = groups
        self._clock = clock
        self._repairs = repairs
        self.held = HeldPulls()
        self.cold_reads = ColdReads()
        self._unconfirmed_until = 0  # the log's end when this mastership began

    def serves(self) -> dict[int, Served]:
        """Pulls are the master's; it may hold them."""
        pull = Served(
            self.serve,
            Where.MASTER,
            repeatable=True,
            timeout_ms=SUSPEND_MS_MAX + CALL_TIMEOUT_MS,
            moves=Moves.MESSAGES_OUT,
        )
        return {RequestCode.PULL_MESSAGE: pull, RequestCode.LITE_PULL_MESSAGE: pull}

    def connection_closed(self, connection: Connection) -> None:
        self.held.connection_closed(connection.id)

    def close(self) -> None:
        self.cold_reads.close()

    def serve(self, connection: Connection, request: RemotingCommand) -> Answer:
        """Handler of 11 and 361 on the master."""
        try:
            pull = parse(request.ext)
            reader = Reader(connection, request, pull, self._codes(pull))
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        except BadExpression as error:
            return request.reply(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark=str(error))
        except LookupError as error:
            code, remark = error.args
            return request.reply(code, remark=remark)
        # the client commits again: nothing says that it was done
        if pull.commit_offset is not None and self._may_commit():
            self._tables.offsets.commit(
                pull.group, pull.topic, pull.queue_id, pull.commit_offset, self._clock.wall_ms()
            )
        return self._read(
            reader, self._clock.now_ms() + pull.suspend_ms if pull.suspend_ms else None
        )

    def dispatched(self, topic: str, queue_id: int, max_offset: int) -> None:
        """A queue grew: wake its held pulls."""
        self._in_slices(self.held.dispatched(topic, queue_id, max_offset), self._look_again)

    def tick(self, now_ms: int) -> None:
        """Answer the pulls whose time is over."""
        self._in_slices(self.held.expired(now_ms), self._answer_held)

    def mastership_begins(self) -> None:
        """What is in the log by now may have been confirmed before, and read."""
        self._unconfirmed_until = self._store.log_end

    def caught_up_with(self, confirm_offset: int) -> int | None:
        """Where the log ended when this mastership began, if that is about to be confirmed; None
        before and afterwards.
        """
        until = self._unconfirmed_until
        return until if until and confirm_offset >= until else None

    def caught_up(self) -> None:
        """All that the old master may have confirmed can be read here: a pull that still waits
        beyond it is moved back, before it misses newer messages.
        """
        self._unconfirmed_until = 0
        self._in_slices(self.held.beyond(self._end_of), self._look_again)

    def _end_of(self, topic: str, queue_id: int) -> int:
        queue = self._store.queues.get(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def mastership_over(self) -> None:
        """Held pulls are answered as if nothing had come: the next ones find the new master."""
        self._in_slices(self.held.release_all(), self._answer_held)

    def _in_slices(self, pulls: list[HeldPull], look: Callable[[HeldPull], None]) -> None:
        for held in pulls[:LOOKED_AT_TOGETHER_MAX]:
            look(held)
        if len(pulls) > LOOKED_AT_TOGETHER_MAX:
            self._soon(lambda: self._in_slices(pulls[LOOKED_AT_TOGETHER_MAX:], look))

    def _answer_held(self, held: HeldPull) -> None:
        reader = held.request
        assert isinstance(reader, Reader)
        if not reader.connection.closed:
            self._answer(reader, self._query(reader))

    def _codes(self, pull: PullRequest) -> frozenset[int] | None:
        refused = self._refusal(pull)
        if refused is not None:
            raise LookupError(refused.code, refused.remark)
        if pull.subscription is not None:
            return parse_subscription(pull.topic, pull.subscription, 0, pull.expression_type).codes
        known = self._groups.subscription(pull.group, pull.topic)
        if known is None:
            remark = f"group {pull.group} has no subscription of topic {pull.topic} here yet"
            raise LookupError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if known.version < pull.subscription_version:
            raise LookupError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the subscription known here is older"
            )
        if known.expression_type != "TAG":
            raise BadExpression(
                f"the broker does not support consumers that filter by {known.expression_type[:32]}"
            )
        return known.codes

    def _refusal(self, pull: PullRequest) -> Refusal | None:
        if not self._tables.groups.consume_enabled(pull.group):
            return Refusal(ResponseCode.NO_PERMISSION, f"group {pull.group} may not consume")
        config = self._tables.topics.get(pull.topic)
        if config is None:
            return Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic {pull.topic} does not exist")
        if not config.perm & PERM_READ:
            return Refusal(ResponseCode.NO_PERMISSION, f"topic {pull.topic} is not readable")
        if not 0 <= pull.queue_id < config.read_queues:
            return Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queue {pull.queue_id} of {config.read_queues} does not exist",
            )
        return None

    def _query(self, reader: Reader) -> GetResult:
        pull = reader.pull
        return self._judged(
            reader,
            self._store.query(
                pull.topic, pull.queue_id, pull.queue_offset, pull.max_messages, reader.codes
            ),
        )

    def _judged(self, reader: Reader, result: GetResult) -> GetResult:
        pull = reader.pull
        if result.refused is not None and self._repairs is not None:
            self._repairs.wanted(result.refused, "pull")
        if result.status in (
            GetStatus.OFFSET_OVERFLOW_BADLY,
            GetStatus.NO_MATCHED_LOGIC_QUEUE,
            GetStatus.NO_MESSAGE_IN_QUEUE,
        ):
            if self._store.confirm_offset < self._unconfirmed_until:
                # A new master confirms again what the old one had: until then the consumer is not
                # ahead, this broker is behind. What came since then nobody has read: a consumer
                # beyond it is moved back, or it would miss it.
                return replace(
                    result, status=GetStatus.OFFSET_OVERFLOW_ONE, next_offset=pull.queue_offset
                )
        return result

    def _read(self, reader: Reader, deadline_ms: int | None) -> Answer:
        pull = reader.pull
        found = self._store.query_or_cold(
            pull.topic, pull.queue_id, pull.queue_offset, pull.max_messages, reader.codes
        )
        if isinstance(found, ColdRead):
            return self._when_read(reader, found, deadline_ms)
        return self._decided(reader, self._judged(reader, found), deadline_ms)

    async def _when_read(
        self, reader: Reader, cold: ColdRead, deadline_ms: int | None
    ) -> RemotingCommand | None:
        """Meanwhile everybody else is served."""
        result = self._judged(reader, await self.cold_reads.read(cold))
        answer = self._decided(reader, result, deadline_ms)
        return answer if answer is None or isinstance(answer, RemotingCommand) else await answer

    def _decided(self, reader: Reader, result: GetResult, deadline_ms: int | None) -> Answer:
        if result.status is GetStatus.RECORD_REFUSED and self._repairs is not None:
            return self._after_repair(self._repairs, reader, result)
        code = code_of(result.status.value, reader.pull.queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and deadline_ms is not None:
            pull = reader.pull
            # A slave's connection carries the pulls of many.
            asker = (pull.group, reader.request.ext.get(FORWARDED_FOR, ""))
            held = HeldPull(
                pull.topic,
                pull.queue_id,
                pull.queue_offset,
                deadline_ms,
                reader.connection.id,
                reader,
                asker,
            )
            older = self.held.older_of(held)
            if older is not None:
                self._answer_held(older)
            if self.held.hold(held):
                return None
        return self._response(reader, result)

    async def _after_repair(
        self, repairs: Repairs, reader: Reader, result: GetResult
    ) -> RemotingCommand:
        """The next message is damaged here: it may be sound in a moment, and nothing behind it is
        given before.
        """
        if result.refused is not None and await repairs.waited(result.refused, "pull"):
            result = self._query(reader)
        return self._response(reader, result)

    def _look_again(self, held: HeldPull) -> None:
        reader = held.request
        assert isinstance(reader, Reader)
        if reader.connection.closed:
            return
        result = self._query(reader)
        code = code_of(result.status.value, reader.pull.queue_offset)
        if (
            code == ResponseCode.PULL_NOT_FOUND
            and not self.held.has_newer(held)
            and self.held.hold(held)
        ):
            return
        self._answer(reader, result)

    def _answer(self, reader: Reader, result: GetResult) -> None:
        reader.connection.send(self._response(reader, result))

    def _response(self, reader: Reader, result: GetResult) -> RemotingCommand:
        code = code_of(result.status.value, reader.pull.queue_offset)
        if result.status is GetStatus.RECORD_REFUSED:
            return reader.request.reply(
                code,
                remark=(
                    f"message {result.next_offset} of the queue is damaged here; it is "
                    "being fetched"
                ),
            )
        ext = answer_ext(result.next_offset, result.min_offset, result.max_offset)
        return reader.request.reply(code, ext, result.body, remark=result.status.value)
