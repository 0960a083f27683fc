"""The services of one broker behind one table from request code to handler.

Responsible for: which services there are, what of each other they need, and the order in which they
hear of a change of role. Refuses to know: what each of them serves and how (`role.services`),
sockets, the controller, how a role comes about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from brokers.clock import Clock
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection, Handler
from brokers.service.clients.requests import ClientRequests
from brokers.service.delivery.delay_service import DelayDelivery
from brokers.service.delivery.send_back import RetryRules, SendBack
from brokers.service.metadata.kept_requests import KeptRequests
from brokers.service.metadata.offset_requests import OffsetRequests
from brokers.service.metadata.shared_tables import SharedTables
from brokers.service.metadata.topic_requests import TopicRequests
from brokers.service.reading.pull import PullService
from brokers.service.reading.query_requests import QueryRequests
from brokers.service.reading.repair import Repairs
from brokers.service.role.forward import Forwarder, Serve
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Service, declared, handlers_of
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.sending.send import SendService, SendTerms
from brokers.service.tables.topics import RETRY_PREFIX, TopicConfig, name_refusal
from brokers.store.log.integrity import BadRecord
from brokers.store.queue_follower import QueueFollower
from brokers.store.queues.dispatch import QueueGrowth
from brokers.store.store import MessageStore

TICK_MS = 50

_log = logging.getLogger("regent.broker.clients")


class ClientService:
    """Everything clients ask of a broker, but for the broker's own state."""

    def __init__(
        self,
        store: MessageStore,
        shared: SharedTables,
        roles: RoleView,
        clock: Clock,
        forwarder: Forwarder,
        terms: SendTerms,
        routes_changed: Callable[[], None],
        repairs: Repairs | None = None,
    ) -> None:
        tables, changes, self._ends = shared.files, shared.topics, shared.ends
        self._store = store
        self._tables = tables
        self._roles = roles
        self._clock = clock
        self._forwarder = forwarder
        self._changes = changes
        self._routes_changed = routes_changed
        self._follower = QueueFollower(store, self._queues_grew, lambda: roles.serving)
        self.groups = shared.client_groups
        self.clients = ClientRequests(
            self.groups, clock, self.ensure_groups, tables.groups.notify_enabled, self._queue_exists
        )
        repair = _nothing_to_repair if repairs is None else repairs.wanted
        self.puts = OwnPuts(store, roles, clock, terms)
        soon = lambda act: asyncio.get_running_loop().call_soon(act)  # noqa: E731
        self.delivery = DelayDelivery(store, tables.kept, self.puts, clock, repair, soon)
        self.pulls = PullService(
            store, tables, self.groups, clock, soon, repairs, lambda: roles.serves(writes=True)
        )
        self.sends = self._sends(terms)
        self._offsets = OffsetRequests(store, tables, clock, roles, shared.held, self.groups)
        self._services: tuple[Service, ...] = (
            self.sends,
            self.pulls,
            self.clients,
            QueryRequests(store, repair),
            self.delivery,
            self._send_back(repair),
            self._offsets,
            TopicRequests(tables, changes, shared.groups),
            KeptRequests(tables.kept, store, clock),
            *shared.services,
        )
        self.served = declared(self._services)
        """Request code to how it is served."""
        changes.found(store.queue_ids())

    def _sends(self, terms: SendTerms) -> SendService:
        locks, clock = self.clients.locks, self._clock
        retries = RetryRules(
            self._tables.groups, lambda group: locks.holds_any(group, clock.now_ms())
        )
        return SendService(
            self._store,
            self._tables.topics,
            self._roles,
            clock,
            terms,
            not_serving=self._not_serving,
            create_topic=self._changes.on_first_send,
            unheld_topics=self._changes.unheld,
            retried=retries.destination,
        )

    def _send_back(self, repair: Callable[[BadRecord, str], object]) -> SendBack:
        return SendBack(
            self._store,
            self._tables,
            self.puts,
            known=self.ensure_groups,
            hold=self._changes.put,
            unheld=self._changes.unheld,
            repair=repair,
            leads=lambda: self._roles.serves(writes=True),
            not_serving=self._passed_on,
        )

    @property
    def queue_ends_behind(self) -> int:
        """Queues of which this slave has seen more than its master."""
        return self._ends.behind

    def handlers(self) -> dict[int, Handler]:
        """Request code to handler. What a slave cannot answer it passes on to its master."""
        return handlers_of(self.served, self._forwarder)

    def _not_serving(self, connection: Connection, request: RemotingCommand) -> Answer:
        return self._passed_on(connection, request, self.sends.serve)

    def _passed_on(self, connection: Connection, request: RemotingCommand, serve: Serve) -> Answer:
        return self._forwarder.handle(connection, request, serve, writes=True)

    def unfinished(self) -> int:
        """Sends and changes of topics that were begun and are not answered yet."""
        return self.sends.waiting + self.puts.waiting + self._changes.under_way

    def _queue_exists(self, topic: str, queue_id: int) -> bool:
        config = self._tables.topics.get(topic)
        return config is not None and 0 <= queue_id < config.queues

    # -- what happens around -----------------------------------------------------------------------

    def confirmed(self, confirm_offset: int) -> None:
        """Messages up to here may be read: their queues follow."""
        if (until := self.pulls.caught_up_with(confirm_offset)) is not None:
            self._follower.confirmed(until)
            self._follower.catch_up()
            self.pulls.caught_up()
        self._follower.confirmed(confirm_offset)

    def _queues_grew(self, grown: list[QueueGrowth]) -> None:
        """Wake all waiters."""
        for topic, queue_id, max_offset in grown:
            self._changes.dispatched(topic, queue_id)
            self.pulls.dispatched(topic, queue_id, max_offset)

    def mastership_begins(self, master_epoch: int) -> None:
        """Before the role view says so: queues go on behind all of the log, the table knows every
        topic of it.
        """
        self._follower.catch_up()
        self._store.ends.note_committed(self._store.queues, self._read_up_to())
        self._store.rebuild_queue_offsets()
        for service in self._services:
            service.mastership_begins()
        self._tables.offsets.mastership_began()
        self._tables.topics.mastership_began(master_epoch, self._clock.wall_ms())

    def _read_up_to(self) -> dict[tuple[str, int], int]:
        has_queue = self._tables.topics.has_queue
        return {
            key: offset
            for key, offset in self._tables.offsets.furthest().items()
            if has_queue(*key)
        }

    def mastership_over(self) -> None:
        for service in self._services:
            service.mastership_over()

    def connection_closed(self, connection: Connection) -> None:
        for service in self._services:
            service.connection_closed(connection)

    def ensure_groups(self, names: Iterable[str]) -> None:
        """A client greeted with these consumer groups: they and their retry topics exist from now
        on (4.4).
        """
        if not self._roles.serving:
            # A slave's tables are its master's, which the same client greets, too.
            return
        groups, topics = self._tables.groups, self._tables.topics
        wall_ms = self._clock.wall_ms()
        known = list(dict.fromkeys(names))
        if any([groups.ensure(name, wall_ms) for name in known]):
            self._tables.groups_file.save_soon()
        retry = [
            TopicConfig(RETRY_PREFIX + name, groups.retry_queues(name), groups.retry_queues(name))
            for name in known
            if groups.get(name) is not None
            and topics.get(RETRY_PREFIX + name) is None
            and not name_refusal(RETRY_PREFIX + name)
        ]
        try:
            if not retry or not topics.put(retry, wall_ms):
                return
        except ValueError as error:
            # the table is full: these groups read all the same, what they send back waits
            _log.warning("retry topics are not made: %s", error)
            return
        self._changes.not_held_yet(retry)
        self._tables.topics_file.save_soon()
        self._routes_changed()

    async def run(self) -> None:
        """Time-outs of pulls and clients, for as long as the broker runs."""
        try:
            while True:
                await asyncio.sleep(TICK_MS / 1000)
                now_ms = self._clock.now_ms()
                for service in self._services:
                    service.tick(now_ms)
        finally:
            self._follower.close()
            for service in self._services:
                service.close()


def _nothing_to_repair(bad: BadRecord, found_by: str) -> None:
    """What is damaged stays so: nobody is there to ask."""
