"""A slave copies its master's tables: topics, offsets, groups, what is kept for Java
(PROTOCOL 2.11).

Responsible for: asking 21, 43, 201, 19015, 19016, 19019, 45, 402, 61 and 60 every few seconds and
at once after a change of master; a master of our own kind much more often for offsets, for who
greeted it, for locks and for how far it has delivered delayed messages, and only what changed.
Refuses to know: what the tables are for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FOLLOWS_EPOCH
from brokers.service.metadata.client_copy import ClientCopy
from brokers.service.metadata.lock_requests import LockRequests
from brokers.service.metadata.offset_copy import OffsetCopy
from brokers.service.metadata.queue_end_copy import QueueEndCopy
from brokers.service.metadata.table_pieces import TEXT_BYTES_MAX, PiecesCopied
from brokers.service.role.role_view import RoleView
from brokers.service.tables.offsets import ConsumerOffsets
from brokers.service.tables.subscription_groups import SubscriptionGroups
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import TopicTable
from brokers.store.files.json_files import (
    CONSUMER_OFFSET_FILE,
    SUBSCRIPTION_GROUP_FILE,
    TOPICS_FILE,
)

CALL_TIMEOUT_MS = 3_000
# A committed offset is on every replica of ours at most one second later, while its questions are
# answered.
OFFSETS_PERIOD_MS = 500
# Questions for one table in one round: a table that changes all the time is copied in the next one.
PIECES_MAX = 1_024

_log = logging.getLogger("regent.broker.tables")


class NotCopied(Exception):
    """The master did not give a table; the text says why. `unknown`: it knows no such table."""

    def __init__(self, why: str, *, unknown: bool = False) -> None:
        super().__init__(why)
        self.unknown = unknown


class MetadataSync:
    """`adopt_topics(table, master epoch)` is the one way a topic table gets in,
    `adopt_groups` the one of groups.
    """

    def __init__(
        self,
        tables: TableFiles,
        roles: RoleView,
        client: RemotingClient,
        period_ms: int,
        adopt_topics: Callable[[TopicTable, int], bool],
        adopt_groups: Callable[[SubscriptionGroups, int], None],
        ends: QueueEndCopy,
        clients: ClientCopy,
        locks: LockRequests,
    ) -> None:
        self._tables = tables
        self._roles = roles
        self._client = client
        self._period_ms = period_ms
        self._adopt_topics, self._adopt_groups = adopt_topics, adopt_groups
        self._ends, self._clients = ends, clients
        self._locks = locks
        self._offset_copy = OffsetCopy()
        self._copying_offsets = asyncio.Lock()

    async def run(self) -> None:
        """For as long as the broker runs."""
        while True:
            followed = self._followed
            if followed[0] is not None:
                await self.copy_from(followed[0], followed[1])
            await self._rest(followed)

    @property
    def _followed(self) -> tuple[str | None, int]:
        return self._roles.master_address, self._roles.current.master_epoch

    async def _rest(self, followed: tuple[str | None, int]) -> None:
        """Until the next round, or another master; meanwhile offsets, clients, and places of
        deliveries.
        """
        left_ms = self._period_ms
        while left_ms > 0 and self._followed == followed:
            await self._roles.wait_change(min(left_ms, OFFSETS_PERIOD_MS))
            left_ms -= OFFSETS_PERIOD_MS
            master, epoch = followed
            if (
                left_ms > 0
                and master is not None
                and self._followed == followed
                and self._offset_copy.tells_changes
            ):
                for code in _OFTEN:
                    await self._copied(code, master, epoch)

    async def copy_from(self, master: str, epoch: int) -> str | None:
        """One round; what cannot be read is left for the next one. None when all is copied, else
        what is not, and why.
        """
        refused = [
            await self._copied(code, master, epoch)
            for code in (*_OWN, *_OF_CLIENTS, *self._tables.kept.codes)
        ]
        return next(filter(None, refused), None)

    async def _copied(self, code: int, master: str, epoch: int) -> str | None:
        try:
            if code == RequestCode.GET_ALL_CONSUMER_OFFSET:
                async with self._copying_offsets:
                    await self._offsets(master, epoch)
            elif code == RequestCode.GET_ALL_TOPIC_CONFIG:
                here = self._tables.topics.text()
                self._topics(await self._text(code, here.stored(), master, epoch), epoch)
            elif code == RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
                self._groups(
                    await self._text(code, self._tables.groups.text(), master, epoch), epoch
                )
            elif code == RequestCode.REGENT_QUEUE_ENDS:
                await self._ends.adopt(
                    await self._text(code, self._ends.text, master, epoch), epoch
                )
            elif code == RequestCode.REGENT_CLIENTS:
                self._clients.adopt(await self._text(code, self._clients.text, master, epoch))
            elif code == RequestCode.REGENT_LOCKS:
                self._locks.adopt(await self._text(code, self._locks.copied, master, epoch))
            else:
                self._tables.kept.adopt(code, (await self._asked(code, {}, master, epoch)).body)
        except NotCopied as refusal:
            # What is kept for Java an older master may not have, nor who greeted it or holds what;
            # where queues go on a Java master does not tell.
            spared = refusal.unknown if code == RequestCode.REGENT_QUEUE_ENDS else code not in _OWN
            return None if spared and self._still_follows(epoch) else f"table {code}: {refusal}"
        except (RemotingError, ValueError, OSError) as error:
            _log.info("copying table %d from %s: %s", code, master, error)
            return f"table {code}: {error}"
        return None

    async def _asked(
        self, code: int, ext: Mapping[str, str], master: str, epoch: int
    ) -> RemotingCommand:
        """The master's answer. A role that changed while it was under way has its own tables to
        mind.
        """
        answer = await self._client.call(
            master,
            RemotingCommand.request(
                code, {**_PAGE.get(code, {}), **ext, FOLLOWS_EPOCH: str(epoch)}
            ),
            CALL_TIMEOUT_MS,
        )
        if not self._still_follows(epoch):
            raise NotCopied(f"it follows nobody in epoch {epoch}")
        if answer.code != ResponseCode.SUCCESS:
            unknown = answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            raise NotCopied(answer.remark or f"code {answer.code}", unknown=unknown)
        return answer

    def _still_follows(self, epoch: int) -> bool:
        return self._roles.role == "SLAVE" and self._roles.current.master_epoch == epoch

    async def _text(self, code: int, here: bytes, master: str, epoch: int) -> bytes:
        """The master's table, in as many pieces as it takes."""
        pieces = PiecesCopied(here)
        for _ in range(PIECES_MAX):
            whole = pieces.take(await self._asked(code, pieces.wanted, master, epoch))
            if whole is not None:
                return whole
        raise NotCopied(f"it changed while {PIECES_MAX} pieces of it were copied")

    async def _offsets(self, master: str, epoch: int) -> None:
        for _ in range(PIECES_MAX):
            answer = await self._asked(
                RequestCode.GET_ALL_CONSUMER_OFFSET, self._offset_copy.wanted, master, epoch
            )
            table = ConsumerOffsets.from_wire(fastjson.loads(answer.body, fastjson.TABLE_BYTES_MAX))
            self._note(CONSUMER_OFFSET_FILE, table.left_out)
            self._tables.offsets.adopt(table)
            if self._offset_copy.is_whole(answer.ext):
                return
        raise NotCopied(f"more than {PIECES_MAX} pieces")

    def _topics(self, text: bytes, epoch: int) -> None:
        here = self._tables.topics.text()
        if text in (here.stored(), here.page()):  # as it nearly always is, and it may be large
            return
        table = TopicTable.from_wire(fastjson.loads(text, TEXT_BYTES_MAX))
        self._note(TOPICS_FILE, table.left_out)
        self._adopt_topics(table, epoch)

    def _groups(self, text: bytes, epoch: int) -> None:
        if text == self._tables.groups.text():
            return
        table = SubscriptionGroups.from_wire(fastjson.loads(text, TEXT_BYTES_MAX))
        self._note(SUBSCRIPTION_GROUP_FILE, table.left_out)
        self._adopt_groups(table, epoch)

    def _note(self, table: str, names: tuple[str, ...]) -> None:
        self._tables.left_out.note(table, self._roles.master_address or "", names)


# What this broker serves from.
_OWN = (
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.REGENT_QUEUE_ENDS,
)
_OF_CLIENTS = RequestCode.REGENT_CLIENTS, RequestCode.REGENT_LOCKS
# What moves all the time, and what a new master repeats that lacks it.
_OFTEN = (
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_TIMER_CHECK_POINT,
    RequestCode.REGENT_ORDERED_POPS,
    *_OF_CLIENTS,
)
_PAGE: Mapping[int, Mapping[str, str]] = {
    RequestCode.GET_ALL_TOPIC_CONFIG: {"topicSeq": "0", "maxTopicNum": "2147483647"},
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {"groupSeq": "0", "maxGroupNum": "2147483647"},
}
