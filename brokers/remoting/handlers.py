"""What serves requests, as types.

Responsible for: what a connection may ask of a handler. Refuses to know: connections, requests.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from brokers.remoting.command import RemotingCommand

if TYPE_CHECKING:
    from brokers.remoting.connection import Connection

Answer = RemotingCommand | Awaitable[RemotingCommand | None] | None
Handler = Callable[["Connection", RemotingCommand], Answer]
# True: `answer_taken` will follow. False: nothing was done, the handler is to be asked.
Take = Callable[["Connection", RemotingCommand], bool]


class Express:
    """A handler with a short way for its usual requests that want an answer: many of them are
    taken, and answered, together.
    """

    def __init__(self, handler: Handler, take: Take) -> None:
        self._handler, self.take = handler, take

    def __call__(self, connection: Connection, request: RemotingCommand) -> Answer:
        return self._handler(connection, request)
