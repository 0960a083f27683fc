"""Messages by key, by unique key, by place: 12, 33, and 19011 for other replicas
(PROTOCOL 4.11).

Responsible for: these answers. Refuses to know: how keys are kept, what a damaged message leads to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadField, flag, number, reading_fields, text
from brokers.service.reading.cold_reads import ColdReads
from brokers.service.role.services import Served, Service, Where
from brokers.store.index.file import Header
from brokers.store.index.key_query import Found, message_at, messages_with_key
from brokers.store.log.integrity import RECORD_BYTES_MAX, BadRecord
from brokers.store.log.side_reader import SideLog
from brokers.store.store import MessageStore

MESSAGES_MAX = 64
MESSAGES_BY_UNIQUE_KEY = 32
UNDER_WAY_MAX = 32


class QueryRequests(Service):
    """Answered by every replica from what it has confirmed. `refused(bad, found by)` is called on
    damage.
    """

    def __init__(self, store: MessageStore, refused: Callable[[BadRecord, str], object]) -> None:
        self._store, self._refused = store, refused
        self.reads = ColdReads(threads=1)
        self._under_way = 0

    def serves(self) -> dict[int, Served]:
        """Every replica answers with what it holds."""
        return {
            RequestCode.QUERY_MESSAGE: Served(self._query),
            RequestCode.VIEW_MESSAGE_BY_ID: Served(reading_fields(self._view)),
            RequestCode.REGENT_READ_LOG: Served(reading_fields(self._read_log), Where.FOR_REPLICAS),
        }

    def close(self) -> None:
        self.reads.close()

    def _query(
        self, _connection: object, request: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        try:
            return self._begin(request)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))

    def _begin(self, request: RemotingCommand) -> RemotingCommand | Awaitable[RemotingCommand]:
        ext, store = request.ext, self._store
        topic, key, limit = (
            text(ext, "topic"),
            text(ext, "key"),
            min(number(ext, "maxNum"), MESSAGES_MAX),
        )
        begin_ms, end_ms = number(ext, "beginTimestamp"), number(ext, "endTimestamp")
        if flag(ext, "_UNIQUE_KEY_QUERY"):
            limit = MESSAGES_BY_UNIQUE_KEY
        if store.index is None:
            return request.reply(
                ResponseCode.QUERY_NOT_FOUND, remark=("this broker keeps no index of keys")
            )
        if self._under_way >= UNDER_WAY_MAX:
            return request.reply(
                ResponseCode.SYSTEM_BUSY, remark=(f"{UNDER_WAY_MAX} queries by key are under way")
            )
        try:
            candidates = store.index.find(topic, key, begin_ms, end_ms)
        except OSError as error:
            return request.reply(
                ResponseCode.SYSTEM_ERROR,
                remark=(f"the index cannot be read: {error.strerror or error}"),
            )
        log, readable_end = SideLog(store.log), store.dispatched_offset

        def read() -> Found:
            try:
                return messages_with_key(
                    log, candidates, topic, key, limit, begin_ms, end_ms, readable_end
                )
            finally:
                log.close()
                candidates.close()

        return self._beside(request, read, store.index.newest)

    async def _beside(
        self, request: RemotingCommand, read: Callable[[], Found], newest: Header
    ) -> RemotingCommand:
        """Old messages come from the disk: meanwhile everybody else is served."""
        self._under_way += 1
        try:
            found = await self.reads.run(read)
        except OSError as error:
            return request.reply(
                ResponseCode.SYSTEM_ERROR,
                remark=(f"the index cannot be read: {error.strerror or error}"),
            )
        finally:
            self._under_way -= 1
        self._tell(found)
        answer = {
            "indexLastUpdateTimestamp": str(newest.end_ms),
            "indexLastUpdatePhyoffset": str(newest.end_offset),
        }
        if not found.messages:
            remark = "can not find message, maybe time range not correct"
            return request.reply(ResponseCode.QUERY_NOT_FOUND, answer, remark=remark)
        return request.reply(ext=answer, body=b"".join(found.messages))

    def _tell(self, found: Found) -> None:
        for bad in found.refused:
            self._refused(bad, "query")

    def _view(self, request: RemotingCommand) -> RemotingCommand:
        offset = number(request.ext, "offset")
        data = message_at(self._store.log, offset, self._store.dispatched_offset)
        if isinstance(data, bytes):
            return request.reply(body=data)
        if data is not None:
            self._refused(data, "view")
        return request.reply(
            ResponseCode.SYSTEM_ERROR, remark=(f"can not find message by the offset, {offset}")
        )

    def _read_log(self, request: RemotingCommand) -> RemotingCommand:
        """19011: confirmed bytes of the log, for a replica whose own are damaged; it looks at them
        itself.
        """
        offset, count = number(request.ext, "offset"), number(request.ext, "count")
        if (
            not 0 < count <= RECORD_BYTES_MAX
            or offset < 0
            or offset + count > self._store.confirm_offset
        ):
            return request.reply(
                ResponseCode.QUERY_NOT_FOUND, remark=("not confirmed here, or too much at once")
            )
        try:
            return request.reply(body=self._store.read_log(offset, count))
        except OSError as error:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=(f"the disk refuses: {error.strerror or error}")
            )
