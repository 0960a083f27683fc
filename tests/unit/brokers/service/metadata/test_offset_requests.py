"""Offset requests, row by row of PROTOCOL 4.6."""

from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.tables.topics import TopicConfig
from tests.support.brokers import pull_request, send_request
from tests.support.client_service import Desk

QUEUE = {"consumerGroup": "cg", "topic": "T", "queueId": "0"}


def request(code: int, **fields: str) -> RemotingCommand:
    return RemotingCommand.request(code, QUEUE | fields)


async def test_bounds_times_and_searches_of_a_queue(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        for body in (b"a", b"b"):
            await desk.ask(send_request("T", body))
        stored_ms = desk.store.message_store_ms("T", 0, 0)
        assert (await desk.ask(request(30))).ext == {"offset": "2"}
        assert (await desk.ask(request(31))).ext == {"offset": "0"}
        assert (await desk.ask(request(32))).ext == {"timestamp": str(stored_ms)}
        assert (await desk.ask(request(29, timestamp=str(stored_ms)))).ext == {"offset": "0"}
        assert (await desk.ask(request(29, timestamp=str(2**60)))).ext == {"offset": "2"}
        assert (await desk.ask(request(29, timestamp=str(2**60), boundaryType="UPPER"))).ext == {
            "offset": "1"
        }


async def test_a_queue_never_written_is_empty(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        answers = [(await desk.ask(request(code))).ext for code in (30, 31, 32)]
        assert answers == [{"offset": "0"}, {"offset": "0"}, {"timestamp": "-1"}]


async def test_a_new_group_starts_at_zero_unless_it_asks_otherwise(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        assert (await desk.ask(request(14))).ext == {"offset": "0"}
        assert (await desk.ask(request(14, setZeroIfNotFound="false"))).code == 22


async def test_commits_need_a_topic_and_may_go_back(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(request(15, commitOffset="5"))).code == 17
        desk.tables.topics.put([TopicConfig("T", 4, 4)], 0)
        for offset in ("5", "3", "-1"):
            assert (await desk.ask(request(15, commitOffset=offset))).code == 0
        assert (await desk.ask(request(14))).ext == {"offset": "3"}
        table = fastjson.loads((await desk.ask(RemotingCommand.request(43))).body)
        assert isinstance(table, dict) and table["offsetTable"] == {"T@cg": {"0": 3}}


@pytest.mark.parametrize(
    "strange",
    [
        {"queueId": "99"},
        {"queueId": "-1"},
        {"queueId": "65534"},
        {"consumerGroup": "my.group"},
        {"consumerGroup": "g" * 256},
        {"consumerGroup": ""},
    ],
)
async def test_a_commit_for_what_cannot_be_takes_no_place(
    tmp_path: Path, strange: dict[str, str]
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        desk.tables.topics.put([TopicConfig("T", 4, 4)], 0)
        empty = desk.tables.offsets.text()
        assert (await desk.ask(request(15, commitOffset="5", **strange))).code == 29
        pulled = pull_request("T", 0, 0)
        pulled.ext |= strange | {"sysFlag": "5", "commitOffset": "7"}
        await desk.ask(pulled)
        assert desk.tables.offsets.text() == empty


async def test_what_a_pull_brings_is_committed_but_not_while_the_mastership_is_handed_over(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        for drains, offset in ((True, None), (False, 1)):
            desk.roles.drain(drains)
            pulled = pull_request("T", 0, 1)
            pulled.ext |= {"sysFlag": "5", "commitOffset": "1"}
            await desk.ask(pulled)
            assert desk.tables.offsets.query("cg", "T", 0) == offset


@pytest.mark.parametrize("code", [14, 15, 29, 30, 31, 32])
async def test_a_missing_field_is_answered(tmp_path: Path, code: int) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        assert (await desk.ask(RemotingCommand.request(code, {"topic": "T"}))).code == 1
