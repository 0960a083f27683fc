"""Pulls on a master: permissions, holding, waking."""

import asyncio
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.service.reading.pull import LOOKED_AT_TOGETHER_MAX
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.records import decode_messages
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "absent"}, 17),
        ({"queueId": "9"}, 29),
        ({"queueId": "-1"}, 29),
        ({"topic": "W"}, 16),
        ({"consumerGroup": "off"}, 16),
        ({"queueOffset": "x"}, 1),
        ({"expressionType": "SQL92", "subscription": "a >"}, 23),
        ({"expressionType": "SQL92", "subscription": ""}, 23),
        ({"expressionType": "SQL99", "subscription": "a > 1"}, 23),
        ({"sysFlag": "0"}, 24),
    ],
)
async def test_pulls_that_cannot_be_served_are_refused(
    tmp_path: Path, change: dict[str, str], code: int
) -> None:
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
    """What the old master confirmed, a new one confirms again: until then nobody's offset is
    reset.
    """
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        desk.confirm_at_once = False
        send = asyncio.ensure_future(desk.ask(send_request("T", b"y")))
        await until(lambda: desk.waits, "the second message is written")
        desk.lead(epoch=2)
        answer = await desk.ask(pull_request("T", 0, 2))
        assert (answer.code, answer.ext["nextBeginOffset"]) == (19, "2")
        held = asyncio.ensure_future(desk.ask(pull_request("T", 0, 1, suspend_ms=30_000)))
        await until(lambda: desk.service.pulls.held.count == 1, "the pull is held")
        desk.confirm()
        assert (await held).code == 0 and (await send).code == 0


async def test_who_waits_beyond_all_that_the_old_master_had_is_moved_back_before_new_messages_come(
    tmp_path: Path,
) -> None:
    """It would get the message at its place and miss those before it."""
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        desk.confirm_at_once = False
        first = asyncio.ensure_future(desk.ask(send_request("T", b"y")))
        await until(lambda: desk.waits, "the second message is written")
        desk.lead(epoch=2)
        pulls = [pull_request("T", 0, place, suspend_ms=30_000) for place in (2, 4)]
        pulls[1].ext["consumerGroup"] = "beyond"
        held = [asyncio.ensure_future(desk.ask(one)) for one in pulls]
        await until(lambda: desk.service.pulls.held.count == 2, "the pulls are held")
        more = [asyncio.ensure_future(desk.ask(send_request("T", b"z"))) for _ in range(5)]
        await until(
            lambda: desk.store.log_end == 7 * desk.store.confirm_offset, "five more are written"
        )
        desk.confirm_at_once = True
        desk.confirm()  # all in one step
        moved = await held[1]
        assert (moved.code, moved.ext["nextBeginOffset"]) == (21, "2")
        assert [each.queue_offset for each in decode_messages((await held[0]).body)] == [
            2,
            3,
            4,
            5,
            6,
        ]
        assert [answer.code for answer in await asyncio.gather(first, *more)] == [0] * 6


async def test_an_offset_beyond_the_queue_is_moved_back_also_while_sends_are_under_way(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        for _ in range(5):
            await desk.ask(send_request("T", b"x"))
        desk.confirm_at_once = False
        sends = [asyncio.ensure_future(desk.ask(send_request("T", b"y"))) for _ in range(4)]
        await until(
            lambda: desk.store.confirm_offset < desk.store.log_end,
            "messages are written and not confirmed",
        )
        moved = await desk.ask(pull_request("T", 0, 8, suspend_ms=20_000))
        assert (moved.code, moved.ext["nextBeginOffset"], moved.ext["maxOffset"]) == (21, "5", "5")
        await until(lambda: len(desk.waits) >= 1, "the sends wait")
        desk.confirm_at_once = True
        desk.confirm()
        assert [answer.code for answer in await asyncio.gather(*sends)] == [0] * 4
        got = await desk.ask(pull_request("T", 0, 5))
        assert [each.fields.body for each in decode_messages(got.body)] == [b"y"] * 4


async def test_a_newer_pull_of_the_same_asker_answers_the_older_and_those_of_others_stay(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        other = pull_request("T", 0, 1, suspend_ms=30_000)
        other.ext["consumerGroup"] = "other"
        passed_on = pull_request("T", 0, 1, suspend_ms=30_000)
        passed_on.ext["regentForwardedFor"] = "10.0.0.9:1"
        waits = [
            asyncio.ensure_future(desk.ask(one))
            for one in (pull_request("T", 0, 1, suspend_ms=30_000), other, passed_on)
        ]
        await until(lambda: desk.service.pulls.held.count == 3, "three pulls are held")
        newer = asyncio.ensure_future(desk.ask(pull_request("T", 0, 1, suspend_ms=30_000)))
        assert (await waits[0]).code == 19
        await until(
            lambda: desk.service.pulls.held.count == 3, "the newer one is held in its place"
        )
        assert not any(one.done() for one in (newer, *waits[1:]))
        await desk.ask(send_request("T", b"y"))
        assert [answer.code for answer in await asyncio.gather(newer, *waits[1:])] == [0, 0, 0]


async def test_many_held_pulls_are_woken_in_slices_so_that_others_are_served_between(
    tmp_path: Path,
) -> None:
    count = 3 * LOOKED_AT_TOGETHER_MAX
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"x"))
        requests = [pull_request("T", 0, 1, suspend_ms=30_000) for _ in range(count)]
        for number, request in enumerate(requests):
            request.ext["consumerGroup"] = f"g{number}"
        waits = [asyncio.ensure_future(desk.ask(request)) for request in requests]
        await until(lambda: desk.service.pulls.held.count == count, "all are held")
        answered = []
        desk.service.pulls._answer = lambda reader, result: answered.append(reader)  # type: ignore[method-assign]
        desk.service.pulls.dispatched("T", 0, 2)
        assert desk.service.pulls.held.count + count - LOOKED_AT_TOGETHER_MAX <= count
        turns = 0
        while desk.service.pulls.held.count < count and turns < 100:
            turns += 1
            await asyncio.sleep(0)
        # nothing new came: each is held again, a slice in each turn
        assert turns >= 2 and not answered
        for wait in waits:
            wait.cancel()


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
        body = (
            b'{"clientID":"c","consumerDataSet":[{"groupName":"cg","subscriptionDataSet":[{"topic":'
            b'"T","subString":"B","codeSet":[66],"subVersion":5}]}]}'
        )
        await desk.ask(RemotingCommand.request(34, body=body))
        request = pull_request("T", 0, 0)
        request.ext["sysFlag"] = "0"
        assert [each.fields.body for each in decode_messages((await desk.ask(request)).body)] == [
            b"B"
        ]
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
