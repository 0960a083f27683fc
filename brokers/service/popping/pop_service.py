"""Serving pops on the master: 200050, waiting ones, 200055 (PROTOCOL 4.9).

Responsible for: who may pop, holding a pop until there is something for it, the answer. Refuses to
know: what is taken from which queue (`collect`), how messages get into queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField
from brokers.service.clients.wanted import FilterRefused, Filters, Wanted
from brokers.service.popping.collect import Collected, Collector
from brokers.service.popping.handles import message_offset_info, order_count_info, start_offset_info
from brokers.service.popping.names import no_retry_name, shared_retry_name
from brokers.service.popping.pop_request import (
    EVERY_QUEUE,
    POLL_MS_MAX,
    PopRequest,
    parse,
    refusal_of_numbers,
)
from brokers.service.popping.reading import QueueReader
from brokers.service.popping.terms import PopTerms
from brokers.service.popping.waiting_pops import Waiting, WaitingPops
from brokers.service.role.forward import CALL_TIMEOUT_MS
from brokers.service.role.services import Moves, Served, Service, Where
from brokers.service.sending.request import Refusal
from brokers.service.tables.subscription_groups import group_refusal
from brokers.service.tables.topics import PERM_READ

FOUND, NOTHING = "FOUND", "NO_MESSAGE_IN_QUEUE"
# A message may come while a pop looks: it looks again, a few times, before it waits.
LOOKS_MAX = 3
# What is out in order is told to slaves, which ask every half second.
TELL_EVERY_MS = 250
DROP_EVERY_MS = 10_000
# Of a queue that grew, so many of its newest messages are asked for the tags a pop waits for.
NEWEST = 32
_log = logging.getLogger("regent.broker.pop")


@dataclass(frozen=True, slots=True)
class Popper:
    """A pop on its way: its asker, what it asks for, what it wants of it."""

    connection: Connection
    request: RemotingCommand
    pop: PopRequest
    wanted: Wanted
    deadline_ms: int | None


MakeGroup = Callable[[Mapping[str, object]], Awaitable[Refusal | None]]


class PopService(Service):
    """`make_group(settings)`: the members hold the group when it returns, or why not.
    `counts(topic, group, messages, bytes)`: what was given. `freed(topic, group, queue id)` is
    called when messages may be given again.
    """

    def __init__(
        self,
        terms: PopTerms,
        reader: QueueReader,
        collector: Collector,
        filters: Filters,
        make_group: MakeGroup,
        counts: Callable[[str, str, int, int], None],
    ) -> None:
        self._terms = terms
        self._reader = reader
        self._collector = collector
        self._filters = filters
        self._counts = counts
        self._make_group = make_group
        self._under_way: set[asyncio.Task[None]] = set()
        self.waiting = WaitingPops()
        self.freed: Callable[[str, str, int], None] = lambda _topic, _group, _queue: None
        self._leads = False
        # (group, topic) that popped under this mastership
        self._known: set[tuple[str, str]] = set()
        self._told = 0
        self._tell_ms = 0
        self._drop_ms = 0

    def serves(self) -> dict[int, Served]:
        """Pops are the master's: its check points must be held."""
        timeout_ms = POLL_MS_MAX + CALL_TIMEOUT_MS
        return {
            RequestCode.POP_MESSAGE: Served(
                self.serve,
                Where.MASTER,
                writes=True,
                timeout_ms=timeout_ms,
                moves=Moves.MESSAGES_OUT,
            ),
            RequestCode.POLLING_INFO: Served(self._polling, Where.MASTER, repeatable=True),
            RequestCode.POP_ROLLBACK: Served(_rolled_back),
        }

    def mastership_begins(self) -> None:
        self._reader.mastership_begins()
        self._leads = True
        self._known.clear()
        table = self._terms.tables.kept.table(RequestCode.REGENT_ORDERED_POPS)
        if left_out := self._terms.ordered.take(table):
            _log.error("%d entries of ordered pops cannot be read", left_out)
        self._told = self._terms.ordered.changes

    def acting_begins(self) -> None:
        """Check points go to other sets from now on."""
        if self._terms.acts:
            self.mastership_begins()

    def acting_over(self) -> None:
        if not self._terms.leads():
            self.mastership_over()

    def mastership_over(self) -> None:
        """Those that wait are answered as if nothing had come: their next finds the new master."""
        self._tell_ordered()
        self._leads = False
        for one in self.waiting.release_all():
            popper = _popper(one)
            if not popper.connection.closed:
                popper.connection.send(self._nothing(popper, ResponseCode.POLLING_TIMEOUT))

    def connection_closed(self, connection: Connection) -> None:
        self.waiting.connection_closed(connection.id)

    def tick(self, now_ms: int) -> None:
        for one in self.waiting.expired(now_ms):
            self._look_again(one)
        if not self._leads:
            return
        for topic, group, queue_id in self._terms.ordered.freed(self._terms.clock.wall_ms()):
            self.wake(topic, group, queue_id)
        if now_ms >= self._tell_ms:
            self._tell_ms = now_ms + TELL_EVERY_MS
            self._tell_ordered()
        if now_ms >= self._drop_ms:
            self._drop_ms = now_ms + DROP_EVERY_MS
            topics = self._terms.tables.topics
            self._terms.ordered.drop(
                self._terms.clock.wall_ms(), lambda topic: topics.get(topic) is not None
            )

    def _tell_ordered(self) -> None:
        """What is out in order, for slaves and the disk: only where something changed."""
        ordered = self._terms.ordered
        if self._leads and ordered.changes != self._told:
            self._told = ordered.changes
            self._terms.tables.kept.put(RequestCode.REGENT_ORDERED_POPS, ordered.table(), None)

    def close(self) -> None:
        self._tell_ordered()
        for task in self._under_way:
            task.cancel()

    def dispatched(self, topic: str, queue_id: int, max_offset: int) -> None:
        """A queue grew: wake those that wait for what came."""
        if not self.waiting.watches(topic):
            return
        newest: list[int] = []

        def takes(one: Waiting) -> bool:
            if one.codes is None:
                return True
            if not newest:
                newest.extend(self._newest_tags(topic, queue_id, max_offset))
            return not one.codes.isdisjoint(newest)

        for one in self.waiting.came(topic, queue_id, takes):
            self._look_again(one)

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Messages of this queue may be given again."""
        for one in self.waiting.more(topic, group, queue_id):
            self._look_again(one)
        self.freed(topic, group, queue_id)

    def _newest_tags(self, topic: str, queue_id: int, max_offset: int) -> list[int]:
        queue = self._terms.store.queues.get(topic, queue_id)
        if queue is None:
            return [0]
        entries = queue.read(max(0, max_offset - NEWEST), NEWEST)
        return [((code + 0x80000000) & 0xFFFFFFFF) - 0x80000000 for _, _, code in entries] or [0]

    # -- one pop -----------------------------------------------------------------------------------

    async def serve(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """Handler of 200050 on the master."""
        try:
            pop = parse(request.ext)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, _ext(), remark=str(error))
        clock = self._terms.clock
        refused = await self._refusal(pop)
        if refused is not None:
            return request.reply(refused.code, _ext(), remark=refused.remark)
        try:
            wanted = self._filters.asked(pop.topic, pop.expression, pop.expression_type)
        except FilterRefused as error:
            return request.reply(error.code, _ext(), remark=str(error))
        wait_ms = pop.wait_ms(clock.wall_ms())
        deadline_ms = clock.now_ms() + wait_ms if wait_ms else None
        return await self._look(Popper(connection, request, pop, wanted, deadline_ms))

    async def _look(self, popper: Popper) -> RemotingCommand | None:
        """The answer; None while it waits for one."""
        pop = popper.pop
        for _ in range(LOOKS_MAX):
            if not self._terms.gives():
                break
            got = await self._collector.pop(pop, popper.wanted)
            if got.rest and (got.taken or got.refused is not None):
                self.wake(pop.topic, pop.group, pop.queue_id)
            if got.taken:
                return self._found(popper, got)
            if got.refused is not None and self._terms.gives():
                code, remark = got.refused.code, got.refused.remark
                return popper.request.reply(code, _ext(), remark=remark)
            if not self._collector.has_more(pop):
                break
        deadline_ms = popper.deadline_ms
        is_over = deadline_ms is None or self._terms.clock.now_ms() >= deadline_ms
        if deadline_ms is None or is_over or not self._terms.gives():
            # during a hand-over, too: its next one waits for the next master
            return self._nothing(popper, ResponseCode.POLLING_TIMEOUT)
        connection = popper.connection
        if connection.closed:
            return None
        held = Waiting(pop.key, deadline_ms, connection.id, popper, popper.wanted.codes)
        if not self.waiting.hold(held):
            return self._nothing(popper, ResponseCode.POLLING_FULL)
        return None

    def _look_again(self, one: Waiting) -> None:
        task = asyncio.ensure_future(self._answered(_popper(one)))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _answered(self, popper: Popper) -> None:
        if popper.connection.closed:
            return
        try:
            answer = await self._look(popper)
        except Exception as error:  # its client waits for an answer, whatever it is
            _log.exception("a waiting pop of %s failed", popper.pop.topic)
            answer = popper.request.reply(ResponseCode.SYSTEM_ERROR, _ext(), remark=str(error))
        if answer is not None and not popper.connection.closed:
            popper.connection.send(answer)

    async def _refusal(self, pop: PopRequest) -> Refusal | None:
        terms = self._terms
        broker = f"the broker[{terms.address}]"
        if pop.too_late(terms.clock.wall_ms()):
            return Refusal(
                ResponseCode.POLLING_TIMEOUT, f"{broker} pop message is timeout too much"
            )
        if (reason := refusal_of_numbers(pop)) is not None:
            return Refusal(ResponseCode.INVALID_PARAMETER, f"{broker} {reason}")
        if terms.timer is None:
            return Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"{broker} pop message is forbidden because timerWheelEnable is false",
            )
        return self.unreadable(pop) or await self._no_group(pop.group, pop.topic)

    def unreadable(self, pop: PopRequest) -> Refusal | None:
        """Why this topic or queue cannot be read."""
        config = self._terms.tables.topics.get(pop.topic)
        if config is None:
            return Refusal(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{pop.topic}] not exist, apply first please!"
            )
        if not config.perm & PERM_READ:
            return Refusal(
                ResponseCode.NO_PERMISSION, f"the topic[{pop.topic}] peeking message is forbidden"
            )
        if not EVERY_QUEUE <= pop.queue_id < config.read_queues:
            return Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{pop.queue_id}] is illegal, topic:[{pop.topic}] "
                f"topicConfig.readQueueNums:[{config.read_queues}]",
            )
        return None

    async def _no_group(self, group: str, topic: str) -> Refusal | None:
        """Why this group cannot pop; one that is new is made."""
        groups = self._terms.tables.groups
        if (reason := group_refusal(group)) is not None:
            return Refusal(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{group[:80]}] does not exist: {reason}",
            )
        if (group, topic) not in self._known or groups.get(group) is None:
            refused = await self._not_ready(group, topic)
            if refused is not None:
                return refused
            self._known.add((group, topic))
        if not groups.consume_enabled(group):
            return Refusal(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}")
        return None

    async def _not_ready(self, group: str, topic: str) -> Refusal | None:
        """Why copies of what this group does not acknowledge could not come back to it. A group
        that only a heartbeat made is not at the members: a new master would take its messages for
        those of a group that is gone.
        """
        tables = self._terms.tables
        reason = no_retry_name(group, topic) or shared_retry_name(group, topic, tables.offsets.has)
        if reason is not None:
            return Refusal(ResponseCode.INVALID_PARAMETER, f"group {group}: {reason}")
        if self._terms.acts:
            return None if tables.groups.get(group) is not None else _unknown_to_slave(group)
        try:
            return await self._make_group({"groupName": group, **(tables.groups.get(group) or {})})
        except ValueError as error:
            return Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, str(error))

    # -- answers -----------------------------------------------------------------------------------

    def _found(self, popper: Popper, got: Collected) -> RemotingCommand:
        taken = [one.popped for one in got.taken]
        ext = _ext(popper.pop, got)
        ext["startOffsetInfo"] = start_offset_info(taken)
        ext["msgOffsetInfo"] = message_offset_info(taken)
        if popper.pop.ordered:
            ext["orderCountInfo"] = order_count_info(taken)
        for one in got.taken:
            self._counts(one.topic, popper.pop.group, len(one.popped.offsets), len(one.body))
        body = b"".join(one.body for one in got.taken)
        return popper.request.reply(ResponseCode.SUCCESS, ext, body, remark=FOUND)

    def _nothing(self, popper: Popper, code: ResponseCode) -> RemotingCommand:
        return popper.request.reply(code, _ext(), remark=NOTHING)

    def _polling(self, _connection: Connection, request: RemotingCommand) -> Answer:
        """200055: how many pops wait under the key."""
        try:
            pop = parse(request.ext)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if (refused := self.unreadable(pop)) is not None:
            return request.reply(refused.code, remark=refused.remark)
        return request.reply(ext={"pollingNum": str(self.waiting.waiting(pop.key))})


def _rolled_back(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """200056: all state is in the log already, none in a store of keys and values."""
    return request.reply()


def _unknown_to_slave(group: str) -> Refusal:
    return Refusal(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"subscription group [{group[:80]}] does not exist: the set has no master that could make "
        "it",
    )


def _popper(one: Waiting) -> Popper:
    assert isinstance(one.request, Popper)
    return one.request


def _ext(pop: PopRequest | None = None, got: Collected | None = None) -> dict[str, str]:
    """Fields that every answer has; clients read them before the code."""
    return {
        "popTime": str(got.pop_ms if got is not None else 0),
        "invisibleTime": str(pop.invisible_ms if pop is not None else 0),
        "reviveQid": str(got.revive_queue if got is not None else 0),
        "restNum": str(got.rest if got is not None else 0),
        "startOffsetInfo": "",
        "msgOffsetInfo": "",
    }
