"""Pulls on a master: permissions, holding, waking."""

import asyncio
from pathlib import Path

import pytest

from brokers.log.records import decode_messages
from brokers.remoting.command import RemotingCommand
from brokers.service.topics import TopicConfig
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk


@pytest.mark.parametrize(
    ("change", "code"),
    [({"topic": "absent"}, 17), ({"queueId": "9"}, 29), ({"queueId": "-1"}, 29), ({"topic": "W"}, 16), ({"consumerGroup": "off"}, 16),
     ({"queueOffset": "x"}, 1), ({"expressionType": "SQL92", "subscription": "a > 1"}, 23), ({"sysFlag": "0"}, 24)],
)  # fmt: skip
async def test_pulls_that_cannot_be_served_are_refused(tmp_path: Path, change: dict[str, str], code: int) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        desk.tables.topics.put([TopicConfig("T", 4, 4), TopicConfig("W", 4, 4, perm=2)], 0)
        desk.tables.groups.put({"groupName": "off", "consumeEnable": False}, 0)
        request = pull_request("T", 0, 0)
        request.ext.update(change)
        assert (await desk.ask(request)).code == code


async def test_an_offset_beyond_the_queue_is_moved_back(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        answer = await desk.ask(pull_request("T", 0, 7))
        assert (answer.code, answer.ext["nextBeginOffset"]) == (21, "1")


async def test_a_consumer_ahead_of_a_new_masters_confirm_offset_waits(tmp_path: Path) -> None:
    """What the old master confirmed, a new one confirms again: until then nobody's offset is reset."""
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        desk.confirm_at_once = False
        send = asyncio.ensure_future(desk.ask(send_request("T", b"y")))
        await until(lambda: desk.waits, "the second message is written")
        answer = await desk.ask(pull_request("T", 0, 2))
        assert (answer.code, answer.ext["nextBeginOffset"]) == (19, "2")
        held = asyncio.ensure_future(desk.ask(pull_request("T", 0, 1, suspend_ms=30_000)))
        await until(lambda: desk.service.pulls.held.count == 1, "the pull is held")
        desk.confirm()
        assert (await held).code == 0 and (await send).code == 0


async def test_an_offset_is_committed_on_the_way(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        request = pull_request("T", 0, 0)
        request.ext |= {"sysFlag": "5", "commitOffset": "1"}
        await desk.ask(request)
        assert desk.tables.offsets.query("cg", "T", 0) == 1


async def test_the_subscription_of_the_heartbeat_counts(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        for tag in ("A", "B"):
            await desk.ask(send_request("T", tag.encode(), tags=tag))
        body = b'{"clientID":"c","consumerDataSet":[{"groupName":"cg","subscriptionDataSet":[{"topic":"T","subString":"B","codeSet":[66],"subVersion":5}]}]}'
        await desk.ask(RemotingCommand.request(34, body=body))
        request = pull_request("T", 0, 0)
        request.ext["sysFlag"] = "0"
        assert [each.fields.body for each in decode_messages((await desk.ask(request)).body)] == [b"B"]
        request.ext["subVersion"] = "6"
        assert (await desk.ask(request)).code == 25


async def test_the_end_of_a_mastership_answers_held_pulls(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        held = asyncio.ensure_future(desk.ask(pull_request("T", 0, 1, suspend_ms=30_000)))
        await until(lambda: desk.service.pulls.held.count == 1, "the pull is held")
        desk.follow("127.0.0.1:1", 2)
        assert (await held).code == 19


async def test_a_message_of_another_tag_lets_a_held_pull_move_on(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"a", tags="A"))
        held = asyncio.ensure_future(desk.ask(pull_request("T", 0, 1, suspend_ms=30_000, subscription="B")))
        await until(lambda: desk.service.pulls.held.count == 1, "the pull is held")
        await desk.ask(send_request("T", b"a", tags="A"))
        answer = await held
        assert (answer.code, answer.ext["nextBeginOffset"]) == (20, "2")
