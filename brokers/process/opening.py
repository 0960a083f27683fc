"""The address of a broker whose store is not open yet: as soon as another replica leads, somebody
is there and passes on.

A start reads its disk, which takes as long as the disk wants: seconds behind a loss of power, for
ever where it hangs. Clients with this address in their routes come meanwhile. What they send goes
to the master that the controllers name; all else waits for the store, a bounded time. While nobody
else leads the port stays closed: that is how controllers learn at once that the master is gone.

Responsible for: finding that master, listening, what a request gets before the broker serves.
Refuses to know: how a store is opened, what is served afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from brokers.membership.controller_client import ControllerClient
from brokers.membership.controller_messages import master_question, role_notice
from brokers.process.config import BrokerConfig
from brokers.process.predecessor import once_free
from brokers.remoting.addresses import split_address
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.fields import FORWARDED_FOR
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer
from brokers.service.role.forward import NOT_MASTER_REMARK, Forwarder
from brokers.service.role.role_view import RoleView

SENDS = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
    }
)
"""What is passed on; a read may wait, and its client asks another replica, or again."""
SEEK_EVERY_MS = 200
ASK_TIMEOUT_MS = 1_000
WAITING_MAX = 1_000
WAITING_BYTES_MAX = 16 * 1024 * 1024
OPENING_REMARK = "this broker is opening its store"

_log = logging.getLogger("regent.broker")


class StartRefused(Exception):
    """The broker cannot start; the text is one line with the way out."""


def port_refused(address: str, error: OSError) -> StartRefused:
    return StartRefused(
        f"cannot listen on {address}: {error.strerror or error}; stop the process that does, or "
        "choose another port"
    )


class Opening:
    """`roles`, `client`, `dispatcher` and `server` are the broker's own afterwards: its handlers
    take the place of what is answered here, connections stay.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self.roles = RoleView()
        self.client = RemotingClient()
        self.dispatcher = Dispatcher(otherwise=self._before)
        self.dispatcher.never_old |= SENDS
        self.on_close: Callable[[Connection], None] = lambda _connection: None
        self.has_place: Callable[[str], bool] = lambda _peer: False
        host, port = split_address(config.listen)
        self.server = RemotingServer(
            self.dispatcher,
            host=host,
            port=port,
            on_close=lambda connection: self.on_close(connection),
            limits=Limits(partial_frame_ms=config.partial_frame_timeout_ms),
            has_place=lambda peer: self.has_place(peer),
        )
        self._config = config
        self._forwarder = Forwarder(
            self.roles, self.client, config.hold_without_master_ms, lambda _peer: False
        )
        self._begun = asyncio.Event()
        self._bound = asyncio.Lock()
        self._listens = False
        self._seeking: asyncio.Task[None] | None = None
        self._waiting = self._waiting_bytes = 0
        self.earlier: list[Callable[[], Awaitable[None]]] = []
        self.greeted = b""  # who greeted an earlier life, as replicas copy it

    def begin(self, config: BrokerConfig) -> None:
        """Look for another master, and listen once there is one. Without controllers nobody else
        leads where this broker did.
        """
        self._config = config
        if not config.controllers:
            return
        self._seeking = asyncio.ensure_future(self._seek())

    def again(self) -> Dispatcher:
        """One life of the broker is over: connections stay, and what comes is taken as before its
        first one. What takes it.
        """
        self.roles, self.client = RoleView(), RemotingClient()
        self.roles.gather(True)
        self._forwarder = Forwarder(
            self.roles, self.client, self._config.hold_without_master_ms, lambda _peer: False
        )
        self.on_close = lambda _connection: None
        self.has_place = lambda _peer: False
        self._begun = asyncio.Event()
        self.dispatcher.clear(self._before)
        self.dispatcher.never_old |= SENDS
        return self.dispatcher

    def keep(self, close: Callable[[], Awaitable[None]]) -> None:
        """What `let_go` ends: an earlier life's, which this one's has to replace first."""
        self.earlier.append(close)

    async def let_go(self) -> None:
        """This life has its own of everything."""
        earlier, self.earlier = self.earlier, []
        for close in earlier:
            await close()

    async def over(self) -> None:
        """The handlers are in the dispatcher, and the address is this process's: those who wait go
        on, nobody else comes here. OSError when another process keeps the address.
        """
        await self._seek_no_more()
        await once_free(self._listen)
        self.dispatcher.otherwise = None
        self._begun.set()

    async def close(self) -> None:
        """The broker ends, or never began."""
        await self._seek_no_more()
        await self.let_go()
        async with self._bound:
            await self.server.close()

    async def _try_to_listen(self) -> None:
        """An address that is taken is its predecessor's still, which passes on as well."""
        with suppress(OSError):
            await self._listen()

    async def _listen(self) -> None:
        async with self._bound:
            if not self._listens:
                await self.server.start()
                self._listens = True

    async def _seek_no_more(self) -> None:
        task, self._seeking = self._seeking, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _seek(self) -> None:
        """Who leads this broker's set, again and again. Its own address stands for nobody: it was
        the last master, and no other one is elected yet.
        """
        controllers = ControllerClient(self._config.controllers, lambda: None)
        question = master_question(self._config.broker_name)
        try:
            while True:
                answer = await controllers.ask(question, ASK_TIMEOUT_MS)
                if answer is not None:
                    notice = role_notice(answer, "opening")
                    master = None if notice is None else notice.master_address
                    other = None if master == self._config.advertised else master
                    self.roles.name_master(other)
                    if other is not None:
                        await asyncio.shield(self._try_to_listen())
                await asyncio.sleep(SEEK_EVERY_MS / 1000)
        finally:
            await controllers.close()

    # -- requests ----------------------------------------------------------------------------------

    def _before(self, connection: Connection, request: RemotingCommand) -> Answer:
        """A request that came before there was a handler."""
        if request.code == RequestCode.REGENT_PROCESS_STATUS:
            return _refused(request, OPENING_REMARK)  # who asks wants to know it now
        if request.code not in SENDS:
            return self._when_begun(connection, request)
        if FORWARDED_FOR in request.ext:
            # Whoever passed it on took this broker for the master, and hears of the next one too.
            return _refused(request, NOT_MASTER_REMARK)
        return self._forwarder.handle(connection, request, self.dispatcher, writes=True)

    async def _when_begun(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        size = len(request.body)
        if self._waiting >= WAITING_MAX or self._waiting_bytes + size > WAITING_BYTES_MAX:
            return _refused(request, OPENING_REMARK)
        self._waiting += 1
        self._waiting_bytes += size
        try:
            await asyncio.wait_for(self._begun.wait(), self._config.hold_without_master_ms / 1000)
        except TimeoutError:
            return _refused(request, OPENING_REMARK)
        finally:
            self._waiting -= 1
            self._waiting_bytes -= size
        answer = self.dispatcher(connection, request)
        return await answer if isinstance(answer, Awaitable) else answer


def _refused(request: RemotingCommand, remark: str) -> RemotingCommand:
    return request.reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=remark)
