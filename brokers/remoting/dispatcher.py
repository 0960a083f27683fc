"""From a request's code to its handler.

Responsible for: the table, and the answer to a code that is not in it.
Refuses to know: what a handler does.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection, Express, Handler, TakeExpress


class Dispatcher:
    """Handler that finds the handler of a request's code; a code nobody has is answered with 3
    (1.6).

    `never_old`: requests of these codes are refused when they may have lain in a socket while this
    process stood still. `otherwise`: takes codes that nobody has.
    """

    def __init__(
        self, handlers: Mapping[int, Handler] | None = None, otherwise: Handler | None = None
    ) -> None:
        self._handlers: dict[int, Handler] = {}
        self.express: dict[int, TakeExpress] = {}
        self.never_old: set[int] = set()
        self.otherwise = otherwise
        for code, handler in (handlers or {}).items():
            self.register(code, handler)

    def register(self, code: int, handler: Handler) -> None:
        """An Express has its short way as well."""
        self._handlers[int(code)] = handler
        self.express.pop(int(code), None)
        if isinstance(handler, Express):
            self.express[int(code)] = handler.take

    def clear(self, otherwise: Handler) -> None:
        """As before the first handler: `otherwise` takes everything."""
        self._handlers.clear()
        self.express.clear()
        self.otherwise = otherwise

    def __call__(self, connection: Connection, request: RemotingCommand) -> Answer:
        handler = self._handlers.get(request.code) or self.otherwise or not_supported
        return handler(connection, request)


def not_supported(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """The answer to a code that this process does not serve."""
    remark = f" request type {request.code} not supported"
    return request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
