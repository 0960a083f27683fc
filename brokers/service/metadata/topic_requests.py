"""Serving the administration of topics and groups: 17, 18, 215, 200, 225, and the tables 21, 201,
19010, 19013.

Responsible for: these answers (PROTOCOL 2.11, 4.10). Refuses to know: how a
change is made known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.fields import BadField, flag, number, text
from brokers.service.metadata.group_changes import GroupChanges
from brokers.service.metadata.table_pieces import FROM, table_piece, whole_table
from brokers.service.metadata.topic_changes import TopicChanges
from brokers.service.role.services import Served, Service, Where
from brokers.service.sending.request import Refusal
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.subscription_groups import SubscriptionGroups
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import (
    SYSTEM_TOPICS,
    TopicConfig,
    TopicTable,
    attribute_refusal,
    name_refusal,
)

TOPICS_PER_REQUEST_MAX = 10_000
GROUPS_PER_REQUEST_MAX = 1_000


class TopicRequests(Service):
    """The administration of one broker's tables. `with_it(topic)`: topics that go with one that is
    deleted.
    """

    def __init__(
        self,
        tables: TableFiles,
        changes: TopicChanges,
        groups: GroupChanges,
        with_it: Callable[[str], Iterable[str]] = lambda _: (),
    ) -> None:
        self._with_it = with_it
        self._tables = tables
        self._changes = changes
        self._groups = groups

    def serves(self) -> dict[int, Served]:
        """Changes are the master's, tables are everybody's."""
        changes = {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.create,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.create_list,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put_group,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self.put_groups,
        }
        return {
            **{code: Served(act, Where.MASTER, writes=True) for code, act in changes.items()},
            RequestCode.GET_ALL_TOPIC_CONFIG: Served(self.dump_topics, Where.TABLE),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Served(self.dump_groups, Where.TABLE),
            RequestCode.REGENT_PUSH_TOPICS: Served(self.adopt, Where.FOR_REPLICAS),
            RequestCode.REGENT_PUSH_GROUPS: Served(self.take_groups, Where.FOR_REPLICAS),
        }

    def mastership_begins(self) -> None:
        self._changes.mastership_begins()

    async def create(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """17."""
        try:
            config = _config_of(request.ext)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        except ValueError as error:
            return request.reply(ResponseCode.INVALID_PARAMETER, remark=str(error))
        return await self._put(request, [config])

    async def create_list(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """18."""
        try:
            fields = fastjson.loads(request.body, fastjson.TABLE_BYTES_MAX)
            rows = fields.get("topicConfigList") if isinstance(fields, Mapping) else None
            if not isinstance(rows, list) or not 0 < len(rows) <= TOPICS_PER_REQUEST_MAX:
                raise ValueError(f"the body holds no list of 1 to {TOPICS_PER_REQUEST_MAX} topics")
            configs = [
                TopicConfig.from_wire(row if isinstance(row, Mapping) else {}) for row in rows
            ]
        except ValueError as error:
            return request.reply(ResponseCode.INVALID_PARAMETER, remark=str(error))
        if any(config.name in SYSTEM_TOPICS for config in configs):
            return request.reply(
                ResponseCode.INVALID_PARAMETER, remark=("the list holds a system topic")
            )
        return await self._put(request, configs)

    async def _put(self, request: RemotingCommand, configs: list[TopicConfig]) -> RemotingCommand:
        for config in configs:
            if reason := attribute_refusal(config.attributes):
                return request.reply(
                    ResponseCode.SYSTEM_ERROR, remark=(f"topic {config.name}: {reason}")
                )
        return _answered(request, await self._changes.put(configs))

    async def delete(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """215."""
        topic = request.ext.get("topic", "")
        if not topic or topic in SYSTEM_TOPICS:
            return request.reply(
                ResponseCode.INVALID_PARAMETER, remark=(f"topic {topic!r} cannot be deleted")
            )
        for name in self._with_it(topic):
            if (refused := await self._changes.delete(name)) is not None:
                return _answered(request, refused)
        return _answered(request, await self._changes.delete(topic))

    async def put_group(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """200."""
        try:
            fields = fastjson.loads(request.body)
            if not isinstance(fields, Mapping):
                raise ValueError("the body is no object")
            return _answered(request, await self._groups.put(fields))
        except ValueError as error:
            return request.reply(ResponseCode.INVALID_PARAMETER, remark=str(error))

    async def put_groups(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """225: several groups; the first one that cannot be is the answer, and those in front of it
        are kept.
        """
        try:
            fields = fastjson.loads(request.body)
            rows = fields.get("groupConfigList") if isinstance(fields, Mapping) else None
            if not isinstance(rows, list) or not 0 < len(rows) <= GROUPS_PER_REQUEST_MAX:
                raise ValueError(f"the body holds no list of 1 to {GROUPS_PER_REQUEST_MAX} groups")
            for row in rows:
                if not isinstance(row, Mapping):
                    raise ValueError("a group that is no object")
                if (refused := await self._groups.put(row)) is not None:
                    return _answered(request, refused)
        except ValueError as error:
            return request.reply(ResponseCode.INVALID_PARAMETER, remark=str(error))
        return request.reply()

    def dump_topics(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """21: all topics in one page, whatever page was asked for; to our slaves in pieces, with
        the queues that were dropped.
        """
        topics = self._tables.topics
        if FROM in request.ext:
            return table_piece(request, topics.text().stored())
        return whole_table(
            request, topics.text().page(), {"totalTopicNum": str(len(topics.configs))}
        )

    def dump_groups(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """201: all groups in one page, the system's own among them; to our slaves in pieces, as
        they are.
        """
        groups = self._tables.groups
        if FROM in request.ext:
            return table_piece(request, groups.text())
        page, count = groups.page()
        return whole_table(request, page, {"totalGroupNum": str(count)})

    async def adopt(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """19010, from the master: success means that the table is on this replica's disk. A body
        without topics, only a version, asks whether those here are the same; 22 when not. An older
        table is not taken, and not said to be held unless it is equal.
        """
        try:
            epoch = number(request.ext, "regentMasterEpoch")
            table = self._pushed(request)
            if table is None:
                return request.reply(
                    ResponseCode.QUERY_NOT_FOUND, remark=("this replica holds other topics")
                )
            taken = self._changes.adopt(table, epoch)
            await self._tables.topics_file.until_saved()
        except (BadField, ValueError, OSError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if not taken:
            newer = {"regentTopicsCounter": str(self._tables.topics.version.counter)}
            remark = (
                "this replica follows a newer master, leads, or holds other topics of a later "
                "version"
            )
            return request.reply(ResponseCode.SERVICE_NOT_AVAILABLE, newer, remark=remark)
        return request.reply()

    async def take_groups(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """19013, from the master: success means that these groups are on this replica's disk, with
        these settings.
        """
        try:
            epoch = number(request.ext, "regentMasterEpoch")
            taken = await self._groups.take_push(
                SubscriptionGroups.from_wire(fastjson.loads(request.body)), epoch, request.ext
            )
        except (BadField, ValueError, OSError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if not taken:
            remark = "this replica follows a newer master, leads, or has newer settings"
            return request.reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark=remark)
        return request.reply()

    def _pushed(self, request: RemotingCommand) -> TopicTable | None:
        """The master's table; `ValueError` when the body is none, None when it is only named and
        not the one here.
        """
        fields, mine = fastjson.loads(request.body, fastjson.TABLE_BYTES_MAX), self._tables.topics
        if (
            isinstance(fields, Mapping)
            and "topicConfigTable" not in fields
            and "regentTopicsDigest" in request.ext
        ):
            same = request.ext["regentTopicsDigest"] == mine.text().digest
            return (
                TopicTable(mine.configs.values(), DataVersion.from_wire(fields)) if same else None
            )
        return TopicTable.from_wire(fields)


def _answered(request: RemotingCommand, refused: Refusal | None) -> RemotingCommand:
    return (
        request.reply() if refused is None else request.reply(refused.code, remark=refused.remark)
    )


def _config_of(ext: Mapping[str, str]) -> TopicConfig:
    """The topic a 17 asks for; `ValueError` for a name or attribute that cannot be."""
    topic = text(ext, "topic")
    reason = name_refusal(topic)
    if reason is not None or topic in SYSTEM_TOPICS:
        raise ValueError(reason or f"{topic} is a system topic")
    read, write, perm = (
        number(ext, "readQueueNums"),
        number(ext, "writeQueueNums"),
        number(ext, "perm"),
    )
    fields = {
        "topicName": topic,
        "readQueueNums": read,
        "writeQueueNums": write,
        "perm": perm,
        "topicSysFlag": number(ext, "topicSysFlag", 0),
        "order": flag(ext, "order"),
        "topicFilterType": text(ext, "topicFilterType"),
        "attributes": _attributes(ext.get("attributes", "")),
    }
    return TopicConfig.from_wire(fields)


def _attributes(value: str) -> dict[str, str]:
    """`+key=value` entries; `-key` removes, which a whole configuration does by leaving out."""
    attributes = {}
    for entry in filter(None, value.split(",")):
        key, separator, content = entry[1:].partition("=")
        if entry[0] == "+" and separator and key:
            attributes[key] = content
        elif entry[0] != "-":
            raise ValueError(f"attribute {entry[:80]!r} does not begin with + or -")
    return attributes
