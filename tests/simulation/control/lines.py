"""Processes and the connections between them: messages in order, delays, cuts, pauses, deaths.

Responsible for: what TCP promises and what it does not. Messages are values, not bytes: codec and
frames have the whole-cluster world. Refuses to know: what a message means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from brokers.remoting.command import RemotingCommand
from tests.simulation.world import Timer, World

DELAY_MS = (0, 3)
SLOW_MS = (5, 150)
SLOW_ONE_IN = 50
STUCK_RETRY_MS = 25
CONNECT_TIMEOUT_MS = 500

Answered = Callable[[RemotingCommand | None], None]


class Process:
    """A node that can be down, paused, cut off. `life` counts its starts; what a former life began
    is void.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.life = 0
        self.up = self.paused = False
        self.paused_ms = 0
        self.reads_from_ms = 0  # until then its consumer of the log is stuck
        self._paused_since_ms = 0
        self._waiting: list[Callable[[], None]] = []
        self.calls: dict[tuple[int, int], tuple[Answered, Timer]] = {}

    def begin(self) -> None:
        self.life += 1
        self.up, self.paused = True, False
        self._waiting, self.calls = [], {}

    def end(self) -> None:
        self.up = False

    def pause(self) -> None:
        self.paused, self._paused_since_ms = True, self.world.now_ms

    def go_on(self) -> None:
        """What came meanwhile waits in the kernel, and comes at once."""
        if not self.paused:
            return
        self.paused = False
        self.paused_ms += self.world.now_ms - self._paused_since_ms
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self.soon(0, call)

    def soon(self, delay_ms: int, call: Callable[[], None]) -> Timer:
        """Something that happens to this life of the process: late while it is paused, never when
        it is gone.
        """
        life = self.life

        def run() -> None:
            if self.up and self.life == life:
                if self.paused:
                    self._waiting.append(call)
                else:
                    call()

        return self.world.after(delay_ms, run)

    # What a process does about connections; overridden where it cares.
    def took(self, line: Line, message: RemotingCommand) -> None:
        """A request, or a one-way message, has come."""

    def lost(self, line: Line) -> None:
        """The other side of a connection is gone."""

    def call(
        self, line: Line | None, request: RemotingCommand, timeout_ms: int, answered: Answered
    ) -> None:
        """Ask over `line`; `answered(None)` means that nobody knows what became of it."""
        if line is None or not line.open:
            self.soon(1, lambda: answered(None))
            return
        key = (line.number, self.world.next_number())
        self.calls[key] = (answered, self.soon(timeout_ms, lambda: self.settle(key, None)))
        line.send(self, replace(request, opaque=key[1]))

    def settle(self, key: tuple[int, int], answer: RemotingCommand | None) -> None:
        found = self.calls.pop(key, None)
        if found is not None:
            found[1].cancel()
            found[0](answer)

    def hang_up(self, line: Line) -> None:
        for key in [key for key in self.calls if key[0] == line.number]:
            self.settle(key, None)
        self.lost(line)


class Line:
    """A connection. What is sent in one direction comes in order, or not at all once either side is
    gone.
    """

    def __init__(self, lines: Lines, client: Process, server: Process) -> None:
        self.lines, self.number = lines, lines.world.next_number()
        self.client, self.server = client, server
        self.lives = {client.name: client.life, server.name: server.life}
        self.open = True
        self._ways = {
            client.name: _Way(self, client, server),
            server.name: _Way(self, server, client),
        }

    def send(self, sender: Process, message: RemotingCommand) -> None:
        if self.open:
            self._ways[sender.name].put(message)

    def ended_by(self, side: Process) -> None:
        """One side closes, or died: the other sees it behind what was sent before."""
        self._ways[side.name].put(None)

    def alive(self, side: Process) -> bool:
        return side.up and side.life == self.lives[side.name]

    def other(self, side: Process) -> Process:
        return self.server if side is self.client else self.client


class _Way:
    """One direction."""

    def __init__(self, line: Line, source: Process, target: Process) -> None:
        self._line, self._source, self._target = line, source, target
        self._queue: deque[tuple[int, RemotingCommand | None]] = deque()
        self._last_ms = 0
        self._pumping = False

    def put(self, message: RemotingCommand | None) -> None:
        world = self._line.lines.world
        self._last_ms = max(self._last_ms, world.now_ms + self._line.lines.delay_ms())
        self._queue.append((self._last_ms, message))
        self._pump_at(self._queue[0][0])

    def _pump_at(self, at_ms: int) -> None:
        if not self._pumping:
            self._pumping = True
            world = self._line.lines.world
            world.after(at_ms - world.now_ms, self._pump)

    def _pump(self) -> None:
        self._pumping = False
        line, world = self._line, self._line.lines.world
        while self._queue and self._queue[0][0] <= world.now_ms:
            if not line.alive(self._target):
                self._queue.clear()
                return
            if line.lines.is_cut(self._source.name, self._target.name):
                self._pump_at(world.now_ms + STUCK_RETRY_MS)
                return
            message = self._queue.popleft()[1]
            self._target.soon(0, lambda message=message: self._hand_over(message))
        if self._queue:
            self._pump_at(self._queue[0][0])

    def _hand_over(self, message: RemotingCommand | None) -> None:
        line, target = self._line, self._target
        if not line.open:
            return
        if message is None:
            line.open = False
            target.hang_up(line)
        elif message.is_response:
            target.settle((line.number, message.opaque), message)
        else:
            target.took(line, message)


class Lines:
    """All connections, and the cuts between places (a place is a process, or the log)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._cuts: dict[tuple[str, str], int] = {}
        self._all: list[Line] = []

    def delay_ms(self) -> int:
        return self.world.between(*(SLOW_MS if self.world.one_in(SLOW_ONE_IN) else DELAY_MS))

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    def is_apart(self, one: str, other: str) -> bool:
        """No connection can be made between them."""
        return (one, other) in self._cuts or (other, one) in self._cuts

    def cut(self, pairs: Iterable[tuple[str, str]]) -> Callable[[], None]:
        """Nothing gets from the first to the second of each pair, until the returned call."""
        made = list(pairs)
        for pair in made:
            self._cuts[pair] = self._cuts.get(pair, 0) + 1

        def mend() -> None:
            for pair in made:
                left = self._cuts.get(pair, 0) - 1
                if left > 0:
                    self._cuts[pair] = left
                else:
                    self._cuts.pop(pair, None)

        return mend

    def heal(self) -> None:
        self._cuts.clear()

    def connect(
        self,
        client: Process,
        server: Process | None,
        opened: Callable[[Line], None],
        failed: Callable[[str], None],
    ) -> None:
        """Refused at once where nobody listens, silence across a cut. `server` None: nobody ever
        lived there.
        """

        def attempt() -> None:
            if server is not None and self.is_apart(client.name, server.name):
                client.soon(CONNECT_TIMEOUT_MS, lambda: failed("timeout"))
            elif server is None or not server.up:
                failed("refused")
            else:
                line = Line(self, client, server)
                self._all.append(line)
                opened(line)

        client.soon(self.delay_ms(), attempt)

    def of(self, process: Process) -> Iterator[Line]:
        """The open connections of this process."""
        return (line for line in self._all if line.open and process.name in line.lives)

    def died(self, process: Process) -> None:
        """The kernel closes what the process had open."""
        for line in list(self.of(process)):
            line.ended_by(process)
        self._all = [
            line
            for line in self._all
            if line.open and (process.name not in line.lives or line.alive(line.other(process)))
        ]
