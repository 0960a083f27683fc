"""Calls of this side that wait for their responses, and how a call ends without one.

Responsible for: numbering calls, matching responses by number, timing out, ending all when the
connection does.
Refuses to know: sockets and bytes.
"""

from __future__ import annotations

import asyncio
import itertools

from brokers.remoting.command import RemotingCommand

_OPAQUE_MASK = 0x7FFFFFFF


class RemotingError(Exception):
    """A call did not end with a response."""


class CallTimeout(RemotingError):
    """No response in time. Whether the peer acted is unknown."""


class ConnectionClosed(RemotingError):
    """The connection ended before the response. Whether the peer acted is unknown."""


class ConnectFailed(ConnectionClosed):
    """No connection was made, so nothing was sent. `refused`: the peer's machine said that nobody
    listens.
    """

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class PendingCalls:
    """The calls under way on one connection."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self._opaques = itertools.count(1)
        self._answers: dict[int, asyncio.Future[RemotingCommand]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def next_opaque(self) -> int:
        """A number that no call under way has."""
        opaque = next(self._opaques) & _OPAQUE_MASK
        while opaque in self._answers:
            opaque = next(self._opaques) & _OPAQUE_MASK
        return opaque

    def open(
        self, opaque: int, code: int, timeout_ms: int
    ) -> tuple[asyncio.Future[RemotingCommand], asyncio.TimerHandle]:
        """The future of the response, and the timer that ends it with CallTimeout. The caller must
        `forget`.
        """
        answer: asyncio.Future[RemotingCommand] = self._loop.create_future()
        self._answers[opaque] = answer
        return answer, self._loop.call_later(
            timeout_ms / 1000, self._expire, opaque, code, timeout_ms
        )

    def resolve(self, response: RemotingCommand) -> None:
        """Give a response to its call; one that nobody waits for is dropped."""
        answer = self._answers.pop(response.opaque, None)
        if answer is not None and not answer.done():
            answer.set_result(response)

    def forget(self, opaque: int) -> None:
        self._answers.pop(opaque, None)

    def end_all(self, reason: str) -> None:
        """End every call with ConnectionClosed."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionClosed(f"{self.peer}: {reason}"))
        self._answers.clear()

    def _expire(self, opaque: int, code: int, timeout_ms: int) -> None:
        answer = self._answers.pop(opaque, None)
        if answer is not None and not answer.done():
            answer.set_exception(
                CallTimeout(f"{self.peer}: no answer to {code} within {timeout_ms} ms")
            )
