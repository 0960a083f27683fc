"""Making topics known before anybody relies on them: on disk, at the replicas, in the routes
(design S10).

Responsible for: creation on first send, by request (17, 18) and for retry topics; deletion (215);
pushing the table to the members of the SyncStateSet (19010) and taking it over from a master.
Refuses to know: who is master, messages.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.java_numbers import whole_number
from brokers.service.metadata.held_by_members import HELD, Ask, HeldByMembers
from brokers.service.metadata.table_pieces import WHOLE_BYTES_MAX
from brokers.service.role.hand_over_requests import take_tables
from brokers.service.role.role_view import RoleView
from brokers.service.sending.request import Refusal, SendRequest
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import BATCH_QUEUES, TopicConfig, TopicTable
from brokers.store.files.disk import is_full

_log = logging.getLogger("regent.broker.tables")


class TopicChanges:
    """`register()`: resolves when the name servers that can be reached know the present table."""

    def __init__(
        self,
        tables: TableFiles,
        roles: RoleView,
        held: HeldByMembers,
        clock: Clock,
        register: Callable[[], Awaitable[object]],
        auto_create: bool,
    ) -> None:
        self._tables = tables
        self._roles = roles
        self._held = held
        self._clock = clock
        self._register, self.auto_create = register, auto_create
        self._running: dict[str, asyncio.Future[Refusal | None]] = {}
        # Topics in the table that not every member is known to hold: no send to them may be
        # acknowledged.
        self.unheld: set[str] = set()
        # queues with messages, of topics that the table did not hold then
        self._unknown: set[tuple[str, int]] = set()

    @property
    def under_way(self) -> int:
        """Topics whose change is not settled yet."""
        return len(self._running)

    async def on_first_send(self, send: SendRequest) -> Refusal | None:
        """Create the topic of a send, once however many ask; None when the topic may be used."""
        running = self._running.get(send.topic)
        if running is not None:
            return await asyncio.shield(running)
        config = self._tables.topics.get(send.topic)
        if config is not None and send.topic not in self.unheld:
            return None
        if config is None and self.auto_create:
            config = self._tables.topics.for_first_send(
                send.topic, send.default_topic, send.default_queues, send.unit
            )
        if config is None:
            return Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {send.topic} does not exist and cannot be created by a send",
            )
        return await self.put([config])

    async def put(self, configs: list[TopicConfig]) -> Refusal | None:
        """Add or change topics; returns when disk, members and name servers have them, or why
        not.
        """
        task = asyncio.ensure_future(self._put(configs))
        names = {config.name for config in configs}
        self._running.update(dict.fromkeys(names, task))
        self.unheld |= names
        task.add_done_callback(lambda done: self._settled(names, done))
        return await asyncio.shield(task)

    def _settled(self, names: set[str], task: asyncio.Future[Refusal | None]) -> None:
        held = not task.cancelled() and task.exception() is None and task.result() is None
        for name in names:
            if self._running.get(name) is task:
                del self._running[name]
                # A topic that could not even enter the table is nobody's to hold: strangers can
                # name many.
                if held or self._tables.topics.get(name) is None:
                    self.unheld.discard(name)

    async def _put(self, configs: list[TopicConfig]) -> Refusal | None:
        try:
            if self._tables.topics.put(configs, self._clock.wall_ms()):
                self._tables.topics_file.save_soon()
            self._held.begun += 1
            await self._tables.topics_file.until_saved()
        except (ValueError, OSError) as error:
            full = isinstance(error, OSError) and is_full(error)
            return Refusal(
                ResponseCode.SERVICE_NOT_AVAILABLE if full else ResponseCode.SYSTEM_ERROR,
                str(error),
            )
        held, _ = await asyncio.gather(self.agree(), self._register())
        if not held:
            return Refusal(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "not every in-sync replica holds the new topic yet",
            )
        return None

    async def delete(self, topic: str) -> Refusal | None:
        """Remove a topic; None when disk and members know that it is gone. Routes lose it only at
        the name server's own request (4.1).
        """
        self._held.begun += 1
        if self._tables.topics.remove(topic, self._clock.wall_ms()):
            self._tables.offsets.remove_topic(topic)
            self._tables.topics_file.save_soon()
        try:
            await self._tables.topics_file.until_saved()
        except OSError as error:
            return Refusal(ResponseCode.SYSTEM_ERROR, str(error))
        if not await self.agree():
            return Refusal(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "not every in-sync replica knows yet that the topic is gone",
            )
        return None

    async def agree(self) -> bool:
        """Until every member of the set holds this table, a bounded time; False when one does not,
        or the role is lost.
        """
        return await self._held.until_held(self._push)

    async def _push(self, ask: Ask, epoch: int) -> bool:
        """First the versions only: after a promotion the tables are nearly always equal, and may be
        large.
        """
        # the present one: what an older one held is in it, or gone since
        text = self._tables.topics.text()
        facts = {"regentMasterEpoch": str(epoch), "regentTopicsDigest": text.digest}
        answer = await ask(
            RemotingCommand.request(RequestCode.REGENT_PUSH_TOPICS, facts, text.version)
        )
        if answer.code not in (*HELD, ResponseCode.SERVICE_NOT_AVAILABLE):
            body = text.stored()
            if len(body) > WHOLE_BYTES_MAX:  # it copies the table in pieces, and is asked once more
                await ask(take_tables(epoch))
                body = text.version
            answer = await ask(RemotingCommand.request(RequestCode.REGENT_PUSH_TOPICS, facts, body))
        if (
            answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            and self._roles.current.master_epoch == epoch
        ):
            self._tables.topics.pass_counter(
                whole_number(answer.ext.get("regentTopicsCounter", "")) or 0
            )
        return answer.code in HELD

    def mastership_begins(self) -> None:
        """What an earlier mastership left unfinished is this one's no more: its table is what the
        set shall hold.
        """
        self.unheld.clear()
        unknown, self._unknown = self._unknown, set()
        self.restore(unknown)

    def dispatched(self, topic: str, queue_id: int) -> None:
        """A message of this queue may be read now. A slave's table may come later: what it lacks is
        noted for the day it leads, which must not cost what grows with the number of queues.
        """
        if self._roles.serving:
            if self._tables.topics.get(topic) is None:
                self.restore([(topic, queue_id)])
        elif not self._tables.topics.has_queue(topic, queue_id):
            self._unknown.add((topic, queue_id))

    def found(self, queues: Iterable[tuple[str, int]]) -> None:
        """These have messages, at the start of the process."""
        self._unknown.update(queue for queue in queues if not self._tables.topics.has_queue(*queue))

    def restore(self, queues: Iterable[tuple[str, int]]) -> None:
        """Topics that the log holds and the table does not, which only a lost table or a late push
        explains.
        """
        missing = self._tables.topics.missing_for(queues)
        if missing:
            _log.warning(
                "topics restored from the log: %s",
                ", ".join(config.name for config in missing)[:400],
            )
            try:
                self._tables.topics.put(missing, self._clock.wall_ms())
            except ValueError as error:
                # The messages stay in their queues; a full table must not keep a replica from
                # leading.
                _log.error("topics of the log are not restored: %s", error)
                return
            self.not_held_yet(missing)

    def not_held_yet(self, configs: Iterable[TopicConfig]) -> None:
        """These are in the table without the members' knowledge: the next send to one waits until
        they hold it.
        """
        self.unheld |= {config.name for config in configs}

    def adopt(self, table: TopicTable, master_epoch: int) -> bool:
        """A slave takes its master's table; False when it comes from a mastership that is over or
        from this broker's own, is empty, or is older and another than the one here.
        """
        mine = self._tables.topics
        if self._roles.role == "MASTER" or master_epoch < self._roles.current.master_epoch:
            return False
        same_line = table.version.state_version == mine.version.state_version
        if same_line and table.version.counter < mine.version.counter:
            # An answer from before the last push, or a counter that no master gave: what is here is
            # not what is asked.
            return table.text().digest == mine.text().digest
        if mine.configs and not table.configs:
            return False
        unread = [
            name
            for name, config in table.configs.items()
            if config.attributes.get("queue.type") == BATCH_QUEUES
            and mine.configs.get(name) != config
        ]
        if unread:
            _log.error(
                "topics with batch queues are copied but cannot be read here: %s",
                ", ".join(sorted(unread))[:400],
            )
        before = set(mine.configs)
        if mine.adopt(table):
            for name in before - set(mine.configs):
                if mine.dropped.covers(name, 0):
                    self._tables.offsets.remove_topic(name)
            self._tables.topics_file.save_soon()
        return True
