"""What the product's `Forwarder` needs to run inside a simulated broker: connections of clients,
calls to other brokers.

Responsible for: carrying; an answer that does not come raises what `brokers.remoting.client`
raises.
Refuses to know: what is passed on, to whom, how often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from brokers.remoting.calls import ConnectFailed, ConnectionClosed
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from tests.simulation.network import End, Node
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.wire import Wire

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

NETS = {"b": "10.0.0", "p": "10.0.1", "c": "10.0.2", "o": "10.0.3"}


def peer_of(node: Node) -> str:
    """The numeric address from which a node connects."""
    return f"{NETS[node.name[0]]}.{node.name[1:] if node.name[1:].isdigit() else 1}:40000"


class Asked:
    """A connection over which requests come (what handlers use of `Connection`)."""

    def __init__(self, wire: Wire, node: BrokerNode) -> None:
        self._wire, self._node = wire, node
        self.peer = peer_of(wire.end.peer.owner)
        self.attributes: dict[str, object] = {}

    @property
    def closed(self) -> bool:
        return not self._wire.open

    def send(self, answer: RemotingCommand) -> None:
        self._node.world.count(f"answer.{int(answer.code)}")
        self._wire.send(answer)


class Calls:
    """Calls to other brokers (what the forwarder uses of `RemotingClient`)."""

    def __init__(self, node: BrokerNode, loop: VirtualLoop) -> None:
        self._node, self._loop = node, loop
        self._wires: dict[str, Wire] = {}

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: int
    ) -> RemotingCommand:
        wire = self._wires.get(address)
        if wire is None or not wire.open:
            wire = self._wires[address] = await self._connect(address)
        future = self._loop.create_future()
        self._node.world.count("forward.passed_on")
        wire.call(
            replace(command),
            timeout_ms,
            lambda answer: None if future.done() else future.set_result(answer),
        )
        answer: RemotingCommand | None = await future
        if answer is None:
            self._node.world.count("forward.unknown")
            raise ConnectionClosed(f"{address}: no answer")
        if answer.code == ResponseCode.SUCCESS:
            self._node.world.count("forward.done")
        return answer

    async def _connect(self, address: str) -> Wire:
        node, future = self._node, self._loop.create_future()
        place = node.cluster.node_at(address)

        def settle(result: End | str) -> None:
            if not future.done():
                future.set_result(result)

        node.cluster.network.connect(node, place, place.accept, settle, settle)
        opened = await future
        if isinstance(opened, str):
            raise ConnectFailed(f"{address}: {opened}")
        return Wire(node.world, opened, lambda wire, request: None)
