"""Cleaning that operators ask for: 306, 316, 329 (PROTOCOL 4.16).

Responsible for: these answers. Refuses to know: which files may go, and when.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.role.services import Served, Service
from brokers.store.files.errors import LogError
from brokers.store.store import MessageStore


class Housekeeping(Service):
    """`expire()`: one round of deleting old files of the log, whatever the hour."""

    def __init__(self, store: MessageStore, expire: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._expire = expire

    def serves(self) -> dict[int, Served]:
        """Every replica has files of its own."""
        return {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: Served(self.trim_queues),
            RequestCode.CLEAN_UNUSED_TOPIC: Served(self.trim_queues),
            RequestCode.DELETE_EXPIRED_COMMITLOG: Served(self.expire),
        }

    def trim_queues(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """306 and 316: files of queues of which all messages are gone from the log. Queues of a
        deleted topic go with their messages and no earlier: a topic that is made again goes on
        behind them.
        """
        try:
            self._store.queues.trim(self._store.log_min)
        except (LogError, OSError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return request.reply()

    async def expire(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """329."""
        await self._expire()
        return request.reply()
