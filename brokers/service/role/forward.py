"""Passing requests on to the master: what lets a client with an old route go on at once (design
section 5).

Responsible for: one hop to the present master, waiting a bounded time while there is none, limits,
counting.
Refuses to know: what is sent, how a master serves it.

A request that may have reached the master is never sent a second time: whoever asked must decide
about a repetition.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from msgspec.structs import replace

from brokers.remoting.calls import ConnectFailed, RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import FOLLOWS_EPOCH, FORWARDED_FOR
from brokers.service.role.role_view import RoleView

# How often a request was passed on, whoever says so: two brokers that take each other for the
# master and do not know each other's address must not play ball with it.
HOPS, HOPS_MAX = "regentHops", 2
IN_FLIGHT_MAX = 10_000
IN_FLIGHT_BYTES_MAX = 128 * 1024 * 1024
CALL_TIMEOUT_MS = 3_000
RETRY_PAUSE_MS = 20
# A slave that another broker takes for the master may hear of its election a moment later, or of
# another one's.
PASSED_ON_HOLD_MS = 100
NOT_MASTER_REMARK = "this broker is not the master of its set"

Serve = Callable[[Connection, RemotingCommand], Answer]
_log = logging.getLogger("regent.broker.forward")


class _NotDone(Exception):
    """The master did nothing with the request: it may be sent again."""


class Forwarder:
    """Forwards requests of any code. `forwarded` counts those that a master answered; `writing` are
    the writes under way.

    Writes wait for the end of a hand-over also on the master itself. `is_replica(peer)`: whether a
    connection from that address is one of a replica of this set; who else says for whom it asks is
    not believed.
    """

    def __init__(
        self,
        roles: RoleView,
        client: RemotingClient,
        hold_ms: int,
        is_replica: Callable[[str], bool],
    ) -> None:
        self._roles = roles
        self._client = client
        self._hold_ms = hold_ms
        self._is_replica = is_replica
        self._in_flight = 0
        self._in_flight_bytes = 0
        self.forwarded = 0
        self.writing = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self.passed_ms: int | None = None
        """When a request was passed on last, in ms of the loop's clock."""

    @property
    def waiting(self) -> int:
        """Requests that are on their way to a master, or wait for one."""
        return self._in_flight

    async def settle(self) -> None:
        """Until nothing is on its way any more, or for as long as a send may be."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._settled.wait(), CALL_TIMEOUT_MS / 1000)

    def by_master(
        self,
        serve: Serve,
        timeout_ms: int = CALL_TIMEOUT_MS,
        *,
        repeatable: bool = False,
        writes: bool = False,
    ) -> Serve:
        """A handler that serves as master and otherwise finds one. `repeatable`: asking twice does
        no harm.
        """

        def handle(connection: Connection, request: RemotingCommand) -> Answer:
            if FORWARDED_FOR in request.ext and not self._is_replica(connection.peer):
                request = _as_its_own(request)
            if self._roles.serves(writes=writes):
                return serve(connection, request)
            return self.handle(
                connection, request, serve, timeout_ms, repeatable=repeatable, writes=writes
            )

        return handle

    def of_replicas(self, serve: Serve) -> Serve:
        """A handler of what only replicas of this set may ask each other."""

        def handle(connection: Connection, request: RemotingCommand) -> Answer:
            if self._is_replica(connection.peer):
                return serve(connection, request)
            return request.reply(
                ResponseCode.NO_PERMISSION,
                remark=("only replicas of this broker's set may ask this"),
            )

        return handle

    def to_followers(self, serve: Serve) -> Serve:
        """A handler of a table. A slave says in which epoch it follows: a process that was started
        anew at its master's address leads in none, and has an older table.
        """

        def handle(connection: Connection, request: RemotingCommand) -> Answer:
            epoch, current = request.ext.get(FOLLOWS_EPOCH), self._roles.current
            leads = current.role == "MASTER" and epoch == str(current.master_epoch)
            if epoch is None or leads:
                return serve(connection, request)
            return request.reply(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                remark=f"this replica does not lead in epoch {str(epoch)[:20]}",
            )

        return handle

    def handle(
        self,
        connection: Connection,
        request: RemotingCommand,
        serve: Serve,
        timeout_ms: int = CALL_TIMEOUT_MS,
        *,
        repeatable: bool = False,
        writes: bool = False,
    ) -> Answer:
        """The answer of the master, whoever that is within the time to hold; of this broker when it
        becomes master.
        """
        if self._in_flight >= IN_FLIGHT_MAX or self._in_flight_bytes >= IN_FLIGHT_BYTES_MAX:
            return request.reply(
                ResponseCode.SYSTEM_BUSY,
                remark=("[OVERLOAD]system busy, too many requests wait for the master"),
            )
        self._in_flight += 1
        self._settled.clear()
        self._in_flight_bytes += len(request.body)
        self.writing += writes
        return self._counted(connection, request, serve, timeout_ms, repeatable, writes)

    async def _counted(
        self,
        connection: Connection,
        request: RemotingCommand,
        serve: Serve,
        timeout_ms: int,
        repeatable: bool,
        writes: bool,
    ) -> RemotingCommand | None:
        self.passed_ms = int(asyncio.get_running_loop().time() * 1000)
        try:
            return await self._find_and_pass(
                connection, request, serve, timeout_ms, repeatable, writes
            )
        finally:
            self.writing -= writes
            self._in_flight -= 1
            self._in_flight_bytes -= len(request.body)
            if not self._in_flight:
                self._settled.set()

    async def _find_and_pass(
        self,
        connection: Connection,
        request: RemotingCommand,
        serve: Serve,
        timeout_ms: int,
        repeatable: bool,
        writes: bool,
    ) -> RemotingCommand | None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._hold_ms / 1000
        give_up = loop.time() + timeout_ms / 1000
        # Behind `give_up` nobody waits: this process may have stood still.
        while not connection.closed and loop.time() <= give_up:
            if self._roles.successor is not None:
                return await _answer_of(self._roles.successor(connection, request))
            if self._roles.serves(writes=writes):
                return await _answer_of(serve(connection, request))
            left_ms = (deadline - loop.time()) * 1000
            if left_ms <= 0 or self._roles.acting:
                break
            master = self._roles.master_address
            if FORWARDED_FOR in request.ext or _hops(request) >= HOPS_MAX:
                await self._roles.wait_change(
                    left_ms if master is None else min(left_ms, PASSED_ON_HOLD_MS)
                )
                if self._roles.master_address is not None:
                    # nothing was done with it: whoever passed it on hears of the new master as well
                    break
                continue
            if master is None:
                await self._roles.wait_change(left_ms)
                continue
            try:
                return await self._pass_on(
                    master, connection, request, max(1, int((give_up - loop.time()) * 1000))
                )
            except _NotDone:
                # The master is gone, or no longer one: its successor will be announced here.
                await self._roles.wait_change(min(RETRY_PAUSE_MS, left_ms))
            except RemotingError as error:
                _log.info("forwarding to %s: %s", master, error)
                if not repeatable:
                    return request.reply(
                        ResponseCode.SERVICE_NOT_AVAILABLE,
                        remark=(f"no answer from the master: {error}"),
                    )
                deadline = min(loop.time() + self._hold_ms / 1000, give_up)
                await self._roles.wait_change(RETRY_PAUSE_MS)
        return request.reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=NOT_MASTER_REMARK)

    async def _pass_on(
        self, master: str, connection: Connection, request: RemotingCommand, timeout_ms: int
    ) -> RemotingCommand:
        """The master's answer. _NotDone when it certainly did nothing, RemotingError when that is
        not known.
        """
        passed = replace(
            request,
            ext={**request.ext, FORWARDED_FOR: connection.peer, HOPS: str(_hops(request) + 1)},
        )
        try:
            if request.is_oneway:
                await self._client.send_oneway(master, passed)
                answer = request.reply()
            else:
                answer = await self._client.call(master, passed, timeout_ms)
        except ConnectFailed:
            raise _NotDone from None
        if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE and answer.remark == NOT_MASTER_REMARK:
            raise _NotDone
        self.forwarded += 1
        return request.reply(answer.code, answer.ext, answer.body, answer.remark)


async def _answer_of(answer: Answer) -> RemotingCommand | None:
    return answer if answer is None or isinstance(answer, RemotingCommand) else await answer


def _as_its_own(request: RemotingCommand) -> RemotingCommand:
    """The request of whoever sent it, not of whom it names."""
    return replace(
        request, ext={key: value for key, value in request.ext.items() if key != FORWARDED_FOR}
    )


def _hops(request: RemotingCommand) -> int:
    said = request.ext.get(HOPS, "0")
    return int(said) if said in ("0", "1") else HOPS_MAX
