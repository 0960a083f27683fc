"""Ordered pops through requests: measured sequences of RocketMQ 5.3.3."""

import asyncio
from pathlib import Path

from brokers.remoting.command import RemotingCommand
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk
from tests.support.pops import Wheel, popped


async def opened(desk: Desk, messages: int = 5) -> None:
    desk.stand_at(0)
    desk.lead()
    for number in range(messages):
        await desk.ask(send_request("O", b"%d" % number, 0))
    Wheel(desk)


async def ordered(desk: Desk, attempt: str | None = None, **changes: object) -> RemotingCommand:
    more = {} if attempt is None else {"attemptId": attempt}
    ask = {"order": "true", "queueId": 0, "maxMsgNums": 3, "invisibleTime": 15_000}
    return await desk.ask(pop_request("O", "GO", **{**ask, **more, **changes}))


def bodies(got: list[Gotten]) -> list[bytes]:
    return [each.body for each in got]


async def code(desk: Desk, one: Gotten, **changes: object) -> int:
    answer = await desk.ask(ack_request(one.handle, "O", "GO", **changes))
    return answer.code


async def test_74_the_measured_sequence(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        first = await ordered(desk, "a1")
        assert bodies(gotten(first)) == [b"0", b"1", b"2"]
        assert (first.ext["reviveQid"], first.ext["orderCountInfo"]) == ("999", "0 0 0")
        again = await ordered(desk, "a1")
        assert bodies(gotten(again)) == [b"0", b"1", b"2"]
        assert again.ext["orderCountInfo"] == "0 0 0"
        assert (await ordered(desk, "a2")).code == (await ordered(desk)).code == 210
        one = gotten(again)
        assert await code(desk, one[1]) == await code(desk, one[0]) == 0
        changed = await desk.ask(
            ack_request(one[2].handle, "O", "GO", code=200053, invisibleTime=3_000)
        )
        assert (changed.code, changed.ext["reviveQid"]) == (0, "999")
        assert changed.ext["popTime"] == str(one[2].handle.pop_ms)
        assert 3_000 <= int(changed.ext["invisibleTime"]) < 15_000
        waiting = asyncio.ensure_future(ordered(desk, "a3", pollTime=40_000))
        await until(lambda: desk.service.popping.pops.waiting.count == 1, "it waits")
        desk.stand_at(3_100)
        third = await waiting
        assert bodies(gotten(third)) == [b"2", b"3", b"4"]
        assert third.ext["orderCountInfo"] == "0 qo0%2 1;0 0 0"


async def test_75_what_is_acknowledged_wrongly(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        got = gotten(await ordered(desk))
        old = got[0].handle
        assert await code(desk, got[0], offset=4) == 13
        desk.stand_at(20_000)
        await ordered(desk)
        assert await code(desk, got[1]) == 0  # of an older attempt
        assert desk.tables.offsets.query("GO", "O", 0) == 0
        assert old.revive_queue == 999


async def test_74_all_acknowledged_frees_the_queue_and_wakes_who_waits(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        got = gotten(await ordered(desk))
        waiting = asyncio.ensure_future(ordered(desk, pollTime=40_000))
        await until(lambda: desk.service.popping.pops.waiting.count == 1, "it waits")
        for each in got:
            assert await code(desk, each) == 0
        assert bodies(gotten(await waiting)) == [b"3", b"4"]


async def test_74_what_expires_comes_again_in_order(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        got = gotten(await ordered(desk))
        assert await code(desk, got[1]) == 0
        desk.stand_at(15_100)
        again = await ordered(desk)
        assert bodies(gotten(again)) == [b"0", b"1", b"2"]
        assert again.ext["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 qo0%2 1;0 0 1"


async def test_77_what_is_out_survives_a_restart_and_a_change_of_master(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        await ordered(desk)
        asked = await desk.ask(RemotingCommand.request(19017))
        await until(lambda: desk.tables.kept.table(19017), "it is told")
        asked = await desk.ask(RemotingCommand.request(19017))
        assert b'"O@GO"' in asked.body
    async with Desk(tmp_path) as desk:
        desk.lead(2)
        Wheel(desk)
        assert (await ordered(desk)).code == 210
        desk.stand_at(15_100)
        assert len(gotten(await ordered(desk))) == 3


async def test_77_a_new_master_that_does_not_know_what_is_out_passes_nothing_over(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        got = gotten(await ordered(desk))
        # given: the master died before it told anybody of this batch
        desk.service.popping.terms.ordered.take({})
        # when: a message is acknowledged behind one that is left
        assert await code(desk, got[1]) == 0
        # then: both come again
        assert bodies(gotten(await ordered(desk))) == [b"0", b"1", b"2"]


async def test_an_ordered_pop_of_all_queues_skips_blocked_ones(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        await ordered(desk)
        await desk.ask(send_request("O", b"other", 1))
        answer = await ordered(desk, queueId=-1)
        assert bodies(gotten(answer)) == [b"other"] and answer.ext["restNum"] == "0"
        assert await popped(desk, "O", "other", queueId=0)
