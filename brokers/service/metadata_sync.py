"""A slave copies its master's tables: topics, offsets, groups, what is kept for Java (`broker-wire-and-storage.md` 2.11).

Responsible for: asking 21, 43, 201, 45, 402, 61 and 60 every few seconds and at once after a change of master.
Refuses to know: what the tables are for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from brokers.log.json_files import CONSUMER_OFFSET_FILE, SUBSCRIPTION_GROUP_FILE, TOPICS_FILE
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import RemotingError
from brokers.service.offsets import ConsumerOffsets
from brokers.service.role_view import RoleView
from brokers.service.subscription_groups import SubscriptionGroups
from brokers.service.table_files import TableFiles
from brokers.service.topics import TopicTable

CALL_TIMEOUT_MS = 3_000

_log = logging.getLogger(__name__)


class MetadataSync:
    """`take_over_topics(table, master epoch)` is the one way a topic table gets in, `take_over_groups` the one of groups."""

    def __init__(
        self, tables: TableFiles, roles: RoleView, client: RemotingClient, period_ms: int,
        take_over_topics: Callable[[TopicTable, int], bool], take_over_groups: Callable[[SubscriptionGroups, int], None],
    ) -> None:  # fmt: skip
        self._tables, self._roles, self._client = tables, roles, client
        self._period_ms = period_ms
        self._take_over_topics, self._take_over_groups = take_over_topics, take_over_groups

    async def run(self) -> None:
        """For as long as the broker runs."""
        while True:
            master = self._roles.master_address
            if master is not None:
                await self.copy_from(master, self._roles.current.master_epoch)
            await self._roles.wait_change(self._period_ms)

    async def copy_from(self, master: str, epoch: int) -> str | None:
        """One round; what cannot be read is left for the next one. None when all is copied, else what is not, and why."""
        kept, refusal = self._tables.kept, None
        for code, take in (
            (RequestCode.GET_ALL_TOPIC_CONFIG, self._topics),
            (RequestCode.GET_ALL_CONSUMER_OFFSET, self._offsets),
            (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, self._groups),
            *((code, partial(kept.take_over, code)) for code in kept.codes),
        ):
            try:
                answer = await self._client.call(master, RemotingCommand.request(code, _PAGE.get(code)), CALL_TIMEOUT_MS)
                # A role that changed while the answer was under way has its own tables to mind.
                if not self._still_follows(epoch):
                    return f"it follows nobody in epoch {epoch}"
                if answer.code == ResponseCode.SUCCESS:
                    take(answer.body)
                elif code in _OWN:
                    refusal = f"table {code}: {answer.remark or answer.code}"
            except (RemotingError, ValueError, OSError) as error:
                _log.info("copying table %d from %s: %s", code, master, error)
                refusal = f"table {code}: {error}"
        return refusal

    def _still_follows(self, epoch: int) -> bool:
        return self._roles.role == "SLAVE" and self._roles.current.master_epoch == epoch

    def _topics(self, body: bytes) -> None:
        if body == self._tables.topics.text().page():  # as it nearly always is, and it may be large
            return
        table = TopicTable.from_wire(fastjson.loads(body, fastjson.TABLE_BYTES_MAX))
        self._note(TOPICS_FILE, table.left_out)
        self._take_over_topics(table, self._roles.current.master_epoch)

    def _offsets(self, body: bytes) -> None:
        table = ConsumerOffsets.from_wire(fastjson.loads(body, fastjson.TABLE_BYTES_MAX))
        self._note(CONSUMER_OFFSET_FILE, table.left_out)
        self._tables.offsets.take_over(table)

    def _groups(self, body: bytes) -> None:
        table = SubscriptionGroups.from_wire(fastjson.loads(body, fastjson.TABLE_BYTES_MAX))
        self._note(SUBSCRIPTION_GROUP_FILE, table.left_out)
        self._take_over_groups(table, self._roles.current.master_epoch)

    def _note(self, table: str, names: tuple[str, ...]) -> None:
        self._tables.left_out.note(table, self._roles.master_address or "", names)


# What this broker serves from. The others are kept for Java: an older master may not have them.
_OWN = (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
_PAGE = {
    RequestCode.GET_ALL_TOPIC_CONFIG: {"topicSeq": "0", "maxTopicNum": "2147483647"},
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {"groupSeq": "0", "maxGroupNum": "2147483647"},
}
