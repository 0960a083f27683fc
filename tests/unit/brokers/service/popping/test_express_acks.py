"""Acknowledgements that are taken together: the same log and the same answers as one by one."""

import asyncio
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.replica.waiters import Confirmation
from brokers.service.popping import express_acks
from brokers.service.popping.express_acks import ExpressAcks
from brokers.store.log.records import decode_messages
from infra.features.pop_requests import Gotten, ack_request
from tests.support.brokers import send_request, until
from tests.support.pops import Stage, popped

IN_1_H = {"invisibleTime": 3_600_000}


def only_long(desk: Stage) -> None:
    """The short way is shut."""
    dispatcher = desk.server._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher.express.clear()


def taken(desk: Stage) -> list[int]:
    """Offsets of what goes the short way, from now on."""
    express: ExpressAcks = desk.service.popping.acks._express
    dispatcher, offsets = desk.server._handler, []
    assert isinstance(dispatcher, Dispatcher)

    def take(connection: object, request: RemotingCommand) -> bool:
        goes = express.take(connection, request)  # type: ignore[arg-type]
        if goes:
            offsets.append(int(request.ext["offset"]))
        return goes

    dispatcher.express[200051] = take  # type: ignore[assignment]
    return offsets


async def stored_and_answered(
    folder: Path, *, short: bool
) -> tuple[list[object], list[object], int]:
    """Of acknowledgements of every kind, over one connection."""
    async with Stage(folder) as desk:
        now_ms = 1_700_000_000_000
        desk.clock.wall_ms = lambda: now_ms  # type: ignore[method-assign]
        desk.service.popping.collector._chance = lambda: 50
        await desk.open(40)
        short_ones = taken(desk)
        if not short:
            only_long(desk)
        end = desk.store.log_end
        first = await popped(desk, maxMsgNums=5, queueId=0, **IN_1_H)
        other = await popped(desk, group="g%", maxMsgNums=4, queueId=0, **IN_1_H)
        late = await popped(desk, maxMsgNums=2, queueId=0, invisibleTime=0)
        requests = [ack_request(each.handle) for each in first]
        requests += [ack_request(each.handle, group="g%") for each in other]
        requests += [ack_request(each.handle) for each in late]
        usual = first[0].handle
        for changes in (
            {"offset": 41},
            {"offset": "00", "extraInfo": f"{usual.text()}0"},
            {"offset": 40, "extraInfo": f"{usual.text()[:-1]}40"},
            {"topic": "nobody"},
            {"queueId": 9},
            {"queueId": "٣"},
            {"extraInfo": "0 1 2"},
            {"extraInfo": usual.text().replace(" b ", " b\x01 ")},
            {"extraInfo": f"{usual.text()} 4711"},
            {"consumerGroup": "a b"},
            {"consumerGroup": ""},
        ):
            requests.append(ack_request(usual, **changes))
        answers = await asyncio.gather(*(desk.ask(each) for each in requests))
        log = decode_messages(desk.store.read_log(end, desk.store.log_end - end))
        return (
            [(each.code, each.remark, each.ext, each.version, each.language) for each in answers],
            sorted(
                (
                    each.fields.topic,
                    each.fields.queue_id,
                    bytes(each.fields.properties),
                    bytes(each.fields.body),
                    each.fields.born_ms,
                    each.fields.born_host,
                    each.fields.store_host,
                )
                for each in log
            ),
            len(short_ones),
        )


async def test_both_ways_store_the_same_records_and_give_the_same_answers(tmp_path: Path) -> None:
    answers, log, short = await stored_and_answered(tmp_path / "short", short=True)
    assert (answers, log, 0) == await stored_and_answered(tmp_path / "long", short=False)
    assert short >= 9 and len(log) >= 3 + 5 + 4 + 2
    assert {answer[0] for answer in answers} == {0, 1, 13, 17, 208}  # type: ignore[index]


async def got(desk: Stage, messages: int) -> list[Gotten]:
    await desk.open(messages)
    found = await popped(desk, queueId=0, **IN_1_H)
    assert len(found) == messages
    return found


async def test_85_none_is_answered_before_every_member_has_its_record(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        found = await got(desk, 3)
        short = taken(desk)
        desk.confirm_at_once = False
        asked = [asyncio.ensure_future(desk.ask(ack_request(each.handle))) for each in found]
        await until(lambda: desk.waits and len(short) == 3, "the records wait for the members")
        assert desk.service.unfinished() == 3 and not any(each.done() for each in asked)
        desk.confirm()
        assert [each.code for each in await asyncio.gather(*asked)] == [0, 0, 0]
        assert desk.service.unfinished() == 0


@pytest.mark.parametrize("how", [Confirmation.TIMED_OUT, Confirmation.ABORTED])
async def test_85_what_is_not_confirmed_is_not_answered_0_on_either_way(
    tmp_path: Path, how: Confirmation
) -> None:
    said = []
    for way in ("short", "long"):
        async with Stage(tmp_path / way) as desk:
            (one,) = await got(desk, 1)
            short = taken(desk)
            if way == "long":
                only_long(desk)
            desk.confirm_at_once = False
            asked = asyncio.ensure_future(desk.ask(ack_request(one.handle)))
            await until(lambda: desk.waits, "the record waits for the members")
            desk.confirm(how)
            answer = await asked
            said.append((answer.code, answer.remark))
            assert len(short) == (way == "short")
    assert said[0] == said[1] and said[0][0] == 1


async def test_85_what_the_log_refuses_is_not_answered_0_on_either_way(tmp_path: Path) -> None:
    said = []
    for way in ("short", "long"):
        async with Stage(tmp_path / way) as desk:
            (one,) = await got(desk, 1)
            if way == "long":
                only_long(desk)
            desk.refusal = "in-sync replicas not enough: 1 of 2"
            answer = await desk.ask(ack_request(one.handle))
            said.append((answer.code, answer.remark))
    assert said[0] == said[1] and said[0][0] == 1


async def test_what_is_not_usual_any_more_goes_the_long_way(tmp_path: Path) -> None:
    """A form is known, and a topic, a timer, a time, a role is gone."""
    async with Stage(tmp_path) as desk:
        first, second, third = await got(desk, 3)
        short = taken(desk)
        assert await desk.code(ack_request(first.handle)) == 0 and short == [0]
        wall_ms = desk.clock.wall_ms
        desk.clock.wall_ms = lambda: wall_ms() + 3_700_000  # type: ignore[method-assign]
        assert await desk.code(ack_request(second.handle)) == 0 and short == [0]
        desk.clock.wall_ms = wall_ms  # type: ignore[method-assign]
        timer, desk.service.popping.terms.timer = desk.service.popping.terms.timer, None
        assert await desk.code(ack_request(third.handle)) == 1 and short == [0]
        desk.service.popping.terms.timer = timer
        await desk.ask(RemotingCommand.request(215, {"topic": "T"}))
        assert await desk.code(ack_request(third.handle)) == 17 and short == [0]


async def test_only_so_many_forms_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(express_acks, "FORMS_MAX", 2)
    async with Stage(tmp_path) as desk:
        await desk.open()
        short = taken(desk)
        for number in range(5):
            await desk.ask(send_request("T", b"m", 0, key=f"L{number}"))
            (one,) = await popped(desk, queueId=0, **IN_1_H)
            assert await desk.code(ack_request(one.handle)) == 0
        assert len(short) == 5 and len(desk.service.popping.acks._express._forms) == 2
