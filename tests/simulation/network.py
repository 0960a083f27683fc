"""Byte streams between nodes: delay, cuts in one or both directions, pauses, loss of whole
connections.

Responsible for: pipes that keep order like TCP, split data at random, and close both ends when a
node dies.
Refuses to know: what the bytes mean.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from tests.simulation.world import Timer, World

CHUNKS_MAX = 3
SPLIT_ONE_IN = 4
DELAY_USUAL_MS = (0, 3)
DELAY_SLOW_MS = (5, 120)
SLOW_ONE_IN = 40
CLOSE_SEEN_MS = (0, 5)
STUCK_RETRY_MS = 20
PAUSED_RETRY_MS = 20
REFUSED_MS = (0, 3)
CONNECT_TIMEOUT_MS = 1_000


class Node(Protocol):
    """What the network needs to know of a node."""

    name: str
    life: int
    up: bool
    paused: bool


class Acceptor(Node, Protocol):
    """A node that takes connections."""

    def accept(self, end: End) -> bool: ...


def wake(world: World, node: Node, delay_ms: int, call: Callable[[], None]) -> Timer:
    """A timer of a process: it dies with it, and comes late when the process stands still."""
    life = node.life

    def run() -> None:
        if not node.up or node.life != life:
            return
        if node.paused:
            world.after(PAUSED_RETRY_MS, run)
        else:
            call()

    return world.after(delay_ms, run)


class End:
    """One end of a pipe. What comes waits until its owner listens."""

    def __init__(self, pipe: Pipe, owner: Node) -> None:
        self.pipe = pipe
        self.owner = owner
        self.life = owner.life
        self.on_data: Callable[[bytes], None] | None = None
        self.on_close: Callable[[str], None] = lambda reason: None
        self.open = True
        self._inbox: deque[tuple[bytes | None, str]] = deque()
        self._last_due_ms = 0
        self._stuck = False
        self._cut_since_ms: int | None = None

    @property
    def peer(self) -> End:
        return self.pipe.right if self is self.pipe.left else self.pipe.left

    def listen(self, on_data: Callable[[bytes], None], on_close: Callable[[str], None]) -> None:
        """Take what comes, and the end."""
        self.on_data, self.on_close = on_data, on_close

    def send(self, data: bytes, kind: str = "") -> None:
        """Put bytes on the wire; `kind` names the frame for the count of what was dropped."""
        if self.open and data:
            self.pipe.carry(self, data, kind)
        elif data:
            self.pipe.network.world.count(f"dropped.{kind}")

    def hold(self, hold_ms: int) -> None:
        """What is sent from now on comes so much later at least."""
        self.peer._last_due_ms = max(
            self.peer._last_due_ms, self.pipe.network.world.now_ms + hold_ms
        )

    def abandon(self) -> None:
        """Count what was on its way and will never be read."""
        for _, kind in self._inbox:
            if kind:
                self.pipe.network.world.count(f"dropped.{kind}")
        self._inbox.clear()

    def close(self, reason: str) -> None:
        """Close from this side: the peer sees it after what was sent before."""
        if self.open:
            self.open = False
            self.pipe.carry(self, None)

    def deaf(self) -> bool:
        """Paused, or not listening yet: what comes stays in the kernel's buffer."""
        return self.owner.paused or (self.on_data is None and self.open)

    def alive(self) -> bool:
        return self.open and self.owner.up and self.owner.life == self.life


class Pipe:
    """An ordered two-way byte stream between two nodes."""

    def __init__(self, network: Network, left: Node, right: Node) -> None:
        self.network = network
        self.left = End(self, left)
        self.right = End(self, right)

    def carry(self, sender: End, data: bytes | None, kind: str = "") -> None:
        receiver = sender.peer
        for chunk in self._split(data):
            receiver._inbox.append((chunk, kind))
            world = self.network.world
            due_ms = max(receiver._last_due_ms, world.now_ms + self.network.delay_ms())
            receiver._last_due_ms = due_ms
            world.after(due_ms - world.now_ms, lambda: self._deliver(sender, receiver))

    def _split(self, data: bytes | None) -> list[bytes | None]:
        world = self.network.world
        if data is None or len(data) < 2 or not world.one_in(SPLIT_ONE_IN):
            return [data]
        cuts = sorted(
            world.between(1, len(data) - 1) for _ in range(world.between(1, CHUNKS_MAX - 1))
        )
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]

    def _deliver(self, sender: End, receiver: End) -> None:
        """Hand over the oldest chunk, or wait while the way is cut or the receiver is paused."""
        if not receiver._inbox or receiver._stuck:
            return
        owner, network = receiver.owner, self.network
        if not owner.up or owner.life != receiver.life:
            receiver.abandon()
        elif network.is_cut(sender.owner.name, owner.name):
            now_ms = network.world.now_ms
            since_ms = receiver._cut_since_ms = (
                now_ms if receiver._cut_since_ms is None else receiver._cut_since_ms
            )
            # As TCP repeats what was lost: ever more seldom, so for up to as long again once the
            # way is there.
            self._stick(sender, receiver, max(STUCK_RETRY_MS, now_ms - since_ms))
        elif receiver.deaf():
            self._stick(sender, receiver, STUCK_RETRY_MS)
        else:
            receiver._cut_since_ms = None
            self._hand_over(receiver)

    def _stick(self, sender: End, receiver: End, for_ms: int) -> None:
        receiver._stuck = True
        self.network.world.after(for_ms, lambda: self._unstick(sender, receiver))

    def _unstick(self, sender: End, receiver: End) -> None:
        """Everything that was due meanwhile comes at once, in order."""
        receiver._stuck = False
        for _ in range(len(receiver._inbox)):
            if not receiver._inbox or receiver._stuck:
                return
            self._deliver(sender, receiver)

    def _hand_over(self, receiver: End) -> None:
        chunk, kind = receiver._inbox.popleft()
        if not receiver.open:
            if kind:
                self.network.world.count(f"dropped.{kind}")
        elif chunk is None:
            receiver.open = False
            receiver.on_close("closed by peer")
        elif receiver.on_data is not None:
            receiver.on_data(chunk)


class Network:
    """Every pipe of the world, and the faults on the ways between nodes."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._cuts: set[tuple[str, str]] = set()
        self._pipes: list[Pipe] = []

    def delay_ms(self) -> int:
        low, high = DELAY_SLOW_MS if self.world.one_in(SLOW_ONE_IN) else DELAY_USUAL_MS
        return self.world.between(low, high)

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def has_cuts(self) -> bool:
        """Somebody cannot be reached by somebody."""
        return bool(self._cuts)

    def cut(self, pairs: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Nothing gets from the first to the second of each pair, until the returned call."""
        fresh = [pair for pair in pairs if pair not in self._cuts]
        self._cuts.update(fresh)
        return lambda: self._cuts.difference_update(fresh)

    def heal(self) -> None:
        self._cuts.clear()

    def connect(
        self,
        client: Node,
        server: Node,
        accept: Callable[[End], bool],
        opened: Callable[[End], None],
        failed: Callable[[str], None],
    ) -> None:
        """Open a pipe as TCP would: refused at once by a dead node, silence across a cut."""

        def attempt() -> None:
            if self.is_cut(client.name, server.name) or self.is_cut(server.name, client.name):
                wake(self.world, client, CONNECT_TIMEOUT_MS, lambda: failed("timeout"))
                return
            pipe = Pipe(self, client, server)
            if not server.up or not accept(pipe.right):
                failed("refused")
                return
            self._pipes.append(pipe)
            opened(pipe.left)

        wake(self.world, client, self.world.between(*REFUSED_MS), attempt)

    def node_died(self, node: Node, *, silent: bool) -> None:
        """A killed process closes its sockets; a lost machine (silent) leaves its peers waiting."""
        kept = []
        for pipe in self._pipes:
            ends = (pipe.left, pipe.right)
            mine = next((end for end in ends if end.owner.name == node.name), None)
            if mine is None:
                if pipe.left.open or pipe.right.open:
                    kept.append(pipe)
                continue
            if mine.open and not silent:
                mine.open = False
                pipe.carry(mine, None)
            elif mine.open:
                self.world.after(CONNECT_TIMEOUT_MS * 3, lambda end=mine: self._reset(end))
        self._pipes = kept

    def _reset(self, dead: End) -> None:
        peer = dead.peer
        dead.open = False
        if peer.open and peer.alive():
            peer.open = False
            peer.on_close("reset")
