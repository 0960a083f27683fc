"""Remoting over simulated pipes: the product's own codec on both ends.

Responsible for: frames in and out, matching answers to calls, deadlines. An answer that does not
come is unknown.
Refuses to know: what a request means.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from brokers.remoting.codec import FrameDecoder, encode
from brokers.remoting.command import RemotingCommand
from tests.simulation.network import End, wake
from tests.simulation.world import Timer, World

Answered = Callable[[RemotingCommand | None], None]


class Wire:
    """One end of a remoting connection."""

    def __init__(
        self,
        world: World,
        end: End,
        on_request: Callable[[Wire, RemotingCommand], None],
        on_close: Callable[[Wire], None] = lambda wire: None,
    ) -> None:
        self.world = world
        self.end = end
        self.conn_id = world.next_number()
        self._decoder = FrameDecoder()
        self._on_request = on_request
        self._on_close = on_close
        self._opaque = 0
        self._calls: dict[int, tuple[Answered, Timer]] = {}
        end.listen(self._data, self._closed)

    @property
    def open(self) -> bool:
        return self.end.open

    def send(self, command: RemotingCommand) -> None:
        """Send an answer or a one-way request as it is."""
        self.end.send(
            encode(command), f"remoting.{'answer' if command.is_response else command.code}"
        )

    def call(self, command: RemotingCommand, timeout_ms: int, answered: Answered) -> None:
        """Send a request; `answered(None)` means that nobody knows what became of it."""
        if not self.end.open:
            wake(self.world, self.end.owner, 0, lambda: answered(None))
            return
        self._opaque += 1
        opaque = self._opaque
        timer = wake(self.world, self.end.owner, timeout_ms, lambda: self._settle(opaque, None))
        self._calls[opaque] = (answered, timer)
        self.send(replace(command, opaque=opaque, flag=command.flag & ~3))

    def close(self, reason: str) -> None:
        self.end.close(reason)
        self._closed(reason)

    def _settle(self, opaque: int, answer: RemotingCommand | None) -> None:
        waiting = self._calls.pop(opaque, None)
        if waiting is not None and self.end.owner.up and self.end.owner.life == self.end.life:
            waiting[1].cancel()
            waiting[0](answer)

    def _data(self, data: bytes) -> None:
        for command in self._decoder.feed(data):
            if command.is_response:
                self._settle(command.opaque, command)
            else:
                self._on_request(self, command)

    def _closed(self, reason: str) -> None:
        for opaque in list(self._calls):
            self._settle(opaque, None)
        self._on_close(self)
