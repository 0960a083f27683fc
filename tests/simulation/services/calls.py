"""Remoting between brokers and from clients, over simulated pipes with the product's codec.

Responsible for: connections as handlers see them, calls that end with what
`brokers.remoting.client` raises. Refuses to know: what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from brokers.remoting.calls import CallTimeout, ConnectFailed
from brokers.remoting.command import FLAG_ONEWAY, RemotingCommand
from brokers.remoting.connection import Answer
from tests.simulation.network import End, Node
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.services.realm import Realm


class Asked:
    """A connection over which requests come, as handlers use `Connection`."""

    def __init__(self, wire: Wire, peer: str) -> None:
        self._wire, self.id, self.peer = wire, wire.conn_id, peer
        self.attributes: dict[str, object] = {}

    @property
    def closed(self) -> bool:
        return not self._wire.open

    def send(self, command: RemotingCommand) -> None:
        self._wire.send(command)


class Calls:
    """As `brokers.remoting.client.RemotingClient`. `take`: requests that come from the other
    side.
    """

    def __init__(
        self,
        realm: Realm,
        node: Node,
        loop: VirtualLoop,
        take: Callable[[RemotingCommand], None] = lambda request: None,
    ) -> None:
        self._realm, self._node, self._loop, self._take = realm, node, loop, take
        self._wires: dict[str, Wire] = {}

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: int
    ) -> RemotingCommand:
        """RemotingError."""
        wire = await self._wire(address)
        future = self._loop.create_future()
        wire.call(
            replace(command),
            timeout_ms,
            lambda answer: None if future.done() else future.set_result(answer),
        )
        answer: RemotingCommand | None = await future
        if answer is None:
            raise CallTimeout(f"{address}: no answer")
        return answer

    async def send_oneway(self, address: str, command: RemotingCommand) -> None:
        """RemotingError: it was certainly not sent."""
        (await self._wire(address)).send(replace(command, flag=command.flag | FLAG_ONEWAY))

    async def _wire(self, address: str) -> Wire:
        wire = self._wires.get(address)
        if wire is None or not wire.open:
            wire = self._wires[address] = await self._connect(address)
        return wire

    async def _connect(self, address: str) -> Wire:
        other, future = self._realm.node_at(address), self._loop.create_future()

        def settle(result: End | str) -> None:
            if not future.done():
                future.set_result(result)

        self._realm.network.connect(self._node, other, other.accept, settle, settle)
        opened = await future
        if isinstance(opened, str):
            raise ConnectFailed(f"{address}: {opened}")
        return Wire(self._realm.world, opened, lambda wire, request: self._take(request))

    async def close(self) -> None:
        """Nothing is to be closed: a life that ends takes its pipes along."""


def answered(
    loop: VirtualLoop,
    asked: Asked,
    request: RemotingCommand,
    answer: Answer,
    broken: Callable[[BaseException], None],
) -> None:
    """As `Connection` does it: what is known goes at once, the rest when it is."""
    if isinstance(answer, RemotingCommand):
        if not request.is_oneway:
            asked.send(answer)
    elif answer is not None:
        task: asyncio.Task[RemotingCommand | None] = loop.create_task(_awaited(answer))

        def done(_task: object) -> None:
            if task.cancelled():
                return
            if (error := task.exception()) is not None:
                broken(error)
            else:
                answered(loop, asked, request, task.result(), broken)

        task.add_done_callback(done)


async def _awaited(answer: Awaitable[RemotingCommand | None]) -> RemotingCommand | None:
    return await answer
