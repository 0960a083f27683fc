"""Peeks and notifications: what a pop would get, and that nothing is taken."""

import asyncio
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import decode_messages
from infra.features.pop_requests import pop_request
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk
from tests.support.pops import Wheel, popped


def asking(code: int, **changes: object) -> RemotingCommand:
    request = pop_request(**changes)
    return RemotingCommand.request(code, request.ext)


async def opened(desk: Desk, messages: int) -> None:
    desk.stand_at(0)
    desk.lead()
    for number in range(messages):
        await desk.ask(send_request("T", b"%d" % number, number % 2))
    Wheel(desk)


async def has_message(desk: Desk, **changes: object) -> str:
    answer = await desk.ask(asking(200054, **changes))
    assert answer.code == 0 and answer.ext["pollingFull"] == "false"
    return answer.ext["hasMsg"]


async def test_a_peek_takes_nothing(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 5)
        for _ in range(2):
            answer = await desk.ask(asking(200052, maxMsgNums=4))
            assert len(decode_messages(answer.body)) == 4 and answer.ext == {"restNum": "1"}
        assert len(await popped(desk)) == 5
        assert (await desk.ask(asking(200052))).code == 19
        desk.stand_at(15_000)
        await until(lambda: desk.service.popping.revive.revived == 5, "they came back")
        answer = await desk.ask(asking(200052))
        assert {each.fields.topic for each in decode_messages(answer.body)} == {"%RETRY%g_T"}


async def test_73_a_notification_says_at_once_what_is_there(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 1)
        assert await has_message(desk, pollTime=20_000) == "true"
        assert desk.tables.groups.get("g") is None
        await popped(desk)
        assert await has_message(desk) == await has_message(desk, pollTime=100) == "false"
        desk.service.popping.peeks.waiting.hold = lambda _: False  # type: ignore[method-assign]
        assert (await desk.ask(asking(200054, pollTime=9_000))).ext["pollingFull"] == "true"


@pytest.mark.parametrize("back", [False, True])
async def test_73_a_notification_comes_with_a_message(tmp_path: Path, back: bool) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 1)
        await popped(desk)
        asked = asyncio.ensure_future(has_message(desk, pollTime=40_000))
        await until(lambda: desk.service.popping.peeks.waiting.count == 1, "it waits")
        if back:
            desk.stand_at(15_000)
        else:
            await desk.ask(send_request("T", b"new", 1))
        assert await asked == "true"


async def test_73_a_blocked_queue_counts_as_nothing_until_it_is_free(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 5)
        for queue_id in (0, 1):
            await popped(desk, order="true", queueId=queue_id, maxMsgNums=1)
        assert await has_message(desk, order="true") == "false"
        assert await has_message(desk) == "true"
        asked = asyncio.ensure_future(has_message(desk, order="true", pollTime=40_000))
        await until(lambda: desk.service.popping.peeks.waiting.count == 1, "it waits")
        desk.stand_at(10_100)
        assert await asked == "true"


@pytest.mark.parametrize("code", [200052, 200054])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"topic": "nobody"}, 17), ({"queueId": 9}, 29), ({"queueId": "x"}, 1)],
)
async def test_what_cannot_be_read_is_refused(
    tmp_path: Path, code: int, changes: dict[str, object], expected: int
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 1)
        assert (await desk.ask(asking(code, **changes))).code == expected
        desk.tables.groups.put({"groupName": "g", "consumeEnable": False}, 0)
        assert (await desk.ask(asking(code))).code == 16
