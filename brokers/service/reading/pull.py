"""Serving pulls, on the master, and on slaves that may: 11, 361, long polling (PROTOCOL 4.5).

Responsible for: permissions, which messages a subscription takes, holding a pull until there is
something to say.
Refuses to know: how messages get into queues, who is master.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import FORWARDED_FOR, BadField
from brokers.service.clients.groups import ClientGroups
from brokers.service.clients.wanted import FilterRefused, Filters, Wanted
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
from brokers.service.reading.slave_reads import SlaveReads
from brokers.service.role.forward import CALL_TIMEOUT_MS
from brokers.service.role.services import Moves, Served, Service, Where
from brokers.service.sending.request import Refusal
from brokers.service.tables.pending_resets import PendingResets
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import PERM_READ
from brokers.store.queues.cold_query import ColdRead
from brokers.store.queues.query import GetResult, GetStatus
from brokers.store.store import MessageStore

# Held pulls that one turn of the loop looks at: everybody else is served between two slices.
LOOKED_AT_TOGETHER_MAX = 256
# Queues of groups of which is known up to where messages were given.
GIVEN_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Reader:
    """A pull on its way: its asker, its place, and which messages count."""

    connection: Connection
    request: RemotingCommand
    pull: PullRequest
    wanted: Wanted


class PullService(Service):
    """Reads queues for consumers. `soon(act)` acts in the loop's next turn; `may_commit()`: offsets
    that come with pulls are taken, which a master that is handing over no longer does.
    `counts(topic, group, messages, bytes)`: what a pull was given; `took(ms)`: to read it.
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
        filters: Filters | None = None,
        pending: PendingResets | None = None,
        counts: Callable[[str, str, int, int], object] | None = None,
        took: Callable[[int], object] = lambda took_ms: None,
        slave_reads: SlaveReads | None = None,
    ) -> None:
        self.slave_reads = SlaveReads() if slave_reads is None else slave_reads
        self._took = took
        self._counts = _uncounted if counts is None else counts
        self._pending = PendingResets() if pending is None else pending
        self._given: OrderedDict[tuple[str, str, int], int] = OrderedDict()
        self._filters = filters or Filters()
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
            aside=self.serve_aside,
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
            reader = Reader(connection, request, pull, self._wanted(pull))
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        except FilterRefused as refused:
            return request.reply(refused.code, remark=str(refused))
        except LookupError as error:
            code, remark = error.args
            return request.reply(code, remark=remark)
        place = self._pending.take(pull.group, pull.topic, pull.queue_id)
        if place is not None:
            low, high = self._store.queue_bounds(pull.topic, pull.queue_id)
            remark = "the group was set to another place of this queue"
            return request.reply(
                ResponseCode.PULL_OFFSET_MOVED, answer_ext(place, low, high), remark=remark
            )
        # the client commits again: nothing says that it was done
        if pull.commit_offset is not None and self._may_commit():
            self._tables.offsets.commit(
                pull.group, pull.topic, pull.queue_id, pull.commit_offset, self._clock.wall_ms()
            )
        began_ms = self._clock.now_ms()
        answer = self._read(reader, began_ms + pull.suspend_ms if pull.suspend_ms else None)
        self._took(self._clock.now_ms() - began_ms)
        return answer

    def serve_aside(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand] | None:
        """Handler of both at a slave that consumers may read from. What it cannot answer, and
        commits, are its master's.
        """
        if not self.slave_reads.serves or FORWARDED_FOR in request.ext:
            return None
        try:
            pull = parse(request.ext)
            reader = Reader(connection, request, pull, self._wanted(pull))
        except (BadField, FilterRefused, LookupError):
            return None
        wanted = reader.wanted
        place = pull.topic, pull.queue_id, pull.queue_offset, pull.max_messages
        found = self._store.query_or_cold(*place, wanted.codes, wanted.filter)
        if isinstance(found, ColdRead):
            return self._aside_when_read(reader, found)
        return self._aside(reader, self._judged(reader, found))

    async def _aside_when_read(self, reader: Reader, cold: ColdRead) -> RemotingCommand:
        return self._aside(reader, self._judged(reader, await self.cold_reads.read(cold)))

    def _aside(self, reader: Reader, result: GetResult) -> RemotingCommand:
        """A slave waits for nothing and moves nobody: what is not found is for the master."""
        if result.status is GetStatus.FOUND:
            suggested = self.slave_reads.by_slave(self._behind_bytes(reader.pull, result))
            return self._response(reader, result, suggested)
        passed = result.status is GetStatus.NO_MATCHED_MESSAGE
        place = result.next_offset if passed else reader.pull.queue_offset
        return reader.request.reply(
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            answer_ext(place, result.min_offset, result.max_offset),
            remark=result.status.value,
        )

    def _behind_bytes(self, pull: PullRequest, result: GetResult) -> int:
        """Bytes of the log behind the last message of a result."""
        queue = self._store.queues.get(pull.topic, pull.queue_id)
        last = queue.read(result.next_offset - 1, 1) if queue is not None else []
        return self._store.log_end - last[0].physical_offset if last else 0

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

    def answer_held(self) -> None:
        """All pulls on hold, with what is there: who asked looks where to ask next."""
        self._in_slices(self.held.release_all(), self._answer_held)

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
            self._answer(reader, self._query(reader, held.offset))

    def _wanted(self, pull: PullRequest) -> Wanted:
        refused = self._refusal(pull)
        if refused is not None:
            raise LookupError(refused.code, refused.remark)
        if pull.subscription is not None:
            return self._filters.asked(pull.topic, pull.subscription, pull.expression_type)
        if not self._tables.groups.may_read(pull.group, pull.topic):
            remark = f"the consumer group[{pull.group}] is forbidden for topic[{pull.topic}]"
            raise LookupError(ResponseCode.NO_PERMISSION, remark)
        known = self._groups.subscription(pull.group, pull.topic)
        if known is None:
            remark = (
                "the consumer's subscription not exist: "
                f"group {pull.group} has none of topic {pull.topic} here yet"
            )
            raise LookupError(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        if known.version < pull.subscription_version:
            raise LookupError(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"
            )
        return self._filters.subscribed(known)

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

    def _query(self, reader: Reader, place: int | None = None) -> GetResult:
        """From `place`, up to which a held pull has seen the queue, or from where it asked."""
        pull, wanted = reader.pull, reader.wanted
        offset = pull.queue_offset if place is None else place
        result = self._store.query(
            pull.topic, pull.queue_id, offset, pull.max_messages, wanted.codes, wanted.filter
        )
        if offset > pull.queue_offset and result.status is GetStatus.OFFSET_OVERFLOW_ONE:
            # what came since it asked was nothing for it
            result = replace(result, status=GetStatus.NO_MATCHED_MESSAGE)
        return self._judged(reader, result)

    def _judged(self, reader: Reader, result: GetResult) -> GetResult:
        pull = reader.pull
        if result.refused is not None and self._repairs is not None:
            self._repairs.wanted(result.refused, "pull")
        if result.status in (
            GetStatus.OFFSET_OVERFLOW_BADLY,
            GetStatus.NO_MATCHED_LOGIC_QUEUE,
            GetStatus.NO_MESSAGE_IN_QUEUE,
        ):
            if self.slave_reads.acts():
                # What a consumer saw of the master, and this slave has not, is there again with
                # the master: it waits, and is not moved back.
                ahead = pull.queue_offset >= result.max_offset
                waits = GetStatus.OFFSET_OVERFLOW_ONE if ahead else result.status
                return replace(result, status=waits, next_offset=pull.queue_offset)
            if self._store.confirm_offset < self._unconfirmed_until:
                # A new master confirms again what the old one had: until then the consumer is not
                # ahead, this broker is behind. What came since then nobody has read: a consumer
                # beyond it is moved back, or it would miss it.
                return replace(
                    result, status=GetStatus.OFFSET_OVERFLOW_ONE, next_offset=pull.queue_offset
                )
        return result

    def _read(self, reader: Reader, deadline_ms: int | None) -> Answer:
        pull, wanted = reader.pull, reader.wanted
        found = self._store.query_or_cold(
            pull.topic,
            pull.queue_id,
            pull.queue_offset,
            pull.max_messages,
            wanted.codes,
            wanted.filter,
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
        result = self._query(reader, held.offset)
        if self._waits_on(reader, result) and not self.held.has_newer(held):
            held.offset = result.next_offset
            if self.held.hold(held):
                return
        self._answer(reader, result)

    def _suggested(self, pull: PullRequest, result: GetResult) -> int:
        if not self.slave_reads.enabled:
            return 0
        behind = self._behind_bytes(pull, result) if result.status is GetStatus.FOUND else 0
        return self.slave_reads.by_master(behind, self._tables.groups.get(pull.group))

    def _note_given(self, pull: PullRequest, next_offset: int) -> None:
        key = pull.group, pull.topic, pull.queue_id
        self._given[key] = next_offset
        if len(self._given) > GIVEN_MAX:
            self._given.popitem(last=False)

    def forget_group(self, group: str) -> None:
        """It is gone, with its offsets."""
        for key in [key for key in self._given if key[0] == group]:
            del self._given[key]

    def given(self, group: str, topic: str, queue_id: int) -> int | None:
        """Up to where a group was given messages of a queue here; None: nobody knows."""
        return self._given.get((group, topic, queue_id))

    def _waits_on(self, reader: Reader, result: GetResult) -> bool:
        """Whether the queue has been seen to its end, and nothing in it is for this reader."""
        if result.status is GetStatus.NO_MATCHED_MESSAGE:
            return result.next_offset >= result.max_offset
        return code_of(result.status.value, reader.pull.queue_offset) == ResponseCode.PULL_NOT_FOUND

    def _answer(self, reader: Reader, result: GetResult) -> None:
        reader.connection.send(self._response(reader, result))

    def _response(
        self, reader: Reader, result: GetResult, suggested: int | None = None
    ) -> RemotingCommand:
        code = code_of(result.status.value, reader.pull.queue_offset)
        if result.status is GetStatus.RECORD_REFUSED:
            return reader.request.reply(
                code,
                remark=(
                    f"message {result.next_offset} of the queue is damaged here; it is "
                    "being fetched"
                ),
            )
        pull = reader.pull
        if suggested is None:
            suggested = self._suggested(pull, result)
        ext = answer_ext(result.next_offset, result.min_offset, result.max_offset, suggested)
        self._note_given(reader.pull, result.next_offset)
        self._counts(pull.topic, pull.group, result.messages, len(result.body))
        return reader.request.reply(code, ext, result.body, remark=result.status.value)


def _uncounted(topic: str, group: str, messages: int, size: int) -> None:
    """Nobody wants to know."""
