"""The client service of one broker on a real socket and a real store; the replica's part is the
test's.

`Desk.confirm` says what a replica would: which offset every member has. Until then sends wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from brokers.acting.messages import Place
from brokers.acting.targets import Route
from brokers.clock import Clock
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.server import RemotingServer
from brokers.replica.effects import RoleChanged
from brokers.replica.put_rules import BusyGate
from brokers.replica.waiters import Confirmation
from brokers.service.client_service import BrokerNames, ClientService
from brokers.service.clients.wanted import Filters
from brokers.service.escape.bridge import EscapeBridge
from brokers.service.metadata.shared_tables import SharedTables
from brokers.service.role.forward import Forwarder
from brokers.service.role.role_view import RoleView
from brokers.service.sending.messages import UniqueKeys
from brokers.service.sending.send import Mastership, SendTerms
from brokers.service.sending.timed import TimerRules
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import system_topics
from brokers.service.transactions.rules import TransactionTerms
from brokers.store.log.group_commit import Flushed
from brokers.store.log.records import host_bytes
from brokers.store.store import MessageStore, StoreConfig
from tests.support.brokers import unhurried

SMALL = StoreConfig(log_file_bytes=1 << 20, queue_file_bytes=20_000)


class Desk:
    """One broker as its clients meet it. `confirm_at_once` False: the test confirms. `route`: the
    masters of other sets, as name servers would tell them of every topic; `sets`: where a set's
    messages can be read, by its name. `store` and `mastership`: of a real replica, not the test's.
    """

    def __init__(
        self,
        folder: Path,
        *,
        hold_ms: int = 2_000,
        flushed: Callable[[int], asyncio.Future[Flushed]] | None = None,
        transactions: TransactionTerms | None = None,
        rejects_transactions: bool = False,
        filters: Filters | None = None,
        sizes: StoreConfig = SMALL,
        timers: TimerRules | None = None,
        name: str = "b",
        store: MessageStore | None = None,
        mastership: Mastership | None = None,
    ) -> None:
        self._rejects_transactions = rejects_transactions
        self.timer_rules = TimerRules() if timers is None else timers
        self.clock, self.roles, self.client = Clock(), RoleView(), RemotingClient()
        self._began_ms = self.clock.wall_ms()
        self.store = MessageStore(folder, sizes) if store is None else store
        self._mastership = mastership
        self.tables = TableFiles(folder)
        self.tables.topics.put(system_topics("c", "b", True), 0)
        self.believes = True  # who connects is a replica of the set
        self.forwarder = Forwarder(self.roles, self.client, hold_ms, lambda peer: self.believes)
        self.members: dict[int, str] = {}
        self.registrations = 0
        self.reported: list[tuple[str, dict[str, object]]] = []
        self.shared = SharedTables(
            self.store,
            self.tables,
            self.roles,
            self.client,
            self.clock,
            lambda: self.members,
            self._register,
            lambda: self.members,
            lambda kind, fields: self.reported.append((kind, fields)),
            auto_create=True,
            period_ms=20,
        )
        self.changes = self.shared.topics
        self.confirm_at_once, self.leads = True, True
        self.route: Route | None = Route()
        self.sets: dict[str, str] = {}
        self.refusal: str | None = None
        self.flushed: Callable[[int], asyncio.Future[Flushed]] | None = flushed
        self.waits: list[tuple[int, asyncio.Future[Confirmation]]] = []
        self.storage_failures: list[str] = []
        self.service = ClientService(
            self.store,
            self.shared,
            self.roles,
            self.clock,
            self.forwarder,
            self._terms(),
            self._changed,
            filters=filters,
            transactions=transactions or TransactionTerms(),
            names=BrokerNames("c", name, "127.0.0.1:10911"),
            escape=EscapeBridge(
                self.client.call,
                self._routes,
                self._addresses,
                lambda: Place("c", name, 1, "127.0.0.1:10911"),
                self.clock,
                allowed=True,
            ),
        )
        unhurried(self.service)
        self.server = RemotingServer(
            Dispatcher(self.service.handlers()), on_close=self.service.connection_closed
        )
        self._running: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Desk:
        await self.server.start()
        self._running = asyncio.ensure_future(self.service.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self._running.cancel()
        await self.client.close()
        await self.server.close()
        await self.tables.close()
        self.store.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    def stand_at(self, offset_ms: int) -> None:
        """Its wall clock stands still from now on, so far behind its beginning: how long this
        machine takes makes nothing due.
        """
        now_ms = self._began_ms + offset_ms
        self.clock.wall_ms = lambda: now_ms  # type: ignore[method-assign]

    def lead(self, epoch: int = 1) -> Desk:
        self.service.mastership_begins(epoch)
        self.roles.changed(
            RoleChanged("MASTER", epoch, 1, self.address if self.server._server else None, (1,), 1)
        )
        return self

    def follow(self, master: str, epoch: int = 1) -> Desk:
        self.roles.changed(RoleChanged("SLAVE", epoch, 2, master, (1, 2), 1))
        self.service.mastership_over()
        return self

    def act(self, *others: Desk) -> Desk:
        """A slave from now on that acts for its master; these lead other sets."""
        self.follow("127.0.0.1:1", 2)
        self.leads = False
        self.route_to(*others)
        self.service.acting_begins()
        return self

    def route_to(self, *others: Desk) -> None:
        """These lead other sets, from the next question on."""
        self.route = Route(
            tuple((f"other-{number}", one.address, 4) for number, one in enumerate(others))
        )

    async def _addresses(self, _topic: str, broker_name: str) -> str | None:
        return self.sets.get(broker_name)

    async def _routes(self, _topic: str) -> Route | None:
        return self.route

    async def ask(self, request: RemotingCommand, timeout_ms: int = 30_000) -> RemotingCommand:
        return await self.client.call(self.address, request, timeout_ms)

    def confirm(self, how: Confirmation = Confirmation.CONFIRMED) -> None:
        waits, self.waits = self.waits, []
        if how is Confirmation.CONFIRMED:
            self.service.confirmed(self.store.log_end)
        for _, future in waits:
            future.set_result(how)

    def _terms(self) -> SendTerms:
        mastership = self._mastership or Mastership(
            lambda: self.leads,
            lambda: self.refusal,
            self._grew,
            self._confirmation,
            self.storage_failures.append,
            self.flushed,
        )
        host = host_bytes("127.0.0.1", 10911)
        keys = UniqueKeys(host[:4], 1, 2)
        return SendTerms(
            mastership,
            "c",
            host,
            3_000,
            keys,
            BusyGate(),
            self._rejects_transactions,
            self.timer_rules,
        )

    def _grew(self, log_end: int) -> None:
        if self.confirm_at_once:
            self.service.confirmed(log_end)

    def _confirmation(self, end_offset: int, _timeout_ms: int) -> asyncio.Future[Confirmation]:
        future: asyncio.Future[Confirmation] = asyncio.get_running_loop().create_future()
        self.waits.append((end_offset, future))
        if self.confirm_at_once:
            self.confirm()
        return future

    async def _register(self) -> None:
        self.registrations += 1

    def _changed(self) -> None:
        self.registrations += 1
