"""One broker process: its parts put together, started in order, stopped in order.

Responsible for: the order of start and stop, and the wires between store, replica, membership and client service.
Refuses to know: what any of them decides.

Start: settings, store (recovered), tables, listening, identity, replica (FENCED), registration; a role comes from the
controller. Stop: out of the routes, no more requests, links closed, store flushed, the run marked as ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import socket

from brokers import controller_messages
from brokers.boot import BootMarker
from brokers.config import BrokerConfig
from brokers.event_reporter import EventReporter
from brokers.ha.epoch_file import EpochFile, EpochFileError
from brokers.identity_file import IdentityFileError, IdentityFiles
from brokers.log.commit_log import LogError
from brokers.log.consume_queue import ENTRY_BYTES
from brokers.log.records import host_bytes
from brokers.log.store import MessageStore, StoreConfig
from brokers.membership import Membership, MembershipHooks, MembershipTimers, RegistrationRefused
from brokers.namesrv_client import NameServers, RouteEntry
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection, split_address
from brokers.remoting.server import Dispatcher, RemotingServer
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from brokers.replica.driver import ReplicaDriver
from brokers.replica.hooks import ReplicaHooks
from brokers.role_switch import RoleSwitch
from brokers.service.admin import AdminRequests, BrokerStatus
from brokers.service.client_service import ClientService
from brokers.service.clock import Clock
from brokers.service.forward import Forwarder
from brokers.service.metadata_sync import MetadataSync
from brokers.service.role_view import RoleView
from brokers.service.send import Mastership, SendService
from brokers.service.table_files import TableFiles
from brokers.service.topic_changes import TopicChanges
from brokers.service.topics import system_topics
from brokers.service.unique_key import UniqueKeys
from brokers.upkeep import Upkeep

EXIT_OK, EXIT_REFUSED = 0, 2

_log = logging.getLogger(__name__)


class StartRefused(Exception):
    """The broker cannot start; the text is one line with the way out."""


async def run(config: BrokerConfig) -> int:
    """Run until SIGTERM or SIGINT; the exit code. A start that cannot be is logged in one line, code 2."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    broker = BrokerProcess(config)
    try:
        await broker.start()
        await broker.run_until(stopping)
    except (StartRefused, RegistrationRefused, IdentityFileError, EpochFileError, LogError) as error:
        _log.error("%s", error)
        return EXIT_REFUSED
    finally:
        await broker.stop("SIGTERM" if stopping.is_set() else "failed")
    return EXIT_OK


class BrokerProcess:
    """The parts of one broker. Usable in a test without a process of its own: `start`, then `stop`."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.clock = Clock()
        self.started_ms = self.clock.wall_ms()
        self.driver: ReplicaDriver | None = None
        self.store: MessageStore | None = None
        self.roles = RoleView()
        self._tasks: list[asyncio.Task[None]] = []
        self._servers: list[RemotingServer] = []
        self._dispatcher = Dispatcher()
        self._stopped = False

    # -- start -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Everything up to and with listening; registration goes on in the background until a controller answers."""
        config = self.config
        self._open_store()
        self.tables = TableFiles(config.store_dir)
        self._add_system_topics()
        self.reporter = EventReporter(
            config.kafka, config.cluster_name, config.broker_name, self.boot.incarnation, self.clock
        )
        self.client = RemotingClient()
        self.forwarder = Forwarder(self.roles, self.client, config.hold_without_master_ms)
        await self._listen()
        self._make_parts()
        self.reporter.start()
        self.membership.start()
        self.name_servers.start()
        self._spawn(self.membership.register())

    def _open_store(self) -> None:
        config = self.config
        store_dir = config.store_dir
        store_dir.mkdir(parents=True, exist_ok=True)
        log_folder = store_dir / "commitlog"
        has_data = log_folder.is_dir() and any(log_folder.iterdir())
        self.marker = BootMarker(store_dir)
        self.boot = self.marker.examine(has_data)
        sizes = StoreConfig(config.commit_log_file_bytes, config.consume_queue_file_entries * ENTRY_BYTES)
        self.store = MessageStore(store_dir, sizes, same_boot=self.boot.same_boot)
        self.marker.begin(self.boot)
        self.epoch_file = EpochFile(store_dir / "epochFileCheckpoint")
        self.epochs, self.epoch_seen = self.epoch_file.load()
        report = self.store.recovery
        _log.info(
            "store recovered: end %d, confirm %d, cut %d bytes, start is %s (%s)", report.end_offset, report.confirm_offset,
            report.cut_bytes, "clean" if self.boot.clean else "unclean", self.boot.reason,
        )  # fmt: skip

    def _add_system_topics(self) -> None:
        config, topics = self.config, self.tables.topics
        known = system_topics(config.cluster_name, config.broker_name, config.auto_create_topics)
        if topics.put([topic for topic in known if topics.get(topic.name) is None], self.clock.wall_ms()):
            self.tables.save_topics()

    async def _listen(self) -> None:
        host, port = split_address(self.config.listen)
        main = RemotingServer(self._dispatcher, host=host, port=port, on_close=self._connection_closed)
        try:
            await main.start()
        except OSError as error:
            raise StartRefused(f"cannot listen on {self.config.listen}: {error}; is another process using the port?") from error
        self._servers.append(main)
        if port == 0:
            self.config = self.config.model_copy(update={"listen": f"{host}:{main.port}"})
        if self.config.second_listen and port > 2:
            second = RemotingServer(self._dispatcher, host=host, port=port - 2, on_close=self._connection_closed)
            try:
                await second.start()
                self._servers.append(second)
            except OSError as error:
                _log.warning("cannot listen on port %d as well, Java slaves will not get topics: %s", port - 2, error)

    def _make_parts(self) -> None:
        config, store = self.config, self.store
        assert store is not None
        self.switch = RoleSwitch(config, self.roles, self.tables, self.marker, self.forwarder)
        self.name_servers = NameServers(config.name_servers, self.switch.route_entry, config.name_server_register_ms)
        self.changes = TopicChanges(
            self.tables, self.roles, self.client, self.clock, self.switch.other_members, self.name_servers.register,
            config.auto_create_topics,
        )  # fmt: skip
        self.service = ClientService(
            store, self.tables, self.roles, self.clock, self.forwarder, self.changes, self._make_sends, self.name_servers.changed
        )
        self.switch.wire(self.service, self.changes, self.name_servers)
        self.sync = MetadataSync(self.tables, self.roles, self.client, config.metadata_sync_ms, self.changes.take_over)
        self.upkeep = Upkeep(store, self.tables, self._storage_failed)
        me = controller_messages.Introduction(
            config.cluster_name, config.broker_name, config.advertised, config.ha_advertised, self.boot.incarnation
        )
        timers = MembershipTimers(
            config.heartbeat_interval_ms, config.controller_heartbeat_timeout_ms, config.replica_poll_ms, config.election_priority
        )
        hooks = MembershipHooks(self._identity_known, self._noticed, self._position, self._clean, self.reporter.report)
        files = IdentityFiles(config.store_dir)
        self.membership = Membership(me, config.controllers, files, timers, hooks, self.clock)
        shown = {key: str(value) for key, value in config.model_dump().items()}
        self.admin = AdminRequests(self.status, lambda: self.driver.core.epochs if self.driver else self.epochs, shown)
        for code, handler in self.admin.handlers.items():
            self._dispatcher.register(code, handler)

    def _make_sends(self, **wires: object) -> SendService:
        config = self.config
        mastership = Mastership(self._write_refusal, self._log_grew, self._confirmation, self._storage_failed)
        host, port = split_address(config.advertised)
        try:
            store_host = host_bytes(host, port)
        except ValueError:
            store_host = host_bytes(socket.gethostbyname(host), port)
        assert self.store is not None
        return SendService(
            self.store, self.tables.topics, self.roles, mastership, self.clock, cluster_name=config.cluster_name,
            store_host=store_host, ack_timeout_ms=config.ack_timeout_ms,
            unique_keys=UniqueKeys(store_host[:-4], os.getpid(), random.getrandbits(32)), **wires,  # type: ignore[arg-type]
        )  # fmt: skip

    def _identity_known(self, broker_id: int) -> None:
        """The replica is made once its id is: FENCED, so that requests wait for what the controller says."""
        config, store = self.config, self.store
        assert store is not None
        replica = ReplicaConfig(
            file_bytes=config.commit_log_file_bytes, ack_wait_shrink_ms=config.ack_wait_shrink_ms,
            relink_grace_ms=config.relink_grace_ms, ha_heartbeat_ms=config.ha_heartbeat_ms,
            min_in_sync_replicas=config.min_in_sync_replicas, all_ack=config.all_ack,
        )  # fmt: skip
        core = ReplicaCore(
            replica, broker_id=broker_id, incarnation=self.boot.incarnation,
            clean=self.boot.clean and not self.epoch_file.from_backup, epochs=self.epochs, epoch_seen=self.epoch_seen,
            log_end=store.log_end, log_min=store.log_min, confirm_offset=store.confirm_offset,
        )  # fmt: skip
        hooks = ReplicaHooks(
            self.switch.changed, self.membership.propose, self.membership.ask, self.service.confirmed, self.reporter.report
        )
        self.switch.attach(core, lambda: self.membership.replicas, self.reporter.report)
        self.driver = ReplicaDriver(core, store, self.epoch_file, hooks)
        host, port = split_address(self.config.ha_listen)
        try:
            bound = self.driver.listen(host, port)
        except OSError as error:
            raise StartRefused(f"cannot listen on {config.ha_listen}: {error}; is another process using the port?") from error
        if bound != port:
            self.config = self.config.model_copy(update={"ha_listen": f"{host}:{bound}"})
            self.membership.ha_bound(self.config.ha_advertised)
        self.driver.start()
        self.reporter.broker_id = broker_id
        self._report_start(core)
        self._serve()

    def _report_start(self, core: ReplicaCore) -> None:
        assert self.store is not None
        report = self.store.recovery
        self.reporter.report(
            "BrokerStarted", {"clean": core.clean, "recovered_end_offset": report.end_offset, "cut_bytes": report.cut_bytes}
        )
        recovered = {"end_offset": report.end_offset, "cut_bytes": report.cut_bytes, "abnormal": report.abnormal}
        self.reporter.report("StoreRecovered", recovered)

    def _serve(self) -> None:
        for code, handler in self.service.handlers().items():
            self._dispatcher.register(code, handler)
        self._dispatcher.register(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, self._notified)
        for work in (
            self.service.run(), self.sync.run(), self.upkeep.flush_every(self.config.flush_interval_ms),
            self.upkeep.save_offsets_every(self.config.offsets_persist_ms), self.switch.watch(),
        ):  # fmt: skip
            self._spawn(work)

    # -- wires -----------------------------------------------------------------------------------------------------

    def _noticed(self, notice: object) -> None:
        if self.driver is not None:
            self.driver.notice(notice)  # type: ignore[arg-type]

    def _notified(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.membership.notified(request)
        return request.reply()

    def _position(self) -> controller_messages.LogPosition:
        core = self.driver.core if self.driver else None
        if core is None:
            return controller_messages.LogPosition(-1, 0, 0)
        return controller_messages.LogPosition(core.epochs.newest_epoch, core.log_end, core.confirm_offset)

    def _clean(self) -> bool:
        return self.driver.core.clean if self.driver else self.boot.clean

    def _write_refusal(self) -> str | None:
        return self.driver.can_accept_writes() if self.driver else "not registered"

    def _log_grew(self, end_offset: int) -> None:
        assert self.driver is not None
        self.driver.log_grew(end_offset)

    def _confirmation(self, end_offset: int, timeout_ms: int) -> asyncio.Future[object]:
        assert self.driver is not None
        return self.driver.confirmation(end_offset, timeout_ms)  # type: ignore[return-value]

    def _storage_failed(self, reason: str) -> None:
        self.marker.io_error()
        if self.driver is not None:
            self.driver.storage_failed(reason)

    def _connection_closed(self, connection: Connection) -> None:
        if self.driver is not None:
            self.service.connection_closed(connection)

    def _spawn(self, work: object) -> None:
        self._tasks.append(asyncio.ensure_future(work))  # type: ignore[arg-type]

    # -- status and end --------------------------------------------------------------------------------------------

    def status(self) -> BrokerStatus:
        """This moment, for 19002 and the admin requests."""
        store, config, core = self.store, self.config, self.driver.core if self.driver else None
        assert store is not None
        epochs = core.epochs if core else self.epochs
        current = self.roles.current
        return BrokerStatus(
            ready=self.membership.registered.is_set() and current.role != "FENCED",
            cluster_name=config.cluster_name, broker_name=config.broker_name, broker_id=self.membership.broker_id,
            address=config.advertised, ha_address=self.membership.me.ha_address, incarnation=self.boot.incarnation,
            clean=self._clean(), role=current.role, master_id=current.master_id, master_address=current.master_address,
            master_epoch=current.master_epoch, epochs=tuple((entry.epoch, entry.start_offset) for entry in epochs.entries),
            sync_state_set=core.sync_state_set if core else (), sync_state_set_epoch=core.set_epoch if core else 0,
            log_min=store.log_min, log_end=store.log_end,
            confirm_offset=core.confirm_offset if core else store.confirm_offset,
            dispatched_offset=store.dispatched_offset, controller=self.membership.leader,
            write_refusal=self._write_refusal(), waiting_sends=self.service.sends.waiting,
            held_pulls=self.service.pulls.held.count, forwarded=self.forwarder.forwarded,
            events_reported=self.reporter.reported, events_dropped=self.reporter.dropped,
            topics=len(self.tables.topics.configs), started_ms=self.started_ms,
        )  # fmt: skip

    async def run_until(self, stopping: asyncio.Event) -> None:
        """Until told to stop, or until one of the parts fails: its error is raised here."""
        stop = asyncio.ensure_future(stopping.wait())
        try:
            while not stop.done():
                running = {task for task in self._tasks if not task.done()}
                done, _ = await asyncio.wait({stop, *running}, return_when=asyncio.FIRST_COMPLETED)
                for task in done - {stop}:
                    self._tasks.remove(task)
                    task.result()
        finally:
            stop.cancel()

    async def stop(self, reason: str) -> None:
        """Out of the routes, links closed, everything written; harmless after a start that failed half way."""
        if self._stopped or self.store is None:
            return
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "membership"):
            await self.name_servers.close(self.switch.route_entry())
            if self.driver is not None:
                self.reporter.report("BrokerStopped", {"reason": reason})
                await self.driver.stop()
            await self.membership.close()
        for server in self._servers:
            await server.close()
        if hasattr(self, "client"):
            await self.client.close()
            await self.reporter.close()
        self._close_store()

    def _close_store(self) -> None:
        assert self.store is not None
        try:
            self.tables.save_offsets()
            self.store.close()
        except (LogError, OSError) as error:
            _log.error("the store cannot be closed cleanly: %s", error)
            self.marker.io_error()
            return
        if self.store.io_error is None:
            self.marker.flushed_exit()
