"""What comes back, when, and what never does: pops, acknowledgements and the reviver on a real
store, under a clock that the test moves.
"""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.popping.handles import Handle
from brokers.service.popping.names import REVIVE_GROUP
from brokers.service.popping.records import CheckPoint, Key
from brokers.service.popping.terms import PopSettings, PopTimer
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import MessageFields, decode_messages
from infra.features.pop_requests import Gotten, ack_request, gotten, pop_request
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk
from tests.support.pops import Stage, popped

REVIVE = "rmq_sys_REVIVE_LOG_c"


async def test_59_what_is_not_acknowledged_comes_back_after_its_time_and_not_before(
    tmp_path: Path,
) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(2)
        first, second = await popped(desk)
        await desk.settled(9_900)
        assert await popped(desk) == []
        await desk.settled(15_000)
        again = await popped(desk)
        assert [each.body for each in again] == [b"m00", b"m01"]
        for before, after in zip((first, second), again, strict=True):
            fields = after.record.fields
            assert fields.topic == "T" and fields.reconsume_times == 1
            assert after.properties["1ST_POP_TIME"] == str(before.handle.pop_ms)
            assert after.properties["UNIQ_KEY"] == before.properties["UNIQ_KEY"]
            assert fields.born_ms == before.record.fields.born_ms
        await desk.settled(30_000)
        (third, _) = await popped(desk)
        assert third.record.fields.reconsume_times == 2
        assert third.properties["1ST_POP_TIME"] == str(first.handle.pop_ms)


async def test_60_what_is_acknowledged_in_any_way_never_comes_back(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(6)
        got = await popped(desk)
        assert await desk.code(ack_request(got[4].handle)) == 0
        assert await desk.code(ack_request(got[0].handle)) == 0
        start = got[0].handle
        batch = {
            "acks": [
                {
                    "c": "g", "t": "T", "r": "0", "so": start.start_offset, "q": 0,
                    "rq": start.revive_queue, "pt": start.pop_ms, "it": start.invisible_ms,
                    "b": "Bg==",
                }
            ],
            "brokerName": "b",
        }  # fmt: skip
        assert await desk.code(RemotingCommand.request(200151, {}, fastjson.dumps(batch))) == 0
        await desk.settled(15_000)
        assert [each.body for each in await popped(desk)] == [b"m03", b"m05"]
        revive = desk.service.popping.revive
        assert revive.revived == 2


async def test_61_an_acknowledgement_that_is_late_is_answered_and_stops_nothing(
    tmp_path: Path,
) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        (got,) = await popped(desk)
        await desk.settled(15_000)
        assert await desk.code(ack_request(got.handle)) == 0
        (again,) = await popped(desk)
        assert again.body == b"m00"
        assert await desk.code(ack_request(again.handle)) == 0
        await desk.settled(40_000)
        assert await popped(desk) == []


async def test_63_the_handle_of_a_changed_time_is_the_one_that_counts(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(2)
        later, sooner = await popped(desk)

        async def changed(one: Gotten, invisible_ms: int) -> Gotten:
            request = ack_request(one.handle, code=200053, invisibleTime=invisible_ms)
            answer = await desk.ask(request)
            assert (answer.code, answer.ext["invisibleTime"]) == (0, str(invisible_ms))
            fresh = Handle(
                one.handle.offset, int(answer.ext["popTime"]), invisible_ms,
                int(answer.ext["reviveQid"]), "0", "b", 0, one.handle.offset,
            )  # fmt: skip
            return Gotten(one.body, one.record, fresh)

        fresh = await changed(later, 30_000)
        await changed(sooner, 1_000)
        assert await desk.code(ack_request(later.handle)) == 0  # the old one ends nothing
        await desk.settled(6_000)
        assert [each.body for each in await popped(desk, invisibleTime=100_000)] == [b"m01"]
        await desk.settled(25_000)
        assert await popped(desk) == []
        await desk.settled(36_000)
        assert [each.body for each in await popped(desk, invisibleTime=100_000)] == [b"m00"]
        assert await desk.code(ack_request(fresh.handle)) == 0


async def test_a_time_changed_in_the_millisecond_of_the_pop_counts(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        now_ms = desk.clock.wall_ms()
        desk.clock.wall_ms = lambda: now_ms  # type: ignore[method-assign]
        (got,) = await popped(desk)
        request = ack_request(got.handle, code=200053, invisibleTime=20_000)
        first, second = [(await desk.ask(request)).ext["popTime"] for _ in range(2)]
        assert first == second == str(now_ms + 1) and got.handle.pop_ms == now_ms
        await desk.settled(30_000)
        assert [each.body for each in await popped(desk, invisibleTime=100_000)] == [b"m00"]


async def test_63_the_new_handle_ends_it(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        (got,) = await popped(desk)
        answer = await desk.ask(ack_request(got.handle, code=200053, invisibleTime=20_000))
        fields = f"0 {answer.ext['popTime']} 20000 {answer.ext['reviveQid']} 0 b 0 0"
        assert await desk.code(ack_request(got.handle, extraInfo=fields)) == 0
        await desk.settled(60_000)
        assert await popped(desk) == []


async def test_65_a_tag_subscription_applies_to_what_comes_back(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open()
        for tag in "ab":
            await desk.ask(send_request("T", tag.encode(), 0, tags=tag))
        assert len(await popped(desk)) == 2
        await desk.settled(15_000)
        assert [each.body for each in await popped(desk, exp="b")] == [b"b"]


async def test_68_what_comes_back_wakes_a_waiting_pop(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        assert len(await popped(desk)) == 1
        asked = asyncio.ensure_future(desk.ask(pop_request(pollTime=40_000, queueId=2)))
        await until(lambda: desk.service.popping.pops.waiting.count == 1, "it waits")
        desk.stand_at(15_000)
        assert [each.body for each in gotten(await asked)] == [b"m00"]


async def test_70_neither_new_messages_nor_those_that_come_back_starve(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(20)
        assert len(await popped(desk)) == 20
        await desk.settled(15_000)
        for number in range(20):
            await desk.ask(send_request("T", b"new%02d" % number, 0))
        got = [(await popped(desk, maxMsgNums=1))[0] for _ in range(40)]
        kinds = [each.handle.kind for each in got]
        assert len({each.body for each in got}) == 40
        assert {"0", "1"} <= set(kinds)


async def test_71_with_the_second_form_of_names_copies_of_the_first_are_still_given(
    tmp_path: Path,
) -> None:
    async with Stage(tmp_path) as desk:
        terms = (await desk.open(1)).service.popping.terms
        await popped(desk)
        await desk.settled(15_000)
        terms.settings = PopSettings(retry_v2=True)
        await desk.ask(send_request("T", b"second", 0))
        got = []
        for _ in range(60):
            got += await popped(desk, maxMsgNums=2)
        assert sorted(each.body for each in got) == [b"m00", b"second"]
        await desk.settled(30_000)
        assert desk.tables.topics.get("%RETRY%g+T") is not None
        kinds = set()
        for _ in range(60):
            kinds |= {each.handle.kind for each in await popped(desk)}
        assert kinds == {"1", "2"}


async def put_record(desk: Desk, tag: str, body: bytes, queue_id: int = 0) -> None:
    host = desk.service.puts.store_host
    text = encode_properties({"TAGS": tag, "UNIQ_KEY": "x"})
    message = MessageFields(REVIVE, queue_id, body, text, 0, host, host)
    desk.service.puts.append([message])


async def test_84_what_is_no_record_and_what_is_of_nobody_stops_nothing(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        for queue_id in range(8):
            await put_record(desk, "ck", b"not JSON", queue_id)
            await put_record(desk, "ack", b'{"ao":1}', queue_id)
            await put_record(desk, "other", b"?", queue_id)
            for topic, group in (("gone", "g"), ("T", "gone")):
                point = CheckPoint(Key(topic, group, 0, 0, 1_000, "b"), 1_000, (0,))
                await put_record(desk, "ck", point.body(), queue_id)
        assert len(await popped(desk)) == 1
        await desk.settled(15_000)
        assert [each.body for each in await popped(desk)] == [b"m00"]
        assert desk.service.popping.revive.parked == 16


async def test_86_a_place_is_told_when_the_copies_are_durable(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        (got,) = await popped(desk)
        await desk.settled(15_000)
        queue = got.handle.revive_queue

        def told() -> int | None:
            desk.service.popping.revive.tick(desk.clock.now_ms())
            return desk.tables.offsets.query(REVIVE_GROUP, REVIVE, queue)

        assert told() is None
        desk.store.checkpoint()
        assert told() == 0


@pytest.mark.parametrize("durable", [False, True])
async def test_81_a_new_mastership_repeats_and_loses_nothing(tmp_path: Path, durable: bool) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(2)
        first, _ = await popped(desk)
        assert await desk.code(ack_request(first.handle)) == 0
        await desk.settled(15_000)
        if durable:
            desk.store.checkpoint()
            desk.service.popping.revive.tick(desk.clock.now_ms())
        desk.service.mastership_over()
        desk.lead(2)
        await desk.settled(30_000)
        bodies = [each.body for each in await popped(desk)]
        assert bodies == [b"m01"] * (1 if durable else 2)


async def test_86_copies_that_cannot_be_put_wait(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(3)
        assert len(await popped(desk)) == 3
        await desk.settled(11_500)
        desk.refusal = "in-sync replicas not enough: 1 of 2"
        desk.stand_at(15_000)
        revive = desk.service.popping.revive
        await until(lambda: revive._again_ms, "a put was refused")
        assert revive.revived == 0 and revive.open >= 1
        desk.refusal = None
        await until(lambda: revive.revived == 3, "they come back")


async def test_a_message_that_was_delayed_comes_back_at_once(tmp_path: Path) -> None:
    """Its properties still ask for the delay."""
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        (record,) = [each.record for each in await popped(desk)]
        properties = {**decode_properties(record.fields.properties), "DELAY": "18"}
        fields = replace(record.fields, properties=encode_properties(properties))
        desk.service.puts.append([fields])
        assert len(await popped(desk)) == 1
        await desk.settled(15_000)
        assert len(await popped(desk)) == 2


async def test_a_stopped_wheel_brings_nothing_back_early(tmp_path: Path) -> None:
    """What was acknowledged may lie in it."""
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        (got,) = await popped(desk)
        assert await desk.code(ack_request(got.handle)) == 0
        desk.wheel.turn()
        await desk.settled(10_200)
        desk.wheel.stopped = True
        desk.stand_at(100_000)
        for _ in range(5):
            desk.service.popping.revive.tick(desk.clock.now_ms())
            await asyncio.sleep(0.02)
        assert desk.service.popping.revive.revived == 0
        desk.wheel.stopped = False
        await desk.settled(100_000)
        assert await popped(desk) == [] and desk.service.popping.revive.open == 0


async def test_a_clock_that_was_set_back_has_no_check_point_put_again_and_again(
    tmp_path: Path,
) -> None:
    """It looks early then, and the timer, whose time goes evenly, delivers it at once."""
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        await popped(desk)
        desk.stand_at(11_000)
        until_ms = desk.wheel.turn()
        desk.stand_at(-3_600_000)
        desk.service.popping.terms.timer = PopTimer(
            lambda record, _ms: record, lambda: until_ms, lambda: until_ms
        )
        ends = []
        for _ in range(10):
            desk.service.popping.revive.tick(desk.clock.now_ms())
            await asyncio.sleep(0.01)
            ends.append([desk.store.queue_bounds(REVIVE, queue)[1] for queue in range(8)])
        assert desk.service.popping.revive.open == 1 and ends[0] == ends[-1]


async def test_78_a_topic_that_is_gone_has_nothing_coming_back(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        await popped(desk)
        desk.tables.topics.remove("T", 0)
        await desk.settled(15_000)
        assert desk.service.popping.revive.revived == 0
        desk.tables.topics.put([TopicConfig("T", 4, 4)], 0)
        assert await popped(desk) == []


async def test_78_copies_go_with_their_topic(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        await popped(desk)
        await desk.settled(15_000)
        assert desk.tables.topics.get("%RETRY%g_T") is not None
        assert await desk.code(RemotingCommand.request(215, {"topic": "T"})) == 0
        assert desk.tables.topics.get("%RETRY%g_T") is None
        assert desk.tables.offsets.query("g", "%RETRY%g_T", 0) is None


async def test_a_check_point_far_ahead_of_its_time_waits_where_others_do(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        (got,) = await popped(desk)
        assert await desk.code(ack_request(got.handle)) == 0
        now_ms = desk.clock.wall_ms()
        for invisible_ms, earlier_ms in ((500_000, 0), (600_000, 1)):
            key = Key("T", "g", 0, 0, now_ms - earlier_ms, "b")
            point = CheckPoint(key, invisible_ms, (0,))
            await put_record(desk, "ck", point.body())
        revive = desk.service.popping.revive
        await until(lambda: revive._queues[0].points.next_offset >= 2, "they are read")
        assert revive.open == 0
        await desk.settled(520_000)
        assert [each.body for each in await popped(desk)] == [b"m00"]


async def test_81_a_group_that_a_heartbeat_made_is_told_to_the_members(tmp_path: Path) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        desk.service.ensure_groups(["h"])
        asked = []
        make = desk.service.popping.pops._make_group

        def noted(fields: object) -> object:
            asked.append(fields)
            return make(fields)  # type: ignore[arg-type]

        desk.service.popping.pops._make_group = noted  # type: ignore[assignment]
        for _ in range(2):
            await popped(desk, group="h")
        assert [one["groupName"] for one in asked] == ["h"]  # type: ignore[index]


async def test_80_a_group_that_pulls_again_finds_the_rest_and_what_came_back(
    tmp_path: Path,
) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(6)
        popped_ones = await popped(desk, queueId=0, maxMsgNums=4)
        assert await desk.code(ack_request(popped_ones[0].handle)) == 0
        await desk.settled(15_000)
        ext = {"consumerGroup": "g", "topic": "T", "queueId": "0"}
        place = int((await desk.ask(RemotingCommand.request(14, ext))).ext["offset"])
        rest = await desk.ask(pull_request("T", 0, place, group="g"))
        back = await desk.ask(pull_request("%RETRY%g_T", 0, 0, group="g"))
        bodies = [
            each.fields.body for answer in (rest, back) for each in decode_messages(answer.body)
        ]
        assert bodies == [b"m04", b"m05", b"m01", b"m02", b"m03"]
        committed = {**ext, "commitOffset": "6"}
        assert await desk.code(RemotingCommand.request(15, committed)) == 0
        await desk.ask(send_request("T", b"new", 0))
        assert b"new" in [each.body for each in await popped(desk, queueId=0)]


async def test_87_only_the_master_brings_back_and_a_new_one_within_a_few_ticks(
    tmp_path: Path,
) -> None:
    async with Stage(tmp_path) as desk:
        await desk.open(1)
        assert len(await popped(desk)) == 1
        desk.follow("127.0.0.1:1")
        desk.stand_at(20_000)
        revive = desk.service.popping.revive
        for _ in range(3):
            desk.wheel.turn()
            revive.tick(desk.clock.now_ms() + 60_000)
        assert revive.revived == 0
        desk.lead(2)
        for _ in range(5):
            revive.tick(desk.clock.now_ms())
            await asyncio.sleep(0)
        assert revive.revived == 1
