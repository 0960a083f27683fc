"""Pops on a real store: what is handed out, to whom, and who waits."""

import asyncio
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.replica.waiters import Confirmation
from brokers.service.popping.records import read_check_point
from brokers.store.log.records import decode_messages
from infra.features.pop_requests import gotten, pop_request
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk
from tests.support.pops import TIMER_TOPIC, Wheel, popped


async def opened(desk: Desk, messages: int = 0, topic: str = "T") -> Wheel:
    """It leads, and the topic has so many messages in its first queue."""
    desk.lead()
    await desk.ask(send_request(topic, b"first", 3))
    desk.service.popping.collector._chance = lambda: 50  # no retry topic first, queues from 2 on
    for number in range(messages):
        await desk.ask(send_request(topic, b"m%02d" % number, 0))
    return Wheel(desk)


async def test_58_a_pop_names_every_record_once_and_takes_at_most_32(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 40)
        first = await popped(desk)
        assert [each.body for each in first] == [b"first", *(b"m%02d" % n for n in range(31))]
        assert {(each.handle.queue_id, each.handle.start_offset) for each in first} == {
            (3, 0),
            (0, 0),
        }
        answer = await desk.ask(pop_request(maxMsgNums=33))
        assert answer.code == 29 and "greater than 32" in (answer.remark or "")
        assert (await desk.ask(pop_request(maxMsgNums=1))).ext["restNum"] == "8"


async def test_83_a_check_point_waits_before_its_messages_are_handed_out(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 3)
        await popped(desk, queueId=3)
        desk.confirm_at_once = False
        asked = asyncio.ensure_future(desk.ask(pop_request(queueId=0)))
        await until(lambda: desk.waits, "the check point waits for the members")
        assert not asked.done()
        desk.confirm()
        messages = gotten(await asked)
        stored = decode_messages(desk.store.query(TIMER_TOPIC, 0, 1, 1).body)[0]
        point = read_check_point(bytes(stored.fields.body), "x")
        handle = messages[0].handle
        assert (point.key.pop_ms, point.visible_ms) == (handle.pop_ms, handle.visible_ms)
        assert point.offsets == (0, 1, 2) and point.key.broker_name == "b"


async def test_86_what_has_no_check_point_is_not_handed_out(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 3)
        await popped(desk, queueId=3)
        desk.refusal = "in-sync replicas not enough: 1 of 2"
        assert (await desk.ask(pop_request())).code not in (0, 210)
        desk.refusal, desk.confirm_at_once = None, False
        asked = asyncio.ensure_future(desk.ask(pop_request()))
        await until(lambda: desk.waits, "the check point waits for the members")
        desk.confirm(Confirmation.TIMED_OUT)
        assert (await asked).code not in (0, 210)
        desk.confirm_at_once = True
        assert len(await popped(desk)) == 3


async def test_59_popped_messages_are_given_once(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 5)
        assert len(await popped(desk)) == 6 and await popped(desk) == []


async def test_72_groups_pop_each_for_itself_and_consumers_of_one_share(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 30)
        answers = await asyncio.gather(
            *(popped(desk, group=group, maxMsgNums=5) for group in "gh" * 12)
        )
        for group in range(2):
            bodies = [each.body for answer in answers[group::2] for each in answer]
            assert len(bodies) == len(set(bodies)) > 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "nobody"}, 17),
        ({"queueId": 4}, 29),
        ({"queueId": -2}, 29),
        ({"invisibleTime": -1}, 29),
        ({"consumerGroup": "a b"}, 26),
        ({"consumerGroup": ""}, 1),
        ({"exp": "a >", "expType": "SQL92"}, 23),
        ({"exp": "a", "expType": "OTHER"}, 23),
        ({"bornTime": 1}, 210),
        ({"maxMsgNums": "x"}, 1),
    ],
)
async def test_pops_that_cannot_be_served_are_refused(
    tmp_path: Path, changes: dict[str, object], code: int
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        answer = await desk.ask(pop_request(**changes))
        assert answer.code == code and answer.ext["popTime"] == "0", answer.remark


async def test_85_without_a_timer_nothing_is_handed_out(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        desk.service.popping.terms.timer = None
        assert (await desk.ask(pop_request())).code == 1


async def test_85_a_replica_that_does_not_lead_hands_out_nothing(tmp_path: Path) -> None:
    async with Desk(tmp_path, hold_ms=50) as desk:
        await opened(desk)
        desk.follow("127.0.0.1:1")
        assert (await desk.ask(pop_request())).code not in (0, 210)


async def test_65_what_does_not_match_is_skipped_for_good(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        for tag in "abab":
            await desk.ask(send_request("T", tag.encode(), 0, tags=tag))
        assert [each.body for each in await popped(desk, exp="a", queueId=0)] == [b"a", b"a"]
        assert await popped(desk, queueId=0) == []
        await desk.ask(send_request("T", b"b", 0, tags="b"))
        assert await popped(desk, exp="a", queueId=0) == []
        assert await popped(desk, queueId=0) == []


async def test_66_a_new_group_begins_at_the_oldest_or_in_an_old_queue_at_the_newest(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 4)
        assert len(await popped(desk, group="min", queueId=0)) == 4
        assert len(await popped(desk, group="young", queueId=0, initMode=1)) == 4
        reader = desk.service.popping.collector._reader
        assert reader.first_place("T", 0, from_end=True) == 0
        assert desk.tables.offsets.query("min", "T", 0) == 4


async def test_67_an_empty_pop_is_answered_when_its_time_is_over(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        await popped(desk)
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await desk.ask(pop_request())
        assert (answer.code, answer.remark) == (210, "NO_MESSAGE_IN_QUEUE")
        answer = await desk.ask(pop_request(pollTime=300))
        assert answer.code == 210 and loop.time() - began > 0.2
        desk.service.popping.pops.waiting.hold = lambda _: False  # type: ignore[method-assign]
        assert (await desk.ask(pop_request(pollTime=300))).code == 209


@pytest.mark.parametrize("queue_id", [-1, 0])
async def test_68_a_message_wakes_a_waiting_pop(tmp_path: Path, queue_id: int) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        await popped(desk)
        asked = asyncio.ensure_future(
            desk.ask(pop_request(queueId=queue_id, pollTime=20_000, exp="x"))
        )
        waiting = desk.service.popping.pops.waiting
        await until(lambda: waiting.count == 1, "the pop waits")
        info = RemotingCommand.request(
            200055, {"consumerGroup": "g", "topic": "T", "queueId": str(queue_id)}
        )
        assert (await desk.ask(info)).ext == {"pollingNum": "1"}
        await desk.ask(send_request("T", b"other", 0, tags="y"))
        assert not asked.done() and waiting.count == 1
        await desk.ask(send_request("T", b"mine", 0, tags="x"))
        assert [each.body for each in gotten(await asked)] == [b"mine"]


async def test_69_two_messages_wake_two_consumers_once_each(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        await popped(desk)
        asked = [
            asyncio.ensure_future(desk.ask(pop_request(pollTime=20_000, maxMsgNums=1)))
            for _ in range(2)
        ]
        await until(lambda: desk.service.popping.pops.waiting.count == 2, "both wait")
        await asyncio.gather(*(desk.ask(send_request("T", b"%d" % n, n)) for n in range(2)))
        bodies = [gotten(answer)[0].body for answer in await asyncio.gather(*asked)]
        assert sorted(bodies) == [b"0", b"1"]


async def test_a_waiting_pop_is_answered_when_another_replica_leads(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        await popped(desk)
        asked = asyncio.ensure_future(desk.ask(pop_request(pollTime=20_000)))
        await until(lambda: desk.service.popping.pops.waiting.count == 1, "it waits")
        desk.service.mastership_over()
        assert (await asked).code == 210


async def test_places_move_only_behind_check_points_that_every_member_has(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 3)
        await popped(desk, queueId=3)
        desk.confirm_at_once = False
        asked = asyncio.ensure_future(desk.ask(pop_request(queueId=0)))
        await until(lambda: desk.waits, "the check point waits for the members")
        assert desk.tables.offsets.query("g", "T", 0) == 0
        assert (await desk.ask(pop_request(queueId=0))).code == 210  # somebody pops it
        desk.confirm()
        await asked
        assert desk.tables.offsets.query("g", "T", 0) == 3


async def test_a_clock_of_a_client_that_is_ahead_holds_nothing_longer(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        await popped(desk)
        ahead = desk.clock.wall_ms() + 3_600_000
        assert (await desk.ask(pop_request(pollTime=100, bornTime=ahead))).code == 210


async def test_a_group_with_the_retry_topic_of_another_one_is_refused(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        for topic in ("a_b", "b"):
            await desk.ask(send_request(topic, b"x"))
        assert await popped(desk, topic="a_b", group="g")
        answer = await desk.ask(pop_request(topic="b", group="g_a"))
        assert answer.code == 29 and "retry topic" in (answer.remark or "")
        assert await popped(desk, topic="b", group="h")


async def test_a_replica_that_led_does_not_tell_what_was_out(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 1)
        await popped(desk, order="true", queueId=0)
        desk.follow("127.0.0.1:1")
        told = {"T@g": {"0": {"o": [7], "popTime": 1, "i": 1}}}
        desk.tables.kept.put(19017, told, None)
        desk.tables.topics.remove("T", 0)
        pops = desk.service.popping.pops
        pops.tick(desk.clock.now_ms() + 100_000)
        assert desk.tables.kept.table(19017) == told


async def test_65_a_filter_by_properties_is_served_and_counted(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        for number in range(4):
            request = send_request("T", b"%d" % number, 0, key=f"K{number}")
            request.ext["i"] += f"a\x01{number}\x02"
            await desk.ask(request)
        sql = {"exp": "a > 1", "expType": "SQL92", "queueId": 0}
        assert [each.body for each in await popped(desk, **sql)] == [b"2", b"3"]
        asked = asyncio.ensure_future(desk.ask(pop_request(pollTime=20_000, **sql)))
        await until(lambda: desk.service.popping.pops.waiting.count == 1, "it waits")
        request = send_request("T", b"4", 0)
        request.ext["i"] += "a\x014\x02"
        await desk.ask(send_request("T", b"none", 0))
        await desk.ask(request)
        assert [each.body for each in gotten(await asked)] == [b"4"]
        assert desk.service.statistics.group_rate


async def test_78_a_place_that_an_operator_sets_counts_at_the_next_pop(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk, 3)
        for ordered in ("false", "true"):
            ask = {"queueId": 0, "order": ordered, "group": f"g{ordered}"}
            assert len(await popped(desk, **ask)) == 3
            desk.service._pending.put(f"g{ordered}", "T", 0, 1)
            assert [each.body for each in await popped(desk, **ask)] == [b"m01", b"m02"]
            assert desk.service._pending.get(f"g{ordered}", "T", 0) is None


async def test_a_pop_that_waits_during_a_hand_over_is_sent_to_the_next_master(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        await opened(desk)
        await popped(desk)
        asked = asyncio.ensure_future(desk.ask(pop_request(pollTime=20_000)))
        await until(lambda: desk.service.popping.pops.waiting.count == 1, "it waits")
        await desk.ask(send_request("T", b"x", 0))
        assert (await asked).code == 0
        asked = asyncio.ensure_future(desk.ask(pop_request(pollTime=20_000)))
        await until(lambda: desk.service.popping.pops.waiting.count == 1, "it waits again")
        desk.roles.drain(True)
        desk.service.popping.pops.wake("T", "g", -1)
        assert (await asked).code == 210
