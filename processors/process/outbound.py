"""The network a controller calls out to: other controllers, brokers' ports, role notices.

Responsible for: one-way messages, forwarded requests and probes, each with a limit and a deadline,
and telling the core what came of them. Refuses to know: why they are sent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from brokers.remoting.addresses import split_address
from brokers.remoting.calls import ConnectFailed, RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.known_hosts import KnownHosts
from processors.controller.metrics import Metrics
from processors.controller.peer_reports import reachable

_log = logging.getLogger("regent.controller.peers")

PROBE_TIMEOUT_S = 0.5
PROBES_AT_ONCE_MAX = 64
PROBE_AGAIN_S = 0.1
PEER_CONNECT_TIMEOUT_MS = 500
NOTICE_CONNECT_TIMEOUT_MS = 3_000
TASKS_MAX = 20_000
NOTICES_AT_ONCE_MAX = 10_000
"""Limit on connections to brokers that are made at once; forwarded requests and probes keep their
own places.
"""
NOTICES_WAITING_MAX = 100_000
"""Brokers whose notice waits for such a place; one for whom there is no room asks for itself,
within seconds.
"""
TELL_EVERY_S = 1.0
_ADDRESS = "peer address"
"""Connection attribute: the address as it is configured; the socket only knows the resolved one."""

PeerClosed = Callable[[str, bool], None]
"""(address, refused)"""


class Sparsely:
    """One line a second at most, with how many it stands for: a thousand sets can lose their leader
    in one moment.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._told_s = -TELL_EVERY_S

    def tell(self, last: str, now_s: float) -> None:
        self._count += 1
        if now_s - self._told_s >= TELL_EVERY_S:
            _log.info("%d %s, last %s", self._count, self._what, last)
            self._count, self._told_s = 0, now_s


class PeerHosts:
    """From where the configured controllers speak: the hosts of their addresses, and the networks
    they are said to speak from.
    """

    def __init__(self, peers: Mapping[str, str], networks: Mapping[str, str]) -> None:
        self._networks = networks
        self._hosts = {
            peer_id: KnownHosts(partial(tuple[str], (address,)))
            for peer_id, address in peers.items()
        }
        self._strange = Sparsely(
            "words in a controller's name from another host (peer_networks says where they may "
            "come from)"
        )

    def holds(self, peer_id: str, address: str) -> bool:
        """Whether that controller, any for an empty id, speaks from "host:port"."""
        return any(self._speaks(one, address) for one in ((peer_id,) if peer_id else self._hosts))

    def believed(self, peer_id: str, address: str) -> bool:
        """The same, and a line in the log where it is not so: a peer may come from where nobody
        said.
        """
        holds = self.holds(peer_id, address)
        if not holds:
            self._strange.tell(f"{peer_id or 'any'} from {address}", time.monotonic())
        return holds

    def _speaks(self, peer_id: str, address: str) -> bool:
        hosts, network = self._hosts.get(peer_id), self._networks.get(peer_id)
        if hosts is not None and hosts.holds(address):
            return True
        return network is not None and reachable(((network, peer_id),), address) is not None

    async def keep(self) -> None:
        """Look names up, again and again."""
        await asyncio.gather(*(hosts.keep() for hosts in self._hosts.values()))


class Outbound:
    """Everything a controller sends of its own accord. All methods belong to the loop's thread."""

    def __init__(self, on_peer_closed: PeerClosed, metrics: Metrics | None = None) -> None:
        self._on_peer_closed = on_peer_closed
        self._metrics = metrics or Metrics()
        self._notices = 0
        self._waiting: dict[str, RemotingCommand] = {}
        """Address -> the newest notice for it, the longest wait first."""
        self._peer_client = RemotingClient(
            on_close=self._peer_lost, connect_timeout_ms=PEER_CONNECT_TIMEOUT_MS
        )
        self._broker_client = RemotingClient(connect_timeout_ms=NOTICE_CONNECT_TIMEOUT_MS)
        self._telling: set[str] = set()
        self._unanswered = Sparsely("requests without an answer from the leader")
        self._undelivered = Sparsely("role notices not delivered")
        self._unheard = Sparsely("questions to Java sets without an answer")
        self._probes = asyncio.Semaphore(PROBES_AT_ONCE_MAX)
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def tell_peer(self, address: str, command: RemotingCommand) -> None:
        """Send to another controller. While a connection is being made, further messages are
        dropped.
        """
        connection = self._peer_client.connection(address)
        if connection is not None:
            connection.attributes[_ADDRESS] = address
            connection.send(command)
        elif address not in self._telling:
            self._telling.add(address)
            self._spawn(self._tell_peer(address, command))

    async def _tell_peer(self, address: str, command: RemotingCommand) -> None:
        try:
            connection = await self._peer_client.connect(address)
            connection.attributes[_ADDRESS] = address
            connection.send(command)
        except ConnectFailed as error:
            if error.refused and not self._closing:
                self._on_peer_closed(address, True)
        finally:
            self._telling.discard(address)

    def _peer_lost(self, connection: Connection) -> None:
        address = connection.attributes.get(_ADDRESS)
        if isinstance(address, str) and not self._closing:
            self._on_peer_closed(address, False)

    def forward(
        self,
        address: str,
        request: RemotingCommand,
        timeout_ms: int,
        on_reply: Callable[[RemotingCommand | None], None],
    ) -> None:
        """Call the leader; `on_reply(None)` when no answer came."""
        if not self._spawn(self._call(self._peer_client, address, request, timeout_ms, on_reply)):
            on_reply(None)

    def ask_broker(
        self,
        address: str,
        request: RemotingCommand,
        timeout_ms: int,
        on_reply: Callable[[RemotingCommand | None], None],
    ) -> None:
        """Call a broker; `on_reply(None)` when no answer came."""
        if not self._spawn(self._call(self._broker_client, address, request, timeout_ms, on_reply)):
            on_reply(None)

    async def _call(
        self,
        client: RemotingClient,
        address: str,
        request: RemotingCommand,
        timeout_ms: int,
        on_reply: Callable[[RemotingCommand | None], None],
    ) -> None:
        try:
            response = await client.call(address, request, timeout_ms)
        except RemotingError as error:
            unanswered = self._unanswered if client is self._peer_client else self._unheard
            unanswered.tell(f"at {address}: {error}", time.monotonic())
            on_reply(None)
            return
        on_reply(response)

    def notify(self, address: str, command: RemotingCommand) -> None:
        """Send a role notice to a broker; one that cannot be reached polls later."""
        connection = self._broker_client.connection(address)
        if connection is not None:
            self._waiting.pop(address, None)  # An older one must not come after this one.
            connection.send(command)
        elif address in self._waiting or self._notices >= NOTICES_AT_ONCE_MAX:
            self._wait(address, command)
        elif self._spawn(self._notify(address, command)):
            self._notices += 1
        else:
            self._wait(address, command)

    def _wait(self, address: str, command: RemotingCommand) -> None:
        if self._closing:
            return
        if address not in self._waiting and len(self._waiting) >= NOTICES_WAITING_MAX:
            self._metrics.notices_dropped += 1
            return
        self._metrics.notices_deferred += 1
        self._waiting[address] = command

    def _next_notices(self) -> None:
        while self._waiting and self._notices < NOTICES_AT_ONCE_MAX and not self._closing:
            address = next(iter(self._waiting))
            command = self._waiting.pop(address)
            if not self._spawn(self._notify(address, command)):
                self._waiting[address] = command
                return
            self._notices += 1

    async def _notify(self, address: str, command: RemotingCommand) -> None:
        try:
            await self._broker_client.send_oneway(address, command)
        except RemotingError as error:
            self._metrics.notices_undelivered += 1
            self._undelivered.tell(str(error), time.monotonic())
        finally:
            self._notices -= 1

    def probe(self, address: str, on_result: Callable[[str], None]) -> None:
        """Try to connect, as soon as there is room; `on_result` gets refused, open or timeout."""
        if self._closing:
            on_result("timeout")
        elif not self._spawn(self._probe(address, on_result)):
            asyncio.get_running_loop().call_later(
                PROBE_AGAIN_S, self._probe_again, address, on_result
            )

    def _probe_again(self, address: str, on_result: Callable[[str], None]) -> None:
        if not self._closing:
            self.probe(address, on_result)

    async def _probe(self, address: str, on_result: Callable[[str], None]) -> None:
        async with self._probes:
            result = await probe_port(address)
        on_result(result)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> bool:
        if self._closing or len(self._tasks) >= TASKS_MAX:
            work.close()
            return False
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return True

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._next_notices()
        if not task.cancelled() and task.exception() is not None:
            _log.error("outbound work failed", exc_info=task.exception())

    async def close(self) -> None:
        self._closing = True
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._peer_client.close()
        await self._broker_client.close()


async def probe_port(address: str, timeout_s: float = PROBE_TIMEOUT_S) -> str:
    """refused: the machine says that nobody listens; open: somebody does; timeout: neither in
    time.
    """
    try:
        host, port = split_address(address)
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return "refused"
    except (OSError, ValueError, TimeoutError):
        return "timeout"
    writer.transport.abort()
    return "open"
