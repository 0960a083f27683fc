"""One broker process: its parts put together, started in order, stopped in order.

Responsible for: the order of start and stop, and the wires between replica, membership and client
service.
Refuses to know: what any of them decides.

Start: store (recovered), tables, listening, registration, replica (FENCED); a role comes from the
controller, or at once from the configuration. Where another replica leads, sends are passed on to
it before that (`opening`). Stop: a master that is asked to hands over first. Then out of the
routes, waiting sends answered, links and ports closed, and only then away from the controllers:
what they find when they look must be a broker that is gone. Last the store, flushed, and the mark
of an orderly end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from brokers.changeover.order import Order
from brokers.clock import Clock
from brokers.configuration.live import with_kept_changes
from brokers.membership import ha_announce
from brokers.membership.ha_lookup import HaLookup
from brokers.membership.namesrv_client import NameServers
from brokers.membership.place import PlaceInSet
from brokers.process.acting_parts import Acting, make_acting
from brokers.process.beats import Beats
from brokers.process.changeover.change_over import ChangeOver
from brokers.process.config import BrokerConfig
from brokers.process.disk_watch import DiskHandOver, DiskWatch
from brokers.process.escape import make_escape
from brokers.process.hand_over import MasterHandOver, StopLimits
from brokers.process.in_force import live_config
from brokers.process.memberships import (
    make_change_over,
    make_membership,
    make_take_over,
    no_change_over,
    open_replica,
)
from brokers.process.opening import Opening, port_refused
from brokers.process.predecessor import once_free
from brokers.process.retention import make_retention
from brokers.process.role_switch import RoleSwitch
from brokers.process.send_terms import pop_settings, send_terms, transaction_terms
from brokers.process.status import config_facts, make_pages, read_runtime, read_status
from brokers.process.upkeep import Upkeep, store_care
from brokers.remoting.addresses import split_address
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer
from brokers.replica.core_port import CoreView
from brokers.replica.hooks import ReplicaHooks
from brokers.replica.replica_port import Replica
from brokers.reporting.event_reporter import EventReporter
from brokers.service.admin import AdminRequests, BrokerStatus
from brokers.service.client_service import BrokerNames, ClientService
from brokers.service.clients.wanted import Filters
from brokers.service.housekeeping import Housekeeping
from brokers.service.left_out import LeftOut
from brokers.service.metadata.shared_tables import SharedTables
from brokers.service.metadata.table_pieces import TEXT_BYTES_MAX
from brokers.service.reading.repair import Repairs
from brokers.service.role.forward import Forwarder
from brokers.service.role.hand_over_requests import HandOverRequests
from brokers.service.role.services import declared, handlers_of, never_old
from brokers.service.role.set_hosts import SetHosts
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import system_topics
from brokers.store.store import MessageStore

MAKE_GOOD_MS = LOOK_AGAIN_MS = 1_000

_log = logging.getLogger("regent.broker")


class BrokerProcess:
    """The parts of one broker. Usable in a test without a process of its own: `start`, then `stop`.

    Without `replica` it opens the store at once, in the constructor: LogError, EpochFileError.
    `opening`: what has had the address until now; `membership`: who tells its id and its role;
    `written`: the configuration without what was changed at run time; `file`: without what a
    changeover made of it; `begins`: the order whose first life this is.
    """

    def __init__(
        self,
        config: BrokerConfig,
        replica: Replica | None = None,
        opening: Opening | None = None,
        clock: Clock | None = None,
        membership: PlaceInSet | None = None,
        written: BrokerConfig | None = None,
        file: BrokerConfig | None = None,
        begins: Order | None = None,
    ) -> None:
        written, config = written or config, with_kept_changes(config, config.store_dir)
        self.config = config
        self.clock = clock or Clock()
        self.started_ms = self.clock.wall_ms()
        self.replica = replica or open_replica(config, self.clock)
        self.opening = opening or Opening(config)
        self.tables = TableFiles(config.store_dir)
        self.roles = self.opening.roles
        self.client = self.opening.client
        self.disk = DiskWatch(config.store_dir)
        self.beats = Beats()
        self.reporter = self._reporter()
        self._tasks: list[asyncio.Future[None]] = []
        self._servers: list[RemotingServer] = []
        self._dispatcher = self.opening.dispatcher
        known = system_topics(config.cluster_name, config.broker_name, config.auto_create_topics)
        self.tables.add_topics(known, self.clock.wall_ms())
        self.membership = membership or self._membership()
        self._make_service()
        self.acting = self._acting()
        self.hand_over = self._hand_over()
        self.change_over = self._change_over(file or written, begins)
        self.disk_care = DiskHandOver(
            self.disk, config.disk_timeout_ms, lambda: self.roles.serving, self.hand_over.once
        )
        self.admin = AdminRequests(
            self.status,
            lambda: self.replica.epochs,
            self.replica.ha_status,
            self.clock,
            self._runtime,
            self.replica.ha_address_told if config.broker_id is not None else None,
        )
        self.live = live_config(
            written,
            self.service,
            self.retention,
            self.switch,
            self.clock,
            lambda: config_facts(config, self.status()),
            self.reporter.report,
        )
        self.pages = make_pages(
            config, self.service, self.store, self.status, self.switch.permission, self.clock
        )
        expire = partial(self.retention.clean, whatever_hour=True)
        own = declared((self.admin, self.live, Housekeeping(self.store, expire), LeftOut()))
        for code, handler in handlers_of(own, self.forwarder).items():
            self._dispatcher.register(code, handler)

    @property
    def store(self) -> MessageStore:
        return self.replica.store

    def _make_service(self) -> None:
        config, tables, roles = self.config, self.tables, self.roles
        replica, addresses = self.replica, self.membership.addresses
        self.hosts = SetHosts(config.controllers, addresses, replica.ha_status, roles)
        self.forwarder = Forwarder(
            roles, self.client, config.hold_without_master_ms, self.hosts.is_replica
        )
        own = config, roles, tables, replica, self.forwarder, addresses, self.reporter.report
        self.switch = RoleSwitch(*own, self.hosts.replicas.is_at)
        self.name_servers = NameServers(
            config.name_servers, self.switch.route_entry, config.name_server_register_ms
        )
        self.lookup = HaLookup(self.client, self.name_servers.changed, replica.ha_address_told)
        self.name_servers.tell_of_masters(self.lookup.name_server_said)
        self.shared = SharedTables(
            self.store,
            tables,
            roles,
            self.client,
            self.clock,
            self.switch.other_members,
            self.name_servers.register,
            addresses,
            self.reporter.report,
            auto_create=config.auto_create_topics,
            period_ms=config.metadata_sync_ms,
        )
        self.repairs = Repairs(
            self.store, self.client, self.switch.holders, self.reporter.report, self.clock
        )
        self.service = ClientService(
            self.store,
            self.shared,
            roles,
            self.clock,
            self.forwarder,
            send_terms(config, self.replica),
            self.name_servers.changed,
            self.repairs,
            Filters(config.enable_property_filter),
            transactions=transaction_terms(config),
            names=BrokerNames(config.cluster_name, config.broker_name, config.advertised),
            routes=self.name_servers.readable_queues,
            pop_settings=pop_settings(config),
            slave_reads=self.switch.slave_reads(),
            escape=make_escape(config, tables, self.client, self.name_servers, self.clock),
        )
        self.switch.wire(self.service, self.shared.topics, self.name_servers, self._dispatcher)
        self.upkeep = Upkeep(
            self.store,
            tables,
            self.replica.storage_failed,
            self.service.confirmed,
            self.replica.keep_held_job,
            self.disk.asks,
        )
        self.retention = make_retention(config, self.replica, self.clock, self.reporter.report)
        if self.opening.greeted:
            self.service.groups.known.adopt(self.opening.greeted, TEXT_BYTES_MAX)

    def _membership(self) -> PlaceInSet:
        return make_membership(
            self.config,
            self.replica,
            self.client,
            self.clock,
            self.reporter.report,
            self.identity_known,
            lambda notice: self.replica.notice(notice, disk_hangs=self.disk_care.hangs),
            lambda master: self.lookup.ask(master),
        )

    def _acting(self) -> Acting | None:
        others = self.client, self.name_servers, self.membership, self.hosts.replicas
        parts = others, self.service, self.switch, self.reporter.report
        return make_acting(self.config, self.clock, self.replica, *parts)

    def _reporter(self) -> EventReporter:
        config, start = self.config, self.replica.incarnation
        return EventReporter(
            config.kafka, config.cluster_name, config.broker_name, start, self.clock
        )

    def _change_over(self, file: BrokerConfig, begins: Order | None) -> ChangeOver:
        self._begins = begins
        parts = self.replica, self.roles, self.client, self.clock
        made = make_change_over(
            self.config, file, *parts, self.hosts.is_ours, self.service.unfinished
        )
        others = self.client, self.name_servers, self.membership
        self.take_over = make_take_over(
            self.config, self.replica, made, others, self.tables, self.switch, self.clock
        )
        serve = no_change_over if self.config.by_majority else made.serve
        self._dispatcher.register(RequestCode.REGENT_CHANGE_OVER, serve)
        return made

    def _hand_over(self) -> MasterHandOver:
        config = self.config
        limits = StopLimits(config.hold_without_master_ms, config.route_poll_ms, config.drain_ms)
        return MasterHandOver(
            self.roles,
            self.replica,
            self.membership,
            self.forwarder,
            self.client,
            self.clock,
            self.service.unfinished,
            lambda: self.service.groups.clients,
            self.name_servers.leave,
            limits,
            self.reporter.report,
        )

    # -- start -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen; registration goes on in the background until a controller answers.
        StartRefused.
        """
        self.take_requests()
        try:
            await self.opening.over()
        except OSError as error:
            raise port_refused(self.config.listen, error) from error
        host, port = split_address(self.config.listen)
        if self.config.second_listen and port > 2:
            try:
                await self._listen(host, port - 2)
            except OSError as error:
                _log.warning(
                    "cannot listen on port %d as well, Java slaves will not get topics: %s",
                    port - 2,
                    error,
                )
        try:
            await self.pages.start()
        except OSError as error:
            raise port_refused(self.config.http_listen, error) from error
        self.reporter.start()
        self.membership.start()
        self.name_servers.start()
        self._tasks += [self.replica.failed(), self.membership.failed(), self.change_over.over()]
        self._spawn(self.membership.register())
        if self.config.disk_timeout_ms:
            self.disk.start()
        self._spawn(self.beats.run(lambda: not self.disk_care.stuck))
        self._spawn(self.change_over.gather())
        self._spawn(self.change_over.bring_along())
        if self.opening.earlier:
            self._spawn(self._replace_earlier_life())

    def take_requests(self) -> None:
        """From the first moment on: without a role yet, requests wait for one, or are passed on."""
        self.switch.serve_clients()
        self._dispatcher.never_old |= never_old(self.service.served)
        self.opening.on_close = self.service.connection_closed
        self.opening.has_place = self.hosts.is_ours

    async def _listen(self, host: str, port: int) -> None:
        limits = Limits(partial_frame_ms=self.config.partial_frame_timeout_ms)
        closed = self.service.connection_closed
        server = RemotingServer(
            self._dispatcher,
            host=host,
            port=port,
            on_close=closed,
            limits=limits,
            has_place=self.hosts.is_ours,
        )
        await once_free(server.start)
        self._servers.append(server)

    async def _replace_earlier_life(self) -> None:
        """Its place at name servers goes when this one's is there: no route lacks this broker."""
        while self.roles.role == "FENCED":
            await self.roles.wait_change(LOOK_AGAIN_MS)
        await self.name_servers.register()
        await self.opening.let_go()

    def identity_known(self, broker_id: int) -> None:
        """The replica runs once its id is known: FENCED, so that requests wait for what the
        controller says.
        """
        membership = self.membership
        hooks = ReplicaHooks(
            self.switch.changed,
            membership.propose,
            membership.ask,
            self.service.confirmed,
            self.reporter.report,
            ask_ha_address=lambda master: self.lookup.ask(
                master or membership.addresses().get(0, "")
            ),
            register_again=self.membership.register_again,
            leave_out=self.reporter.leave_out,
        )
        try:
            self.replica.begin(broker_id, hooks, self._attach)
        except OSError as error:
            raise port_refused(self.config.ha_listen, error) from error
        self.reporter.broker_id = broker_id
        self.replica.report_start(self.reporter.report)
        if self._begins is not None:
            self.reporter.report("PlaceChanged", self._begins.told())
        self.tables.left_out.report_to(self.reporter.report)
        self._serve()

    def _attach(self, core: CoreView) -> None:
        core.joins_with_tables(self.shared.joiners.has_tables)
        self.switch.attach(core)

    def _serve(self) -> None:
        self._dispatcher.register(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, self._notified)
        hand_over = HandOverRequests(
            self.roles,
            self.hosts.is_ours,
            self.hand_over.run,
            self.shared.copy_whole,
            self.disk_care.refusal,
        )
        self._dispatcher.register(RequestCode.REGENT_HAND_OVER, hand_over.serve)
        for work in (
            self.take_over.run(),
            self.service.run(),
            self.shared.sync.run(),
            self.upkeep.flush_every(self.config.flush_interval_ms),
            self.hosts.replicas.keep(),
            self.hosts.controllers.keep(),
            *store_care(self.config, self.store, self.repairs),
            self.upkeep.save_offsets_every(self.config.offsets_persist_ms),
            self.upkeep.make_good_every(MAKE_GOOD_MS),
            self.switch.watch(),
            self.disk_care.run(),
            self.retention.run(),
            ha_announce.run(self.client, self.switch.mastership, self.clock),
        ):
            self._spawn(work)

        if self.acting is not None:
            self.acting.begin(self._dispatcher, self._spawn)

    def _notified(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.membership.notified(request)
        return request.reply()

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    def status(self) -> BrokerStatus:
        """This moment, for 19002 and the admin requests."""
        return read_status(
            self.config,
            self.replica,
            self.membership,
            self.roles,
            self.service,
            self.forwarder,
            self.reporter,
            self.repairs,
            leaves_in_ms=self.hand_over.leaves_in_ms,
            topics=len(self.tables.topics.configs),
            started_ms=self.started_ms,
            acting=self.acting,
        )

    def _runtime(self) -> dict[str, str]:
        return read_runtime(self.store, self.service, self.status(), self.clock.wall_ms())

    # -- end ---------------------------------------------------------------------------------------

    async def run_until(self, stopping: asyncio.Event) -> None:
        """Until told to stop, or until one of the parts fails: its error is raised here."""
        stop = asyncio.ensure_future(stopping.wait())
        try:
            while not stop.done():
                running = [task for task in self._tasks if not task.done()]
                watched: set[asyncio.Future[Any]] = {stop, *running}
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in self._tasks if task.done()]:
                    self._tasks.remove(task)
                    task.result()
        finally:
            stop.cancel()

    async def move_on(self) -> None:
        """This life ends, the process and its connections stay: what waits goes to the next one,
        and who greeted this one is known there.
        """
        groups = self.service.groups
        self.opening.greeted = groups.text if self.roles.role == "MASTER" else groups.known.copied
        self.roles.over(self.opening.again())
        self.service.mastership_over()
        await self.stop("its place in the set changed", stays=True)

    async def _last_answers(self) -> None:
        """The master has what was passed on to it, and answers once the set takes writes again."""
        await self.forwarder.settle()
        await self.client.close()

    async def stop(self, reason: str, *, stays: bool = False) -> None:
        """In order (see the module); harmless after a start that failed half way. `stays`: the
        process does, with its address.
        """
        self.beats.close()
        self.disk.stop()
        if self.acting is not None:
            await self.acting.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.lookup.close()
        if stays:
            await self.name_servers.stop()
            self.opening.keep(self.name_servers.close)
        else:
            await self.name_servers.close(self.switch.route_entry())
        self.reporter.report("BrokerStopped", {"reason": reason})
        await self.replica.stop()
        # The sends whose wait this ended are answered in the next turn of the loop, while there are
        # connections.
        await asyncio.sleep(0)
        await self.pages.close()
        if not stays:
            await self.opening.close()
        for server in self._servers:
            await server.close()
        await asyncio.gather(
            self.membership.close(), self.repairs.close(), self.shared.joiners.close()
        )
        if stays:
            self.opening.keep(self._last_answers)
            self.opening.keep(self.reporter.close)  # Kafka may take its time, and clients wait
        else:
            await self.client.close()
            await self.reporter.close()
        try:
            await self.tables.close()
        except Exception as error:  # the store is closed in order whatever a table holds
            _log.error("tables cannot be written: %s", error)
        self.replica.close()
