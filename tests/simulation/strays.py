"""One-way messages that go astray: a role notice or a heartbeat comes late, or twice, over a
connection of its own.

Responsible for: which of them do while that fault lasts, and how late they come; newer ones
overtake them, and what a former life of the sender wrote may come after its end, as out of a
kernel's buffer.
Refuses to know: what the messages mean.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.remoting.codec import encode
from brokers.remoting.command import RemotingCommand
from tests.simulation.network import Acceptor, End, Network, Node
from tests.simulation.world import World

NOTICE, HEARTBEAT = "notice", "heartbeat"
KINDS = tuple(f"{how}_{what}" for how in ("late", "repeated") for what in (NOTICE, HEARTBEAT))
LATE_MS = (20, 3_000)
LASTS_MS = (500, 4_000)
ASTRAY_ONE_IN = 2


class Strays:
    """Nothing goes astray, and no chance is spent on it, unless a kind was let loose."""

    def __init__(self, world: World, network: Network) -> None:
        self.world, self.network = world, network
        self._until_ms: dict[str, int] = {}

    def let_loose(self, kind: str) -> None:
        self._until_ms[kind] = self.world.now_ms + self.world.between(*LASTS_MS)

    def end(self) -> None:
        """What is on its way still comes."""
        self._until_ms.clear()

    def carry(
        self,
        what: str,
        sender: Node,
        receiver: Acceptor,
        message: RemotingCommand,
        usual: Callable[[], None],
    ) -> None:
        """Send it the usual way, or later by another one, or both."""
        if self._strikes(f"late_{what}"):
            self._astray(sender, receiver, message)
            return
        usual()
        if self._strikes(f"repeated_{what}"):
            self._astray(sender, receiver, message)

    def _strikes(self, kind: str) -> bool:
        if self.world.now_ms >= self._until_ms.get(kind, 0) or not self.world.one_in(ASTRAY_ONE_IN):
            return False
        self.world.count(f"fault.{kind}")
        return True

    def _astray(self, sender: Node, receiver: Acceptor, message: RemotingCommand) -> None:
        def opened(end: End) -> None:
            end.hold(self.world.between(*LATE_MS))
            end.send(encode(message), f"remoting.{message.code}")
            end.close("nothing more to say")

        self.network.connect(sender, receiver, receiver.accept, opened, lambda why: None)
