"""Administration of topics and groups, and the tables that slaves read."""

from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.tables.topics import TopicConfig, TopicTable
from tests.support.client_service import Desk

CREATE = {
    "topic": "T",
    "defaultTopic": "TBW102",
    "readQueueNums": "6",
    "writeQueueNums": "5",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
    "attributes": ("+message.type=NORMAL"),
}


async def test_a_topic_is_created_as_asked(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(RemotingCommand.request(17, CREATE))).code == 0
        assert desk.tables.topics.get("T") == TopicConfig(
            "T", 6, 5, attributes={"message.type": "NORMAL"}
        )
        assert desk.registrations == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "a b"}, 29),
        ({"topic": "TBW102"}, 29),
        ({"perm": "77"}, 29),
        ({"perm": "x"}, 1),
        ({"topic": None}, 1),
        ({"attributes": "bad"}, 29),
        ({"attributes": ("+queue.type=BatchCQ")}, 1),
        ({"attributes": "+cleanup.policy=COMPACTION"}, 1),
        ({"attributes": "+colour=red"}, 1),
        ({"attributes": "+queue.type=SimpleCQ,+reserve.time=5,-message.type"}, 0),
    ],
)
async def test_a_topic_that_cannot_be_is_refused(
    tmp_path: Path, change: dict[str, str | None], code: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        ext = {key: value for key, value in (CREATE | change).items() if value is not None}
        assert (await desk.ask(RemotingCommand.request(17, ext))).code == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (
            b'{"topicConfigList":[{"topicName":"A","perm":6},{"topicName":"B","readQueueNums":2}]}',
            0,
        ),
        (b"{}", 29),
        (b"x", 29),
        (b'{"topicConfigList":[{"topicName":"A","attributes":{"queue.type":"BatchCQ"}}]}', 1),
        (b'{"topicConfigList":[{"topicName":"TBW102"}]}', 29),
        (b'{"topicConfigList":[1]}', 29),
    ],
)
async def test_topics_are_created_by_list(tmp_path: Path, body: bytes, code: int) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(RemotingCommand.request(18, body=body))).code == code
        assert (desk.tables.topics.get("A") is not None) is (code == 0)


@pytest.mark.parametrize("topic", ["", "TBW102"])
async def test_system_topics_are_not_deleted(tmp_path: Path, topic: str) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(RemotingCommand.request(215, {"topic": topic}))).code == 29


async def test_groups_are_set_and_dumped(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (
            await desk.ask(
                RemotingCommand.request(200, body=(b'{"groupName":"g","retryMaxTimes":3}'))
            )
        ).code == 0
        assert (await desk.ask(RemotingCommand.request(200, body=b"[]"))).code == 29
        answer = await desk.ask(RemotingCommand.request(201))
        table = fastjson.loads(answer.body)
        assert isinstance(table, dict)
        groups = table["subscriptionGroupTable"]
        assert answer.ext == {"totalGroupNum": str(len(groups))}
        assert groups["g"]["retryMaxTimes"] == 3


async def test_tools_find_the_groups_that_every_broker_has_and_our_slaves_only_those_that_were_made(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        table = fastjson.loads((await desk.ask(RemotingCommand.request(201))).body)
        assert isinstance(table, dict) and "TOOLS_CONSUMER" in table["subscriptionGroupTable"]
        piece = (await desk.ask(RemotingCommand.request(201, {"regentTableFrom": "0"}))).body
        table = fastjson.loads(piece)
        assert isinstance(table, dict) and table["subscriptionGroupTable"] == {}


async def test_slaves_read_the_topics_with_their_version(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead(4)
        answer = await desk.ask(RemotingCommand.request(21, {"topicSeq": "0"}))
        assert answer.ext == {"totalTopicNum": str(len(desk.tables.topics.configs))}
        assert (
            TopicTable.from_wire(fastjson.loads(answer.body)).version == desk.tables.topics.version
        )
        assert desk.tables.topics.version.state_version == 4


@pytest.mark.parametrize(
    ("epoch", "body", "code"),
    [("1", b"{", 1), ("x", b"{}", 1), ("1", b'{"topicConfigTable":{}}', 14)],
)
async def test_a_pushed_table_that_cannot_be_taken_is_refused(
    tmp_path: Path, epoch: str, body: bytes, code: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (
            await desk.ask(RemotingCommand.request(19010, {"regentMasterEpoch": epoch}, body))
        ).code == code


async def test_60_several_groups_come_with_one_request(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        body = b'{"groupConfigList":[{"groupName":"a","retryMaxTimes":3},{"groupName":"b"}]}'
        assert (await desk.ask(RemotingCommand.request(225, body=body))).code == 0
        assert desk.tables.groups.retry_max("a") == 3 and desk.tables.groups.get("b") is not None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"groupConfigList":[]}',
        b'{"groupConfigList":[1]}',
        b'{"groupConfigList":[{"groupName":"a b"}]}',
        b'{"groupConfigList":[' + b'{"groupName":"a"},' * 1_000 + b'{"groupName":"a"}]}',
    ],
)
async def test_a_list_that_is_no_list_of_groups_is_refused(tmp_path: Path, body: bytes) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(RemotingCommand.request(225, body=body))).code == 29
        assert desk.tables.groups.names() == []
