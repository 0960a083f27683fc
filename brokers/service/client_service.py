"""The services of one broker behind one table from request code to handler.

Responsible for: which services there are, what of each other they need, and the order in which they
hear of a change of role. Refuses to know: what each of them serves and how (`role.services`),
sockets, the controller, how a role comes about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from brokers.clock import Clock
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection, Handler
from brokers.service.clients.requests import ClientRequests
from brokers.service.clients.wanted import Filters
from brokers.service.delivery.delay_service import DelayDelivery
from brokers.service.delivery.send_back import RetryRules, SendBack
from brokers.service.escape.away import Ways
from brokers.service.escape.bridge import EscapeBridge
from brokers.service.inspection.client_inspection import ClientInspection
from brokers.service.inspection.group_inspection import GroupInspection
from brokers.service.inspection.resets import OffsetResets
from brokers.service.inspection.topic_inspection import TopicInspection
from brokers.service.made_on_the_way import MadeOnTheWay
from brokers.service.metadata.group_requests import GroupRequests
from brokers.service.metadata.kept_requests import KeptRequests
from brokers.service.metadata.offset_requests import OffsetRequests
from brokers.service.metadata.shared_tables import SharedTables
from brokers.service.metadata.topic_requests import TopicRequests
from brokers.service.popping.assignment_service import Routes
from brokers.service.popping.parts import Popping
from brokers.service.popping.terms import PopSettings, PopTerms, PopTimer
from brokers.service.reading.pull import PullService
from brokers.service.reading.query_requests import QueryRequests
from brokers.service.reading.repair import Repairs
from brokers.service.reading.slave_reads import SlaveReads
from brokers.service.role.forward import Forwarder, Serve
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Service, declared, handlers_of
from brokers.service.role.turns import Turns
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.sending.replies import Replies
from brokers.service.sending.send import SendService, SendTerms
from brokers.service.statistics.counters import Statistics
from brokers.service.statistics.requests import StatisticsRequests
from brokers.service.tables.pending_resets import PendingResets
from brokers.service.timers.recall import RecallRequests
from brokers.service.timers.timer_service import TimerService
from brokers.service.transactions.checks import TransactionChecks
from brokers.service.transactions.end_requests import EndTransactions
from brokers.service.transactions.leaving import HalvesLeave
from brokers.service.transactions.ledger import TransactionLedger
from brokers.service.transactions.rules import TransactionTerms
from brokers.store.files.errors import LogError
from brokers.store.log.integrity import BadRecord
from brokers.store.queue_follower import QueueFollower
from brokers.store.queues.dispatch import QueueGrowth
from brokers.store.store import MessageStore

TICK_MS = 50
# A service that fails each time is told of again after it.
TOLD_AGAIN_MS = 60_000

_log = logging.getLogger("regent.broker.clients")


@dataclass(frozen=True, slots=True)
class BrokerNames:
    """What clients and tools call this broker. `address`: host:port where clients find it."""

    cluster_name: str
    broker_name: str
    address: str


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
        filters: Filters | None = None,
        *,
        names: BrokerNames,
        transactions: TransactionTerms,
        routes: Routes | None = None,
        pop_settings: PopSettings | None = None,
        slave_reads: SlaveReads | None = None,
        escape: EscapeBridge | None = None,
    ) -> None:
        self.escape, self.turns = escape, Turns()
        tables, changes, self._ends = shared.files, shared.topics, shared.ends
        self._store = store
        self.tables = tables
        self._roles = roles
        self._clock = clock
        self._forwarder = forwarder
        self.changes = changes
        self._follower = QueueFollower(store, self._queues_grew, lambda: roles.serving)
        self.groups, self.locks = shared.client_groups, shared.locks
        self.filters = filters or Filters()
        self._repair = _nothing_to_repair if repairs is None else repairs.wanted
        self._shared = shared
        self._names = names
        self._pending = PendingResets()
        self._told: dict[str, int] = {}
        self.made = MadeOnTheWay(tables, changes, roles, clock, routes_changed)
        self.ensure_groups = self.made.ensure_groups
        self.clients = self._clients()
        self.puts = OwnPuts(store, roles, clock, terms)
        self.statistics = Statistics(names.cluster_name)
        self.pulls = self._pulls(repairs, slave_reads)
        self.timers = self._timers(terms)
        self.sends = self._sends(terms)
        self.delivery = self._delivery()
        self.ledger = TransactionLedger(store, tables, self.puts, clock, self._repair, _soon)
        self.halves = HalvesLeave(store, self.ledger, clock, self._repair, self._ways)
        self.terms = transactions
        self.transactions, self.checks = self._transactions(transactions)
        self._offsets = self._offset_requests()
        self.popping = self._popping(routes, pop_settings)
        self._services = self._all_services(terms)
        self.served = declared(self._services)
        """Request code to how it is served."""
        changes.found(store.queue_ids())

    def _all_services(self, terms: SendTerms) -> tuple[Service, ...]:
        topics, names = self.tables.topics, self._names
        return (
            *(() if self.escape is None else (self.escape,)),  # it begins before who uses it
            self.sends,
            self.pulls,
            self.clients,
            self.delivery,
            self.timers,
            self._recall(terms),
            self._send_back(),
            self.halves,
            self.ledger,
            self.transactions,
            self.checks,
            Replies(topics, self.puts, self._clock, names.cluster_name, self.clients.client),
            *self._tables_asked(),
            StatisticsRequests(self.statistics, self._clock, lambda: self.timers.counted),
            *self._inspections(),
            *self.popping.services,
            *self._shared.services,
        )

    @property
    def _ways(self) -> Ways | None:
        """To other sets while this slave acts."""
        return None if self.escape is None else self.escape.outlet

    def _delivery(self) -> DelayDelivery:
        return DelayDelivery(
            self._store,
            self.tables.kept,
            self.puts,
            self._clock,
            self._repair,
            self.turns.soon,
            self._ways,
        )

    def _clients(self) -> ClientRequests:
        return ClientRequests(
            self.groups,
            self._clock,
            self.made.greeted,
            self.tables.groups.notify_enabled,
            self.filters,
        )

    def _pulls(self, repairs: Repairs | None, slave_reads: SlaveReads | None) -> PullService:
        return PullService(
            self._store,
            self.tables,
            self.groups,
            self._clock,
            _soon,
            repairs,
            lambda: self._roles.serves(writes=True),
            self.filters,
            self._pending,
            self.statistics.given,
            self.statistics.times.read,
            slave_reads,
        )

    def _sends(self, terms: SendTerms) -> SendService:
        locks, clock = self.locks.locks, self._clock
        retries = RetryRules(
            self.tables.groups, lambda group: locks.holds_any(group, clock.now_ms())
        )
        return SendService(
            self._store,
            self.tables.topics,
            self._roles,
            clock,
            terms,
            not_serving=self._not_serving,
            create_topic=self.changes.on_first_send,
            unheld_topics=self.changes.unheld,
            retried=retries.destination,
            stored=self.statistics.stored,
            as_stored=self.timers.timed.as_stored,
            usual_timed=self.timers.timed.usual,
            appended=self.statistics.times.appended,
            failed=self.statistics.not_stored,
        )

    def _popping(self, routes: Routes | None, settings: PopSettings | None) -> Popping:
        names, timers = self._names.cluster_name, self.timers
        terms = PopTerms(
            self._store, self.tables, self.puts, self._clock, names, self._names.broker_name
        )
        if timers.enabled:
            terms.timer = PopTimer(
                timers.timed.at, lambda: timers.delivered_until_ms, timers.now_ms
            )
        terms.settings = settings or terms.settings
        terms.pending = self._pending
        terms.leads = lambda: self._roles.serves(writes=True)
        if self.escape is not None:
            terms.away = self.escape.awaited
            self.escape.escape.own_host = self.puts.store_host
        popping = Popping(
            terms,
            self.pulls.cold_reads,
            self.filters,
            self._repair,
            self._offsets.first_held,
            self._shared.groups.put,
            self.made.topics,
            _soon,
            self.turns.soon,
            self.groups,
            routes,
            self.statistics.given,
            self._ways,
            None if self.escape is None else self.escape.get,
        )
        timers.did.keeps = popping.revive.leaving
        terms.is_here = popping.revive.left_soon
        return popping

    def _timers(self, terms: SendTerms) -> TimerService:
        return TimerService(
            self._store,
            self.tables.kept,
            self.puts,
            self._clock,
            terms.timers,
            repair=self._repair,
            soon=self.turns.soon,
            beside=lambda job: asyncio.get_running_loop().run_in_executor(None, job),
            master_epoch=lambda: self._roles.current.master_epoch,
            topics=lambda: list(self.tables.topics.configs),
            ways=self._ways,
        )

    def _recall(self, terms: SendTerms) -> RecallRequests:
        timers, topics = self.timers, self.tables.topics
        return RecallRequests(
            terms.timers, timers.timed, self.puts, topics, self._clock, timers.now_ms
        )

    def _send_back(self) -> SendBack:
        return SendBack(
            self._store,
            self.tables,
            self.puts,
            known=self.ensure_groups,
            hold=self.changes.put,
            unheld=self.changes.unheld,
            repair=self._repair,
            leads=lambda: self._roles.serves(writes=True),
            not_serving=self._passed_on,
            counts=lambda topic, group, dead: self.statistics.sent_back(topic, group, dead=dead),
        )

    def _transactions(self, terms: TransactionTerms) -> tuple[EndTransactions, TransactionChecks]:
        common = self._store, self.ledger, self.puts, self._clock, terms
        ends = EndTransactions(
            *common,
            repair=self._repair,
            leads=lambda: self._roles.serves(writes=True),
            passed_on=self._passed_on,
        )
        topics, unheld = self.tables.topics, self.changes.unheld
        checks = TransactionChecks(
            *common,
            broker_name=self._names.broker_name,
            producers=self.clients.producers,
            hold=self.changes.put,
            has_topic=lambda name: topics.get(name) is not None and name not in unheld,
            repair=self._repair,
            soon=self.turns.soon,
        )
        return ends, checks

    def _offset_requests(self) -> OffsetRequests:
        return OffsetRequests(
            self._store,
            self.tables,
            self._clock,
            self._roles,
            self._shared.held,
            self.groups,
            self._pending,
        )

    def _tables_asked(self) -> tuple[Service, ...]:
        """Tables of topics, groups and offsets, and messages by key."""
        store, tables, clock, shared = self._store, self.tables, self._clock, self._shared
        retries = self.popping.retry_topics
        return (
            QueryRequests(store, self._repair),
            self._offsets,
            TopicRequests(tables, self.changes, shared.groups, retries),
            GroupRequests(
                tables,
                shared.groups,
                clock,
                self._pending,
                self.pulls.forget_group,
                self.groups.topics_of,
            ),
            KeptRequests(tables.kept, store, clock),
        )

    def _inspections(self) -> tuple[Service, ...]:
        """What operators' tools ask."""
        store, tables, names = self._store, self.tables, self._names
        broker_name = names.broker_name
        counted = self.statistics
        return (
            TopicInspection(
                store, tables, self.groups, (names.cluster_name, broker_name), counted.topic_rate
            ),
            GroupInspection(
                store,
                tables,
                self.groups,
                broker_name,
                names.address,
                self._clock,
                self.pulls.given,
                counted.group_rate,
            ),
            ClientInspection(store, self.groups, self._clock, broker_name, self.clients.connection),
            OffsetResets(store, tables, self._clock, broker_name, self._pending),
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
        waiting = self.sends.waiting + self.puts.waiting + self.transactions.waiting
        return waiting + self.changes.under_way

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
            self.changes.dispatched(topic, queue_id)
            self.pulls.dispatched(topic, queue_id, max_offset)
            self.popping.dispatched(topic, queue_id, max_offset)

    def mastership_begins(self, master_epoch: int) -> None:
        """Before the role view says so: queues go on behind all of the log, the table knows every
        topic of it.
        """
        self._follower.catch_up()
        self._store.ends.note_committed(self._store.queues, self._read_up_to())
        self._store.rebuild_queue_offsets()
        for service in self._services:
            service.mastership_begins()
        self.tables.offsets.mastership_began()
        self.tables.topics.mastership_began(master_epoch, self._clock.wall_ms())

    def _read_up_to(self) -> dict[tuple[str, int], int]:
        has_queue = self.tables.topics.has_queue
        return {
            key: offset for key, offset in self.tables.offsets.furthest().items() if has_queue(*key)
        }

    def mastership_over(self) -> None:
        for service in self._services:
            service.mastership_over()

    def acting_begins(self) -> None:
        """This slave delivers for its master from now on."""
        for service in self._services:
            service.acting_begins()

    def acting_over(self) -> None:
        """It does so no more: behind `acting_held`, with the places of all that was taken."""
        for service in self._services:
            service.acting_over()

    def acting_stops(self) -> None:
        """Nothing more leaves from now on."""
        if self.escape is not None:
            self.escape.hold()

    async def acting_held(self) -> None:
        """What was under way then has been waited for."""
        if self.escape is not None and not await self.escape.settled():
            _log.warning("puts to other sets are under way still: what becomes of them counts not")

    async def leaves_within(self, timeout_ms: int) -> bool:
        """Whether anything leaves for other sets, now or within this time."""
        return self.escape is not None and await self.escape.awaited.begun(timeout_ms)

    def connection_closed(self, connection: Connection) -> None:
        for service in self._services:
            service.connection_closed(connection)

    async def run(self) -> None:
        """Time-outs of pulls and clients, for as long as the broker runs."""
        try:
            while True:
                await asyncio.sleep(TICK_MS / 1000)
                now_ms = self._clock.now_ms()
                for service in self._services:
                    self._tick(service, now_ms)
        finally:
            self._follower.close()
            for service in self._services:
                service.close()

    def _delivers(self, service: Service) -> bool:
        """Whether it puts messages without being asked."""
        own = (self.delivery, self.timers, self.checks, self.halves, self.popping.revive)
        return service in own

    def _tick(self, service: Service, now_ms: int) -> None:
        """What one service cannot digest costs no other one its turn: a message that ends a master
        would end each of its successors. A disk that refuses is nobody's own trouble.
        """
        if self._delivers(service) and not self.turns.may_deliver():
            return
        try:
            service.tick(now_ms)
        except (OSError, LogError):
            raise
        except Exception as error:
            name = type(service).__name__
            if now_ms >= self._told.get(name, now_ms):
                self._told[name] = now_ms + TOLD_AGAIN_MS
                _log.error("%s cannot do its work", name, exc_info=error)


def _soon(act: Callable[[], None]) -> object:
    """In the next turn of the loop."""
    return asyncio.get_running_loop().call_soon(act)


def _nothing_to_repair(bad: BadRecord, found_by: str) -> None:
    """What is damaged stays so: nobody is there to ask."""
