"""A changeover is cut off by the death of the master, and slaves act for it: whoever leads next
delivers nothing a second time, and loses no place.

The controller's part is scripted. The processes of the set live here; a kill is a stop, and the
files that it would have left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brokers.changeover.order import Kind, Lines, Order, Record
from brokers.process.changeover.folder import read_cut_off, write_record
from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.store.log.records import decode_messages
from tests.support.brokers import broker_config, pull_request, send_request
from tests.support.moved_set import ACTING, CALL_MS, PATIENT, Lives, MovedSet, orders, until
from tests.support.scripted_controller import ScriptedController

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
EACH, LEVEL = 5, 4  # 30 s: the set is copied and its master away by then
COMMITTED = 3


class Stage:
    """A set whose slaves act, and another one that takes what is due meanwhile."""

    def __init__(
        self, folder: Path, name_server: str, client: RemotingClient, controller: ScriptedController
    ) -> None:
        more = {**ACTING, "enable_remote_escape": True, "in_sync_replicas": 1}
        self.client, self.controller = client, controller
        self.set = MovedSet(folder, name_server, client, **more)
        beside = {**PATIENT, "broker_name": "broker-b", "in_sync_replicas": 1}
        self.other = Lives(
            broker_config(folder / "other", [], [name_server], broker_id=0, **beside)
        )

    async def ask(self, one: Lives, request: RemotingCommand) -> RemotingCommand:
        answer = await self.client.call(one.address, request, CALL_MS)
        assert answer.code == 0, answer.remark
        return answer

    async def leads(self, one: Lives) -> bool:
        look = await self.set.ask(one.address, "look")
        return look is not None and bool(look["serving"])

    async def stands(self) -> None:
        for one in (*self.set.brokers, self.other):
            one.begin()
        await until(lambda: self.set.stands("fixed"), "the set stands")
        await until(self.set.linked, "both slaves are linked")
        await self.ask(self.other, send_request("T", b"first"))

    async def delayed(self, master: Lives) -> None:
        """Messages wait at the master, and every slave has them."""
        for number in range(EACH):
            request = send_request("T", b"%d" % number)
            request.ext["i"] += f"DELAY\x01{LEVEL}\x02"
            await self.ask(master, request)

        async def copied() -> bool:
            looks = await self.set.looks()
            tables = [
                await self.ask(one, RemotingCommand.request(RequestCode.GET_ALL_TOPIC_CONFIG))
                for one in self.set.brokers
            ]
            same = len({one["log_end"] for one in looks}) == 1 and len(looks) == 3
            return same and all(b'"T"' in one.body for one in tables)

        await until(copied, "the slaves have all")

    async def bodies(self, one: Lives) -> list[bytes]:
        """All of topic T there but the first message."""
        found: list[bytes] = []
        for queue_id in range(4):
            offset = 0
            while True:
                request = pull_request("T", queue_id, offset)
                answer = await self.client.call(one.address, request, CALL_MS)
                if answer.code:
                    break
                records = decode_messages(answer.body)
                found += [bytes(record.fields.body) for record in records]
                offset = records[-1].queue_offset + 1
        return [body for body in found if body != b"first"]

    async def acted(self) -> None:
        """A slave has delivered what was due, and taken a consumer's place."""

        async def all_there() -> bool:
            return len(set(await self.bodies(self.other))) == EACH

        await until(all_there, "what was due is in the other set")
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0", "commitOffset": str(COMMITTED)}
        commit = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        for one in self.set.brokers:
            try:
                answer = await self.client.call(one.address, commit, CALL_MS)
            except RemotingError:
                continue
            if answer.code == 0:
                return
        raise AssertionError("nobody acts")

    async def place(self, one: Lives) -> int:
        """How far the level is delivered."""
        request = RemotingCommand.request(RequestCode.GET_ALL_DELAY_OFFSET)
        body: Any = fastjson.loads((await self.ask(one, request)).body)
        return int(body["offsetTable"].get(str(LEVEL), 0))

    async def went_on(self, master: Lives) -> None:
        """Nothing is done again, and the consumer goes on where it was."""
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
        query = RemotingCommand.request(RequestCode.QUERY_CONSUMER_OFFSET, ext)
        answer = await self.ask(master, query)
        assert answer.ext["offset"] == str(COMMITTED)

        async def delivered() -> bool:
            return await self.place(master) >= EACH

        await until(delivered, "the master is behind all that was due")
        assert not await self.bodies(master)
        assert set(await self.bodies(self.other)) == {b"%d" % key for key in range(EACH)}


@pytest.fixture
async def stage(
    tmp_path: Path, name_server: str, client: RemotingClient, controller: ScriptedController
) -> AsyncIterator[Stage]:
    controller.epoch = controller.set_epoch = 1
    made = Stage(tmp_path, name_server, client, controller)
    await made.stands()
    yield made
    for one in (*made.set.brokers, made.other):
        await one.end()


def alone(found: list[Order]) -> list[Order]:
    """One copy is enough: the set serves before the others are back."""
    return [replace(one, copies=1) for one in found]


async def dies_giving_up(stage: Stage) -> Lives:
    master = stage.set.brokers[0]
    await stage.delayed(master)
    adopting = alone(
        orders(stage.set, master.address, Kind.CONTROLLERS, (stage.controller.address,))
    )
    assert await master.end() == 0
    record = Record(adopting[0], Lines(0), orders=tuple(adopting), acts=True)
    write_record(master.config.store_dir, record)
    return master


async def dies_when_others_left(stage: Stage) -> Lives:
    first = stage.set.brokers[0].address
    await stage.set.begin(
        alone(orders(stage.set, first, Kind.CONTROLLERS, (stage.controller.address,)))
    )
    await until(lambda: stage.set.stands("controllers"), "the set is with controllers")
    await until(lambda: stage.controller.members == [1, 2, 3], "all are members")
    led = await stage.set.leader()
    master = next(one for one in stage.set.brokers if one.address == led)
    await stage.delayed(master)
    record = master.config.store_dir / "placeInSet"
    record.rename(record.with_name("kept"))
    record.mkdir()  # what it would write last cannot be written: it dies before
    releasing = alone(orders(stage.set, led, Kind.FIXED, ()))
    body = fastjson.dumps([one.document() for one in releasing])
    request = RemotingCommand.request(19018, {"word": "begin"}, body)

    async def left() -> bool:
        answer = await stage.client.call(led, request, CALL_MS)
        assert answer.code == 1
        return "cannot be written" in str(answer.remark)

    await until(left, "the others have left the controllers")
    assert await master.end() == 0
    record.rmdir()
    record.with_name("kept").rename(record)
    assert read_cut_off(master.config.store_dir)
    return master


@pytest.mark.parametrize("dies", [dies_giving_up, dies_when_others_left], ids=["adopt", "release"])
async def test_who_leads_behind_a_cut_off_changeover_goes_on_where_a_slave_was_that_acted(
    stage: Stage, dies: Callable[[Stage], Awaitable[Lives]]
) -> None:
    master = await dies(stage)
    await stage.acted()
    master.begin()
    await until(lambda: stage.leads(master), "it leads again")
    await stage.went_on(master)
    if dies is dies_giving_up:
        await until(lambda: stage.set.stands("controllers"), "it tells the others by itself")


async def test_a_slave_that_acted_and_is_away_meanwhile_is_waited_for(stage: Stage) -> None:
    master = await dies_giving_up(stage)
    await stage.acted()
    slaves = stage.set.brokers[1:]
    for one in slaves:
        await one.end()
    master.begin()
    await until(lambda: stage.controller.master == 1, "it is elected")
    look = await stage.set.ask(master.address, "look")
    assert look is not None and not look["serving"]
    for one in slaves:
        one.begin()
    await until(lambda: stage.leads(master), "it leads")
    await stage.went_on(master)
    await until(lambda: stage.set.stands("controllers"), "both follow")
