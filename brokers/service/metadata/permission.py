"""RocketMQ's brokerPermission: what this broker allows at all, whatever its topics do
(PROTOCOL 4.3, 4.5).

Responsible for: routes without what is not allowed, and RocketMQ's refusals of requests that come
all the same: sends to order topics (others go elsewhere by the route) and every pull. Refuses to
know: topics' own permissions, consumer groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection, Handler
from brokers.service.role.services import Moves, Served
from brokers.service.tables.table_text import TableText
from brokers.service.tables.topics import PERM_READ, PERM_READ_WRITE, PERM_WRITE, TopicTable


class BrokerPermission:
    """`allowed` is a sum of read 4 and write 2. Who changes it asks for `guarded` again."""

    def __init__(self, allowed: int, topics: TopicTable, address: str) -> None:
        self.allowed = allowed
        self._topics = topics
        self._address = address

    def route_text(self) -> TableText:
        """The topics as they are registered at name servers."""
        if self.allowed & PERM_READ_WRITE == PERM_READ_WRITE:
            return self._topics.text()
        allowed = [
            replace(config, perm=config.perm & self.allowed)
            for config in self._topics.configs.values()
        ]
        return TopicTable(allowed, self._topics.version).text()

    def guarded(
        self, handlers: Mapping[int, Handler], served: Mapping[int, Served]
    ) -> dict[int, Handler]:
        """The handlers by request code, those of what is not allowed refusing it."""
        return {code: self._guarded(handlers[code], one.moves) for code, one in served.items()}

    def _guarded(self, handler: Handler, moves: Moves) -> Handler:
        if moves is Moves.MESSAGES_IN and not self.allowed & PERM_WRITE:
            return self._of_sends(handler)
        if moves is Moves.MESSAGES_OUT and not self.allowed & PERM_READ:
            return lambda _connection, request: self._refused(request, "pulling")
        return handler

    def _of_sends(self, serve: Handler) -> Handler:
        def handle(connection: Connection, request: RemotingCommand) -> Answer:
            config = self._topics.get(request.ext.get("b") or request.ext.get("topic") or "")
            return (
                self._refused(request, "sending")
                if config is not None and config.order
                else serve(connection, request)
            )

        return handle

    def _refused(self, request: RemotingCommand, what: str) -> RemotingCommand:
        return request.reply(
            ResponseCode.NO_PERMISSION,
            remark=(f"the broker[{self._address}] {what} message is forbidden"),
        )
