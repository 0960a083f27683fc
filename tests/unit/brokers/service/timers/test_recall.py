"""370: a message is taken out of its slot before its time."""

import asyncio
from pathlib import Path

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.service.sending.timed import TIMER_TOPIC, RecallHandle, TimerRules, encode_handle
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import decode_messages
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk
from tests.support.timers import TimeMachine, timed

RULES = TimerRules("b1", recall_enabled=True)


def recall(handle: str | None, topic: str = "T", **more: str) -> RemotingCommand:
    ext = {"topic": topic, "producerGroup": "pg", **more}
    return RemotingCommand.request(370, ext if handle is None else {**ext, "recallHandle": handle})


async def bodies(desk: Desk, topic: str = "T") -> list[bytes]:
    answer = await desk.ask(pull_request(topic, 0, 0))
    return (
        [bytes(each.fields.body) for each in decode_messages(answer.body)]
        if answer.code == 0
        else []
    )


async def enqueued(desk: Desk) -> None:
    await until(lambda: desk.service.timers.behind == 0, "everything is in the wheel")


async def passed(desk: Desk, time: TimeMachine, number: int) -> None:
    for _ in range(number):
        time.pass_ms(1_000)
        desk.service.timers.tick(desk.clock.now_ms())
        await asyncio.sleep(0.01)


async def test_27_a_recalled_message_never_comes_and_others_of_its_second_do(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path, timers=RULES) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        handles = {}
        for body in (b"A", b"B", b"C"):
            answer = await desk.ask(timed(body, {"TIMER_DELAY_SEC": 5}))
            handles[body] = answer.ext["recallHandle"]
        answer = await desk.ask(recall(handles[b"B"]))
        assert (answer.code, answer.ext) == (0, {"MSG_REGION": "DefaultRegion", "msgId": "B"})
        await enqueued(desk)
        await passed(desk, time, 7)
        await until(lambda: desk.service.timers.did.delivered == 2, "the others are delivered")
        assert await bodies(desk) == [b"now", b"A", b"C"]
        assert desk.service.timers.did.recalled == 1


async def test_27_the_record_of_a_recall_is_rocketmqs(tmp_path: Path) -> None:
    async with Desk(tmp_path, timers=RULES) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        handle = RecallHandle("T", "b1", time.now_ms + 5_001, "RRR1")
        assert (await desk.ask(recall(encode_handle(handle)))).code == 0
        answer = await desk.ask(pull_request(TIMER_TOPIC, 0, 0))
        (record,) = decode_messages(answer.body)
        assert record.fields.body == b"0"
        found = decode_properties(record.fields.properties)
        del found["BORN_TIMESTAMP"]
        assert found == {
            "TIMER_DEL_UNIQKEY": "T+RRR1",
            "UNIQ_KEY": "RRR1",
            "TIMER_DELIVER_MS": str(time.now_ms + 5_001),
            "TIMER_OUT_MS": str(time.now_ms + 5_000),
            "TAGS": "_RECALL_TAG_",
            "PGROUP": "pg",
            "REAL_TOPIC": "T",
            "REAL_QID": "0",
        }
        await enqueued(desk)
        files = desk.service.timers._files
        assert files is not None
        assert [unit.magic for _, unit in files.log.scan(0)] == [5]


@pytest.mark.parametrize(
    ("handle", "topic", "code", "remark"),
    [
        (("T", "b1", 5_001, "K"), "U", 17, "recall failed, the topic[U] not exist"),
        (None, "T", 604, "recall handle is invalid"),
        ("garbage", "T", 604, "recall handle is invalid"),
        ("!" * 10_000, "T", 604, "recall handle is invalid"),
        (("V", "b1", 5_001, "K"), "T", 604, "recall failed, topic not match"),
        (("T", "b2", 5_001, "K"), "T", 604, "recall failed, broker service not available"),
        (("T", "b1", 0, "K"), "T", 604, "recall failed, timestamp invalid"),
        (("T", "b1", -9, "K"), "T", 604, "recall failed, timestamp invalid"),
        (("T", "b1", 259_200_000, "K"), "T", 604, "recall failed, timestamp invalid"),
    ],
)
async def test_28_what_is_no_recall_is_refused_with_rocketmqs_words(
    tmp_path: Path, handle: object, topic: str, code: int, remark: str
) -> None:
    async with Desk(tmp_path, timers=RULES) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        end = desk.store.log_end
        if isinstance(handle, tuple):
            name, broker, after_ms, key = handle
            handle = encode_handle(RecallHandle(name, broker, time.now_ms + after_ms, key))
        answer = await desk.ask(recall(None if handle is None else str(handle), topic))
        assert (answer.code, answer.remark) == (code, remark)
        assert answer.ext == {"MSG_REGION": "DefaultRegion"}
        assert desk.store.log_end == end


async def test_28_without_the_setting_nothing_is_recalled(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        answer = await desk.ask(recall(None))
        assert (answer.code, answer.remark) == (16, "recall failed, operation is forbidden")


async def test_28_a_slave_passes_a_recall_on(tmp_path: Path) -> None:
    async with Desk(tmp_path / "m", timers=RULES) as master:
        async with Desk(tmp_path / "s", timers=RULES) as slave:
            master.lead()
            time = TimeMachine(master)
            slave.follow(master.address)
            await master.ask(send_request("T", b"now"))
            answer = await master.ask(timed(b"A", {"TIMER_DELAY_SEC": 5}))
            answer = await slave.ask(recall(answer.ext["recallHandle"]))
            assert (answer.code, answer.ext["msgId"]) == (0, "A")
            await enqueued(master)
            await passed(master, time, 7)
            await until(lambda: master.service.timers.did.recalled == 1, "its slot is read")
            assert await bodies(master) == [b"now"]


async def test_29_a_second_recall_and_one_of_nothing_do_no_harm(tmp_path: Path) -> None:
    async with Desk(tmp_path, timers=RULES) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        answer = await desk.ask(timed(b"A", {"TIMER_DELAY_SEC": 5}))
        await desk.ask(timed(b"B", {"TIMER_DELAY_SEC": 5}))
        for _ in range(2):
            assert (await desk.ask(recall(answer.ext["recallHandle"]))).code == 0
        nothing = encode_handle(RecallHandle("T", "b1", time.now_ms + 4_001, "unknown"))
        assert (await desk.ask(recall(nothing))).code == 0
        await enqueued(desk)
        await passed(desk, time, 7)
        await until(lambda: desk.service.timers.did.delivered == 1, "the other one is delivered")
        assert await bodies(desk) == [b"now", b"B"]
        table = desk.service.timers.waiting
        assert table is not None
        await until(lambda: table.is_whole, "all are counted")
        assert table.table([]) == {"T": 0}


async def test_29_a_recall_that_comes_too_late_does_nothing(tmp_path: Path) -> None:
    async with Desk(tmp_path, timers=RULES) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"first", {"TIMER_DELAY_MS": 500}))
        await enqueued(desk)
        await passed(desk, time, 2)
        await until(lambda: desk.service.timers.did.delivered == 1, "its slot is read")
        late = {"TIMER_OUT_MS": time.now_ms - 5_000, "REAL_TOPIC": "T", "REAL_QID": 0}
        await desk.ask(timed(b"0", {**late, "TIMER_DEL_UNIQKEY": "T+A"}, TIMER_TOPIC))
        await desk.ask(timed(b"A", late, TIMER_TOPIC))
        await enqueued(desk)
        await passed(desk, time, 2)
        await until(lambda: desk.service.timers.did.delivered == 2, "it is delivered")
        assert await bodies(desk) == [b"now", b"first", b"A"]


async def test_30_a_message_that_rolled_is_recalled_all_the_same(tmp_path: Path) -> None:
    rules = TimerRules("b1", recall_enabled=True, roll_window_slots=6)
    async with Desk(tmp_path, timers=rules) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        answer = await desk.ask(timed(b"A", {"TIMER_DELAY_SEC": 20}))
        await desk.ask(timed(b"B", {"TIMER_DELAY_SEC": 20}))
        await enqueued(desk)
        await passed(desk, time, 8)
        await until(lambda: desk.service.timers.did.rolled >= 2, "both rolled")
        assert (await desk.ask(recall(answer.ext["recallHandle"]))).code == 0
        for _ in range(16):
            await enqueued(desk)
            await passed(desk, time, 1)
        await until(lambda: desk.service.timers.did.delivered == 1, "the other one is delivered")
        assert await bodies(desk) == [b"now", b"B"]


async def test_a_recall_that_the_members_do_not_hold_is_not_answered_as_done(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path, timers=RULES) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        handle = encode_handle(RecallHandle("T", "b1", time.now_ms + 5_001, "A"))
        desk.refusal = "in-sync replicas not enough: 1 of 2"
        assert (await desk.ask(recall(handle))).code == 1
        desk.refusal, desk.confirm_at_once = None, False
        asked = asyncio.ensure_future(desk.ask(recall(handle)))
        await until(lambda: desk.waits, "it waits for the members")
        assert not asked.done()
        desk.confirm()
        assert (await asked).code == 0
