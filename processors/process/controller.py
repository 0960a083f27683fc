"""One controller process: everything wired together in one asyncio loop.

Responsible for: the order of starting and stopping, and performing the core's effects.
Refuses to know: any rule. What comes in goes to the core, what the core wants is done here.

Start: topics checked, snapshot, bulk catch-up, then Faust from that offset; the remoting front
listens from the first moment, so that supervisors see a process that is alive but not ready.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Iterator

from brokers.remoting import fastjson
from brokers.remoting.addresses import host_of, split_address
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer
from events.last_resort import EXIT_STUCK, STOP_MAX_S, LastResort, on_stop_signals
from processors.controller import effects as fx
from processors.controller.context import CoreConfig
from processors.controller.core import ControllerCore
from processors.controller.metrics import SUCCESS, RequestMeter
from processors.fold.folder import Folder
from processors.log.controller_log import ControllerLog
from processors.log.facts import FactReporter
from processors.log.reader import LogBroken, LogUnreachable
from processors.log.topics import TopicsUnfit, prepare
from processors.process import data_folder, pages
from processors.process.effect_runner import EffectRunner, monotonic_ms, monotonic_us, wall_ms
from processors.process.outbound import Outbound, PeerHosts
from processors.process.pages import ControllerPages
from processors.settings.config import ControllerConfig
from processors.wire.answers import not_leader


def random_ids() -> Iterator[bytes]:
    """Command ids: 16 random bytes each."""
    while True:
        yield os.urandom(16)


def release() -> str:
    """The version written into a claim."""
    from importlib import metadata

    try:
        return metadata.version("regent")
    except metadata.PackageNotFoundError:
        return "source"


_log = logging.getLogger("regent.controller")

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_HALTED = 70
LOOP_LAG_WARN_S = 1.0
REPLICA_HOSTS_FOR_S = 5.0
CLOSE_MAX_S = 15.0
"""For a controller that must stop at once; one that was asked to has `STOP_MAX_S`."""
THREAD_SWITCH_S = 0.0005
"""Faust's consumer has a thread of its own with little to do, but each decision waits for it: with
Python's 5 ms one took 5.6 ms at the median on a busy machine, with this 3.8 ms (a thread that
polled the producer had its part in both).
"""


class ControllerProcess:
    """One controller. `start`, then `serve` until `stop` is called or something halts it."""

    def __init__(self, config: ControllerConfig) -> None:
        self._config = config
        self._claim = data_folder.claim(config.data_dir)
        self._core: ControllerCore | None = None
        self._runner: EffectRunner | None = None
        self._ready = False
        self._closing = False
        self._connections: dict[int, Connection] = {}
        host, port = split_address(config.listen)
        self._server = RemotingServer(
            self._handle,
            host=host,
            port=port,
            on_open=self._opened,
            on_close=self._closed,
            idle_timeout_ms=config.idle_timeout_ms,
            limits=Limits(partial_frame_ms=config.partial_frame_timeout_ms),
            has_place=self._has_place,
        )
        self._peer_hosts = PeerHosts(config.peers, config.peer_networks)
        self._looking_up: asyncio.Future[None] | None = None
        self._replica_hosts: tuple[float, frozenset[str]] = (0.0, frozenset())
        self._log = ControllerLog(config, on_record=self._record, on_halt=self._halt)
        self._facts = FactReporter(config.kafka)
        self._folder = Folder()
        self._meter = RequestMeter()
        self._outbound = Outbound(self._peer_closed, self._meter.metrics)
        self._pages = ControllerPages(
            config, self._meter.metrics, lambda: self._core if self._ready else None, self._log
        )
        self._ended: asyncio.Future[int] | None = None
        self._halt_reason: str | None = None

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.port

    async def start(self) -> None:
        """Until this controller follows the log. Raises OSError, TopicsUnfit, LogBroken,
        LogUnreachable.
        """
        config = self._config
        self._ended = asyncio.get_running_loop().create_future()
        self._looking_up = asyncio.ensure_future(self._peer_hosts.keep())
        await self._server.start()
        await self._pages.start()
        await asyncio.to_thread(
            prepare,
            config.kafka,
            local_cluster=config.local_cluster,
            wait_ms=config.kafka_wait_ms,
            has_history=self._log.has_history,
            accept_unflushed=config.accept_unflushed_log,
            cancelled=lambda: self._closing,
        )
        self._folder, unpublished = await self._log.catch_up()
        core = ControllerCore(
            CoreConfig(
                controller_id=config.controller_id,
                address=config.advertised,
                cluster_id=config.cluster_id,
                peers=config.peers,
                release=release(),
                settings=config.settings,
                request_deadline_ms=config.request_deadline_ms,
                http_address=config.http_advertised,
                requests_max=config.requests_max,
                networks=config.advertise_by_network,
                startup=config.startup(),
                is_of_peer=self._peer_hosts.believed,
                knows_logger=pages.is_logger,
            ),
            self._folder,
            random_ids(),
            self._meter.metrics,
        )
        core.start(monotonic_ms(), wall_ms(), unpublished)
        # Records may come before the producers are ready: the core sees them, requests wait for
        # `_ready`.
        self._core = core
        self._runner = EffectRunner(
            core,
            self._log,
            self._outbound,
            self._connections,
            self._halt,
            self._meter,
            self._facts.report,
        )
        await self._log.follow(self._folder, self._published)
        self._ready = True

    async def serve(self) -> int:
        """Tick until the end; the exit code."""
        assert self._ended is not None
        ticker = asyncio.ensure_future(self._tick())
        ticker.add_done_callback(self._tick_ended)
        try:
            return await self._ended
        finally:
            ticker.cancel()
            await asyncio.gather(ticker, return_exceptions=True)

    def stop(self) -> None:
        """End `serve` in an orderly way."""
        self._end(EXIT_DONE)

    async def close(self) -> None:
        """Stop everything that `start` started, also a half finished start."""
        self._closing = True
        # A client that hangs must not keep a halted controller half alive: its standby waits for
        # closed connections.
        halted = self._halt_reason is not None
        limit_s, code = (CLOSE_MAX_S, EXIT_HALTED) if halted else (STOP_MAX_S, EXIT_STUCK)
        at_the_latest = LastResort(self._config.controller_id, limit_s, code)
        at_the_latest.arm()
        await self._pages.close()
        if self._core is not None:
            self._perform(self._core.stop(monotonic_ms()))
        await self._server.close()
        if self._looking_up is not None:
            self._looking_up.cancel()
            await asyncio.gather(self._looking_up, return_exceptions=True)
        await self._outbound.close()
        await asyncio.to_thread(self._facts.close)
        await self._log.close(snapshot=not halted)
        os.close(self._claim)
        at_the_latest.disarm()

    def _end(self, code: int) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(code)

    def _halt(self, reason: str) -> None:
        if self._halt_reason is None:
            self._halt_reason = reason
            _log.critical("%s stops: %s", self._config.controller_id, reason)
        self._end(EXIT_HALTED)

    async def _tick(self) -> None:
        period_s = self._config.tick_ms / 1000
        while True:
            before = time.monotonic()
            await asyncio.sleep(period_s)
            lag_s = time.monotonic() - before - period_s
            if lag_s > LOOP_LAG_WARN_S:
                _log.warning("the loop stood still for %.1f s", lag_s)
            if self._core is not None:
                self._perform(self._core.tick(monotonic_ms(), wall_ms()))

    def _tick_ended(self, ticker: asyncio.Future[None]) -> None:
        # A leader whose time stands still would keep the others from leading and elect nobody
        # itself.
        if not ticker.cancelled() and (error := ticker.exception()) is not None:
            _log.error("the tick failed", exc_info=error)
            self._halt(f"an error of its own: {error!r}")

    def _perform(self, effects: list[fx.Effect]) -> None:
        if self._runner is not None:
            self._runner.perform(effects)

    # -- what comes in -----------------------------------------------------------------------------

    def _opened(self, connection: Connection) -> None:
        self._connections[connection.id] = connection

    def _closed(self, connection: Connection) -> None:
        self._connections.pop(connection.id, None)
        self._meter.closed(connection.id)
        if self._core is not None:
            self._perform(self._core.on_connection_closed(connection.id, monotonic_ms()))

    def _handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code == RequestCode.REGENT_PEER_HEARTBEAT:
            self._heard_peer(connection.peer, request)
        if self._core is None or not self._ready:
            return self._not_ready(request)
        self._meter.arrived(connection.id, request.opaque, request.code, monotonic_us())
        effects = self._core.on_request(
            connection.id, connection.peer, request, monotonic_ms(), wall_ms()
        )
        if len(effects) == 1 and isinstance(effects[0], fx.Reply):
            reply = effects[0]
            if reply.conn_id == connection.id and reply.response.opaque == request.opaque:
                self._meter.answered(connection.id, request.opaque, reply.status, monotonic_us())
                return reply.response  # The common case, without the way over `_perform`.
        self._perform(effects)
        if request.is_oneway:
            self._meter.answered(connection.id, request.opaque, SUCCESS, monotonic_us())
        return None

    def _has_place(self, peer: str) -> bool:
        """Controllers and registered replicas find room when others have taken all connections."""
        if self._peer_hosts.holds("", peer):
            return True
        until_s, hosts = self._replica_hosts
        if self._core is not None and time.monotonic() >= until_s:
            hosts = self._core.replica_hosts()
            self._replica_hosts = time.monotonic() + REPLICA_HOSTS_FOR_S, hosts
        return host_of(peer) in hosts

    def _heard_peer(self, peer: str, request: RemotingCommand) -> None:
        """Where snapshots are given out is believed of the very host that says so: the next start
        fetches from there.
        """
        peer_id, address = request.ext.get("controllerId", ""), request.ext.get("httpAddress", "")
        at_home = host_of(address) in (host_of(peer), host_of(self._config.peers.get(peer_id, "")))
        if self._peer_hosts.holds(peer_id, peer) and (
            at_home or self._peer_hosts.holds(peer_id, address)
        ):
            self._log.heard_peer(request.ext)

    def _not_ready(self, request: RemotingCommand) -> RemotingCommand | None:
        if request.is_oneway:
            return None
        if request.code == RequestCode.REGENT_PROCESS_STATUS:
            document = {
                "kind": "controller",
                "name": self._config.controller_id,
                "ready": False,
                "role": "starting",
                "applied_offset": self._log.caught_up_offset,
            }
            return request.reply(0, body=fastjson.dumps(document))
        return not_leader(request)

    def _record(self, offset: int, data: bytes) -> None:
        began_ns = time.perf_counter_ns()
        applied = self._folder.apply(offset, data)
        self._meter.metrics.fold_ns += time.perf_counter_ns() - began_ns
        if self._core is not None:
            self._perform(self._core.on_applied(applied, monotonic_ms(), wall_ms()))

    def _peer_closed(self, address: str, refused: bool) -> None:
        if self._core is not None:
            self._perform(self._core.on_peer_closed(address, refused, monotonic_ms()))

    def _published(self, command_offset: int, ok: bool) -> None:
        if self._core is not None:
            self._perform(self._core.on_publish_result(command_offset, ok, monotonic_ms()))


async def run(config: ControllerConfig) -> int:
    """Run one controller until SIGTERM or SIGINT (exit code 0; 71 when that hangs), a failed start
    (1), or a halt (70).
    """
    stopped = asyncio.Event()
    at_the_latest = LastResort(config.controller_id)
    on_stop_signals(stopped.set, at_the_latest)
    try:
        return await run_until(config, stopped)
    finally:
        if not stopped.is_set():
            at_the_latest.disarm()


async def run_until(config: ControllerConfig, stopped: asyncio.Event) -> int:
    """As `run`, with what stops it given by the caller; a name server runs a controller beside
    itself so.
    """
    sys.setswitchinterval(THREAD_SWITCH_S)
    process = ControllerProcess(config)
    starting = asyncio.ensure_future(process.start())
    stopping = asyncio.ensure_future(_stop_when(stopped, process, starting))
    try:
        await starting
        _log.info("%s follows the log at %s", config.controller_id, config.advertised)
        return await process.serve()
    except asyncio.CancelledError:
        if stopped.is_set():
            return EXIT_DONE
        raise
    except OSError as error:
        name = (
            "http_listen"
            if config.http_listen and (f", {config.http_listen.rpartition(':')[2]})") in str(error)
            else "listen"
        )
        _log.error(
            "%s cannot be listened on: %s; choose another %s",
            getattr(config, name),
            error.strerror or error,
            name,
        )
        return EXIT_FAILED
    except (TopicsUnfit, LogUnreachable) as error:
        _log.error("%s", error)
        return EXIT_FAILED
    except LogBroken as error:
        _log.critical("%s does not start: %s", config.controller_id, error)
        return EXIT_HALTED
    finally:
        stopping.cancel()
        await process.close()


async def _stop_when(
    stopped: asyncio.Event, process: ControllerProcess, starting: asyncio.Future[None]
) -> None:
    await stopped.wait()
    process.stop()
    starting.cancel()
