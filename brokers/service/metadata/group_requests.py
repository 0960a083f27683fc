"""What operators do with whole groups: 207, 314, 353 (PROTOCOL 4.10).

Responsible for: deleting one, copying its offsets, what it may not read.
Refuses to know: how a change is made known, connected clients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from brokers.clock import Clock
from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.fields import BadField, flag, reading_fields, text
from brokers.service.metadata.group_changes import GroupChanges
from brokers.service.role.services import Served, Service, Where
from brokers.service.tables.pending_resets import PendingResets
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import RETRY_PREFIX


class GroupRequests(Service):
    """`forget(group)`: what else is known of a group that is gone; `subscribed(group)`: topics of
    its connected clients.
    """

    def __init__(
        self,
        tables: TableFiles,
        changes: GroupChanges,
        clock: Clock,
        pending: PendingResets,
        forget: Callable[[str], None],
        subscribed: Callable[[str], Collection[str]],
    ) -> None:
        self._tables = tables
        self._changes = changes
        self._clock = clock
        self._pending = pending
        self._forget = forget
        self._subscribed = subscribed

    def serves(self) -> dict[int, Served]:
        """The master's: groups and offsets are."""
        return {
            RequestCode.DELETE_SUBSCRIPTIONGROUP: Served(self.delete, Where.MASTER, writes=True),
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: Served(
                self.forbid, Where.MASTER, writes=True
            ),
            RequestCode.CLONE_GROUP_OFFSET: Served(
                reading_fields(self._clone), Where.MASTER, writes=True
            ),
        }

    async def delete(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """207: done, also for a group that nobody knows."""
        try:
            group = text(request.ext, "groupName")
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        with_offsets = flag(request.ext, "cleanOffset")
        if with_offsets:
            self._pending.forget_group(group)
            self._forget(group)
        refused = await self._changes.remove(group, with_offsets=with_offsets)
        if refused is not None:
            return request.reply(refused.code, remark=refused.remark)
        return request.reply()

    async def forbid(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """353: whether a group may read a topic, after `readable` where it is said."""
        try:
            group, topic = text(request.ext, "group"), text(request.ext, "topic")
            readable = request.ext.get("readable", "")
            if readable and self._tables.groups.get(group) is None:
                return request.reply(
                    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=f"Group {group} not exist!"
                )
            if readable:
                refused = await self._changes.forbid(group, topic, readable.lower() == "true")
                if refused is not None:
                    return request.reply(refused.code, remark=refused.remark)
        except (BadField, ValueError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        now = self._tables.groups.may_read(group, topic)
        body = {"group": group, "readable": now, "topic": topic}
        return request.reply(body=fastjson.dumps(body), remark="")

    def _clone(self, request: RemotingCommand) -> RemotingCommand:
        """314: the places of one group become another one's, but for retry topics, and for what
        clients of the other one read now, unless `offline` says that there are none.
        """
        ext = request.ext
        source, target = text(ext, "srcGroup"), text(ext, "destGroup")
        offsets = self._tables.offsets
        one = ext.get("topic", "")
        read_now = () if flag(ext, "offline") else self._subscribed(target)
        for topic in [one] if one else offsets.topics_of(source):
            if self._tables.topics.get(topic) is None:
                continue
            if topic.startswith(RETRY_PREFIX) or topic in read_now:
                continue
            for queue_id, place in offsets.of(source, topic).items():
                if not offsets.commit(target, topic, queue_id, place, self._clock.wall_ms()):
                    return request.reply(
                        ResponseCode.SYSTEM_ERROR,
                        remark=f"{target} takes no offset of queue {queue_id} of {topic}",
                    )
        return request.reply()
