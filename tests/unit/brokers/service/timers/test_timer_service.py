"""Messages with a time of delivery on a real store: never early, in their order, told only when
their copies are safe.
"""

import asyncio
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.sending.timed import TIMER_TOPIC, TimerRules, decode_handle
from brokers.service.timers import deliveries
from brokers.service.timers.formats import WHEEL_BYTES
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import StoredMessage, decode_messages
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk
from tests.support.timers import TimeMachine, timed

DAY_MS = 86_400_000


async def read(desk: Desk, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    while (answer := await desk.ask(pull_request(topic, queue_id, len(found)))).code == 0:
        found += decode_messages(answer.body)
    return found


async def bodies(desk: Desk, topic: str = "T") -> list[bytes]:
    return [bytes(each.fields.body) for each in await read(desk, topic)]


async def check_point(desk: Desk) -> tuple[int, ...]:
    """What 60 answers."""
    body = (await desk.ask(RemotingCommand.request(60))).body
    assert len(body) == 56
    return struct.unpack(">7q", body)


async def counts(desk: Desk) -> dict[str, int]:
    """What 61 answers."""
    body = fastjson.loads((await desk.ask(RemotingCommand.request(61))).body)
    assert isinstance(body, dict)
    return {topic: entry["count"] for topic, entry in body["timingCount"].items()}


async def enqueued(desk: Desk) -> None:
    await until(lambda: desk.service.timers.behind == 0, "everything is in the wheel")


async def delivered(desk: Desk, number: int) -> None:
    await until(lambda: desk.service.timers.did.delivered >= number, f"{number} are delivered")


async def flushed(desk: Desk, time: TimeMachine, offset: int) -> None:
    """The wheel is on the disk up to `offset`, and its place is told. A flush is another thread's:
    one that began too early is followed by the next, by the clock.
    """
    keeping = desk.service.timers._keeping

    def goes_on() -> bool:
        if keeping._flush is None or keeping._flush.done():
            time.pass_ms(desk.service.timers.rules.flush_interval_ms)
            turn(desk, 1)
        return keeping.flushed[1] == offset

    await until(goes_on, f"the wheel is flushed up to {offset}")
    turn(desk)


def turn(desk: Desk, times: int = 3) -> None:
    """The wheel has every chance to do what it must not."""
    for _ in range(times):
        desk.service.timers.tick(desk.clock.now_ms())


async def seconds(desk: Desk, time: TimeMachine, number: int) -> None:
    """The clock goes on as it does, so that nothing looks like a jump."""
    for _ in range(number * 2):
        time.pass_ms(500)
        turn(desk, 1)
        await asyncio.sleep(0)


@pytest.mark.parametrize("how", ["TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
async def test_21_a_message_is_never_early_and_comes_within_its_precision(
    tmp_path: Path, how: str
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        value = {"TIMER_DELAY_SEC": 4, "TIMER_DELAY_MS": 4_000}.get(how, time.now_ms + 4_000)
        answer = await desk.ask(timed(b"later", {how: value}, queue_id=2))
        assert (answer.code, answer.ext["queueId"], answer.ext["queueOffset"]) == (0, "2", "0")
        (waiting,) = await read(desk, TIMER_TOPIC)
        due_ms = time.now_ms + 4_000
        while time.now_ms < due_ms:
            time.pass_ms(100)
            turn(desk)
            assert time.now_ms >= due_ms or not await read(desk, "T", 2)
        time.pass_ms(due_ms + 1_000 - time.now_ms)
        await delivered(desk, 1)
        (copy,) = await read(desk, "T", 2)
        assert copy.fields.body == b"later" and copy.store_ms >= due_ms
        found = decode_properties(copy.fields.properties)
        assert found["REAL_TOPIC"] == "T" and found["REAL_QID"] == "2"
        assert int(found["TIMER_OUT_MS"]) < due_ms <= int(found["TIMER_DEQUEUE_MS"])
        assert waiting.fields.topic == TIMER_TOPIC


async def test_21_a_finer_wheel_is_as_fine_as_that(tmp_path: Path) -> None:
    rules = TimerRules("b", precision_ms=100)
    async with Desk(tmp_path, timers=rules) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        for number in range(1, 20):
            await desk.ask(timed(b"%d" % (number * 50), {"TIMER_DELAY_MS": number * 50}))
        begin_ms = time.now_ms
        await enqueued(desk)
        for _ in range(12):
            time.pass_ms(100)
            turn(desk)
            over_ms = rules.floor(time.now_ms)
            await until(lambda: desk.service.timers.delivered_until_ms >= over_ms, "it is read")
        await delivered(desk, 19)
        for copy in (await read(desk))[1:]:
            late_ms = copy.store_ms - begin_ms - int(copy.fields.body)
            assert 0 <= late_ms <= 100


async def test_23_a_time_that_is_over_is_delivered_at_once_and_has_no_handle(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"now"))
        answer = await desk.ask(timed(b"old", {"TIMER_DELIVER_MS": desk.clock.wall_ms() - 1}))
        assert answer.code == 0 and "recallHandle" not in answer.ext
        assert await bodies(desk) == [b"now", b"old"]


async def test_24_a_time_too_far_off_stores_nothing(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"now"))
        end = desk.store.log_end
        answer = await desk.ask(timed(b"far", {"TIMER_DELAY_SEC": 259_201}))
        assert answer.code == 13 and "max delay 259200000ms" in (answer.remark or "")
        assert desk.store.log_end == end
        assert (await desk.ask(timed(b"near", {"TIMER_DELAY_SEC": 259_199}))).code == 0


async def test_26_the_answer_has_a_handle_and_a_batch_and_a_retry_have_none(tmp_path: Path) -> None:
    async with Desk(tmp_path, timers=TimerRules("b1")) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"now"))
        answer = await desk.ask(timed(b"KEY", {"TIMER_DELAY_SEC": 9}))
        handle = decode_handle(answer.ext["recallHandle"])
        (waiting,) = await read(desk, TIMER_TOPIC)
        out = decode_properties(waiting.fields.properties)["TIMER_OUT_MS"]
        assert handle == ("T", "b1", int(out) + 1, "KEY")
        retry = await desk.ask(timed(b"r", {"TIMER_DELAY_SEC": 9}, "%RETRY%g"))
        assert retry.code == 0 and "recallHandle" not in retry.ext


async def test_30_what_lies_beyond_the_window_goes_round_and_comes_once_and_on_time(
    tmp_path: Path,
) -> None:
    rules = TimerRules("b", roll_window_slots=10)
    async with Desk(tmp_path, timers=rules) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        due_ms = time.now_ms + 35_000
        await desk.ask(timed(b"far", {"TIMER_DELAY_SEC": 35}))
        await enqueued(desk)
        while time.now_ms < due_ms:
            assert await bodies(desk) == [b"now"]
            await seconds(desk, time, 1)
            await enqueued(desk)
        time.pass_ms(1_000)
        await delivered(desk, 1)
        (copy,) = (await read(desk))[1:]
        assert due_ms <= copy.store_ms <= due_ms + 1_500
        found = decode_properties(copy.fields.properties)
        assert int(found["TIMER_ROLL_TIMES"]) == desk.service.timers.did.rolled >= 2


async def test_35_a_record_without_a_time_is_refused_and_one_that_is_there_is_passed(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        for properties in ({}, {"TIMER_OUT_MS": "1"}, {"TIMER_OUT_MS": "x", "REAL_TOPIC": "T"}):
            answer = await desk.ask(timed(b"bad", properties, TIMER_TOPIC))
            assert answer.code == 13 and "rmq_sys_wheel_timer does not take it" in (
                answer.remark or ""
            )
        whole = {"TIMER_OUT_MS": time.now_ms, "REAL_TOPIC": "T", "REAL_QID": 0}
        assert (await desk.ask(timed(b"good", whole, TIMER_TOPIC))).code == 0
        (there,) = await read(desk, TIMER_TOPIC)
        bare = replace(there.fields, properties=encode_properties({"UNIQ_KEY": "k"}))
        desk.store.put(bare, desk.clock.wall_ms())
        desk.service.confirmed(desk.store.log_end)
        await desk.ask(timed(b"behind", {"TIMER_DELAY_SEC": 1}))
        await enqueued(desk)
        time.pass_ms(3_000)
        await delivered(desk, 2)
        assert desk.service.timers.did.parked == 1
        assert await bodies(desk) == [b"now", b"good", b"behind"]


async def test_36_messages_of_one_second_come_in_the_order_in_which_they_were_sent(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        for number in range(150):
            delay_ms = 3_000 - number  # the later one is due a little earlier
            await desk.ask(timed(b"%03d" % number, {"TIMER_DELAY_MS": delay_ms}))
        await enqueued(desk)
        time.pass_ms(4_000)
        await delivered(desk, 150)
        assert await bodies(desk) == [b"now", *(b"%03d" % number for number in range(150))]


async def test_37_a_store_that_takes_nothing_for_a_while_costs_no_message(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        for number in range(70):
            await desk.ask(timed(b"%02d" % number, {"TIMER_DELAY_SEC": 1 + number % 2}))
        await enqueued(desk)
        desk.refusal = "in-sync replicas not enough: 1 of 2"
        for _ in range(60):
            time.pass_ms(1_000)
            turn(desk, 1)
        assert desk.service.timers.did.delivered == 0
        desk.refusal = None
        time.pass_ms(1_000)
        await delivered(desk, 70)
        assert sorted((await bodies(desk))[1:]) == [b"%02d" % number for number in range(70)]


async def test_38_a_slot_that_is_full_refuses(tmp_path: Path) -> None:
    async with Desk(tmp_path, timers=TimerRules("b", slot_messages=5)) as desk:
        desk.lead()
        TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        taken = 0
        for number in range(60):
            answer = await desk.ask(timed(b"%d" % number, {"TIMER_DELAY_SEC": 5}))
            assert answer.code in (0, 1) and (answer.code == 0 or number >= 5)
            taken += answer.code == 0
            await enqueued(desk)
        assert 5 < taken <= 10
        answer = await desk.ask(timed(b"other", {"TIMER_DELAY_SEC": 9}))
        assert answer.code == 0


async def test_39_counts_of_waiting_messages_return_to_nothing(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        for topic, number in (("T", 3), ("U", 2)):
            await desk.ask(send_request(topic, b"now"))
            for each in range(number):
                await desk.ask(timed(b"%d" % each, {"TIMER_DELAY_SEC": 2}, topic))
        await enqueued(desk)
        table = desk.service.timers.waiting
        assert table is not None
        await until(lambda: table.is_whole, "all are counted")
        time.pass_ms(1_000)
        turn(desk)
        assert await counts(desk) == {"T": 3, "U": 2}
        await seconds(desk, time, 4)
        await delivered(desk, 5)
        time.pass_ms(1_000)
        turn(desk)
        assert await counts(desk) == {"T": 0, "U": 0}


async def test_a_clock_that_jumps_delivers_nothing_early_and_nothing_twice(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"soon", {"TIMER_DELAY_SEC": 10}))
        await desk.ask(timed(b"late", {"TIMER_DELAY_SEC": 120}))
        await enqueued(desk)
        time.jump_ms(150_000)
        await desk.ask(timed(b"asked then", {"TIMER_DELAY_SEC": 10}))
        await seconds(desk, time, 5)
        assert await bodies(desk) == [b"now"], "a jump forward is not believed at once"
        time.jump_ms(-150_000)
        await seconds(desk, time, 6)
        await delivered(desk, 2)
        assert await bodies(desk) == [b"now", b"soon", b"asked then"]
        time.jump_ms(-150_000)
        await seconds(desk, time, 70)
        assert desk.service.timers.did.delivered == 2
        desk.store.checkpoint()
        await desk.ask(timed(b"after", {"TIMER_DELAY_SEC": 10}))
        await seconds(desk, time, 9)
        assert desk.service.timers.did.delivered == 2
        await seconds(desk, time, 3)
        await delivered(desk, 3)
        assert await bodies(desk) == [b"now", b"soon", b"asked then", b"after"]
        desk.store.checkpoint()
        await seconds(desk, time, 200)
        await delivered(desk, 4)
        assert await bodies(desk) == [b"now", b"soon", b"asked then", b"after", b"late"]


async def test_places_are_told_when_their_copies_are_durable_and_a_successor_goes_on_there(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        begin_ms = time.now_ms
        await desk.ask(send_request("T", b"now"))
        for number in range(3):
            await desk.ask(timed(b"%d" % number, {"TIMER_DELAY_SEC": 1}))
        await enqueued(desk)
        turn(desk)
        assert (await check_point(desk))[3] == 0, "not on the disk of this master yet"
        desk.store.checkpoint()
        turn(desk)
        told = await check_point(desk)
        assert (told[3], told[4]) == (3, 1)
        await seconds(desk, time, 3)
        await delivered(desk, 3)
        assert (await check_point(desk))[0] <= begin_ms, "the slot's copies are not durable yet"
        desk.store.checkpoint()
        turn(desk)
        assert (await check_point(desk))[0] > begin_ms
        await desk.ask(timed(b"3", {"TIMER_DELAY_SEC": 2}))
        desk.service.mastership_over()
        desk.lead(2)
        await seconds(desk, time, 4)
        await delivered(desk, 4)
        assert await bodies(desk) == [b"now", b"0", b"1", b"2", b"3"]
        desk.store.checkpoint()
        turn(desk)
        assert (await check_point(desk))[3:5] == (4, 2)


async def test_86_what_was_delivered_and_is_not_safe_comes_again_rather_than_never(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"a", {"TIMER_DELAY_SEC": 1}))
        await enqueued(desk)
        desk.store.checkpoint()
        turn(desk)
        end = desk.store.log_end
        await seconds(desk, time, 3)
        await delivered(desk, 1)
        desk.service.mastership_over()
        desk.store.truncate(end)  # the copy never reached another replica
        desk.lead(2)
        await seconds(desk, time, 1)
        await delivered(desk, 2)
        assert await bodies(desk) == [b"now", b"a"]


async def test_87_a_slave_delivers_nothing_and_its_next_master_does_at_once(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"a", {"TIMER_DELAY_SEC": 1}))
        desk.follow("127.0.0.1:1", 2)
        await seconds(desk, time, 5)
        assert desk.service.timers.did.delivered == 0
        desk.lead(3)
        await delivered(desk, 1)


async def test_a_slave_has_its_own_wheel_as_far_as_its_master_is_safe(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        desk.follow("127.0.0.1:1", 2)
        desk.lead(3)
        for number in range(5):
            await desk.ask(timed(b"%d" % number, {"TIMER_DELAY_SEC": 3 + number}))
        desk.follow("127.0.0.1:1", 4)
        behind = desk.service.timers.behind
        table = desk.tables.kept.timer_check_point
        begin_ms = time.now_ms
        table.adopt(struct.pack(">7q", begin_ms, 7, 3, 3, 4, 5, 6))
        await seconds(desk, time, 1)
        await until(lambda: desk.service.timers.behind <= min(behind, 2), "three are in its wheel")
        assert desk.service.timers.behind == min(behind, 2), "and what its master lacks is not"
        await seconds(desk, time, 5)
        # the first two were delivered by that master, for good
        table.adopt(struct.pack(">7q", begin_ms + 4_000, 7, 5, 5, 4, 6, 7))
        await seconds(desk, time, 1)
        await enqueued(desk)
        desk.lead(5)
        await seconds(desk, time, 3)
        await delivered(desk, 3)
        assert await bodies(desk) == [b"now", b"2", b"3", b"4"]


async def test_a_slave_whose_clock_is_behind_keeps_what_its_master_has_to_deliver(
    tmp_path: Path,
) -> None:
    rules = TimerRules("b", roll_window_slots=200)
    # given: a message that waits, which this member has in its log and not in its wheel
    async with Desk(tmp_path, timers=rules) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"a", {"TIMER_DELAY_SEC": 100}))
        sent_ms = time.now_ms
    shutil.rmtree(tmp_path / "timerlog", ignore_errors=True)
    for name in ("timerwheel", "config/timercheck"):
        (tmp_path / name).unlink(missing_ok=True)
    async with Desk(tmp_path, timers=rules) as desk:
        time = TimeMachine(desk)
        desk.follow("127.0.0.1:1", 2)
        # when: it takes the message in by a clock that is a day behind, and leads by the right one
        time.jump_ms(-DAY_MS)
        await seconds(desk, time, 61)
        told = struct.pack(">7q", sent_ms, 7, 1, 1, 4, 5, 6)
        desk.tables.kept.timer_check_point.adopt(told)
        await seconds(desk, time, 1)
        await enqueued(desk)
        time.jump_ms(DAY_MS)
        await seconds(desk, time, 61)
        desk.lead(3)
        await seconds(desk, time, 1)
        # then: the message comes
        await delivered(desk, 1)
        assert await bodies(desk) == [b"now", b"a"]


async def followed_by_less(desk: Desk, time: TimeMachine, offset: int) -> None:
    """Five messages of 2 to 6 s are in the wheel of a master; the next one, whose slave it is, has
    only those in front of `offset` in its wheel when their time is over, as Java's may.
    """
    await desk.ask(send_request("T", b"now"))
    for number in range(5):
        await desk.ask(timed(b"%d" % number, {"TIMER_DELAY_SEC": 2 + number}))
    await enqueued(desk)
    desk.store.checkpoint()
    turn(desk)
    assert (await check_point(desk))[3] == 5
    desk.follow("127.0.0.1:1", 2)
    told = struct.pack(">7q", time.now_ms + 10_000, 7, offset, offset, 2, 6, 7)
    await seconds(desk, time, 1)
    desk.tables.kept.timer_check_point.adopt(told)
    await seconds(desk, time, 11)


async def test_86_what_the_wheel_of_the_master_lacked_is_not_lost_with_it(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await followed_by_less(desk, time, 2)
        desk.lead(3)
        await seconds(desk, time, 1)
        await delivered(desk, 3)
        turn(desk)
        assert await bodies(desk) == [b"now", b"2", b"3", b"4"]


async def test_86_what_the_wheel_of_the_master_lacked_outlives_a_restart(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await followed_by_less(desk, time, 2)
        await flushed(desk, time, 5)
        own, its_masters = (await check_point(desk))[2:4]
        assert (own, its_masters) == (5, 2)
    async with Desk(tmp_path) as desk:
        time = TimeMachine(desk)
        time.pass_ms(20_000)
        desk.lead(3)
        await delivered(desk, 3)
        turn(desk)
        assert sorted(await bodies(desk)) == [b"2", b"3", b"4", b"now"]


async def test_a_master_that_caught_up_has_delivered_what_it_says(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await followed_by_less(desk, time, 2)
        told = struct.pack(">7q", time.now_ms, 7, 5, 5, 2, 7, 8)
        desk.tables.kept.timer_check_point.adopt(told)
        await seconds(desk, time, 1)
        desk.lead(3)
        await desk.ask(timed(b"5", {"TIMER_DELAY_SEC": 1}))
        await seconds(desk, time, 3)
        await delivered(desk, 1)
        assert await bodies(desk) == [b"now", b"5"]


async def test_33_the_file_is_rocketmqs(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(timed(b"a", {"TIMER_DELAY_SEC": 9}))
        await enqueued(desk)
        desk.store.checkpoint()
        time.pass_ms(1_000)
        turn(desk)
        await flushed(desk, time, 1)
        told = await check_point(desk)
        desk.tables.kept.save()
        data = (tmp_path / "config" / "timercheck").read_bytes()
        assert len(data) == 4096 and struct.unpack(">7q", data[:56]) == told
        assert told[1:4] == (52, 1, 1)
    assert (tmp_path / "timerwheel").stat().st_size == WHEEL_BYTES
    assert (tmp_path / "timerlog" / f"{0:020d}").stat().st_size == 100 << 20


async def restarted(folder: Path, time_ms: int, after_ms: int) -> tuple[Desk, TimeMachine]:
    """The broker of a folder, so much later. Not entered yet."""
    desk = Desk(folder)
    time = TimeMachine(desk)
    time.pass_ms(time_ms + after_ms - time.now_ms)
    return desk, time


@pytest.mark.parametrize("after_s", [1, 60])
@pytest.mark.parametrize(
    "lost",
    [
        (),
        ("timerwheel",),
        ("timerlog",),
        ("timerwheel", "timerlog"),
        ("timerwheel", "timerlog", "config/timercheck"),
        ("config/timercheck",),
    ],
    ids=lambda lost: "+".join(lost) or "nothing",
)
async def test_31_32_every_message_comes_after_a_restart_whatever_is_missing(
    tmp_path: Path, lost: tuple[str, ...], after_s: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        for number, delay in enumerate((1, 20, 20, 40)):
            await desk.ask(timed(b"%d" % number, {"TIMER_DELAY_SEC": delay}))
        await enqueued(desk)
        await seconds(desk, time, 3)
        await delivered(desk, 1)
        desk.store.checkpoint()
        turn(desk)
    for name in lost:
        path = tmp_path / name
        for file in path.iterdir() if path.is_dir() else (path,):
            file.unlink()
    desk, later = await restarted(tmp_path, time.now_ms, after_s * 1_000)
    async with desk:
        desk.lead(2)
        begin = [b"now", b"0"]
        await enqueued(desk)
        turn(desk)
        if after_s == 1:
            assert not {b"1", b"2", b"3"} & set(await bodies(desk))
            await seconds(desk, later, 45)
        again = 1 if "config/timercheck" in lost else 0  # nobody knows what was delivered
        await delivered(desk, 3 + again)
        found = await bodies(desk)
        assert found[2 + again :] == [b"1", b"2", b"3"] and found[:2] == begin
        assert found[2 : 2 + again] == [b"0"] * again


@pytest.mark.parametrize("found_late", [False, True])
@pytest.mark.parametrize("moment", ["waiting", "delivered"])
async def test_31_a_kill_at_any_moment_loses_nothing(
    tmp_path: Path, moment: str, found_late: bool
) -> None:
    async with Desk(tmp_path / "killed") as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        for number, delay in enumerate((1, 1, 20, 20)):
            await desk.ask(timed(b"%d" % number, {"TIMER_DELAY_SEC": delay}))
        if moment == "delivered":
            await enqueued(desk)
            await seconds(desk, time, 3)
            await delivered(desk, 2)
        desk.store.log.flush()
        flush = desk.service.timers._keeping._flush
        await until(lambda: flush is None or flush.done(), "nothing is being written")
        left = time.now_ms
        shutil.copytree(tmp_path / "killed", tmp_path / "left")  # as its disk is at this moment
    (tmp_path / "left" / "abort").touch()
    desk, later = await restarted(tmp_path / "left", left, 1_000)
    async with desk:
        if found_late:  # what the wheel knows is not confirmed again before somebody says so
            desk.lead(2)
            await seconds(desk, later, 2)
            assert desk.service.timers.did.gone == desk.service.timers.did.delivered == 0
        desk.service.confirmed(desk.store.log_end)
        if not found_late:
            desk.lead(2)
        await enqueued(desk)
        turn(desk)
        await seconds(desk, later, 3)
        await delivered(desk, 2)
        assert not {b"2", b"3"} & set(await bodies(desk))
        await seconds(desk, later, 20)
        await delivered(desk, 4)
        found = await bodies(desk)
        assert set(found) == {b"now", b"0", b"1", b"2", b"3"}
        assert found.count(b"2") == found.count(b"3") == 1


async def test_who_was_away_for_longer_than_the_wheel_delivers_all_the_same(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        for number in range(3):
            await desk.ask(timed(b"%d" % number, {"TIMER_DELAY_SEC": 5 + number * 60_000}))
        await enqueued(desk)
        desk.store.checkpoint()
        turn(desk)
    desk, _ = await restarted(tmp_path, time.now_ms, 20 * DAY_MS)
    async with desk:
        desk.lead(2)
        await delivered(desk, 3)
        assert await bodies(desk) == [b"now", b"0", b"1", b"2"]


async def test_88_a_check_point_that_was_cut_is_told_and_never_guessed(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "timercheck").write_bytes(bytes(40))
    with pytest.raises(Exception, match="restore the file, or remove it"):
        Desk(tmp_path)


async def test_a_damaged_message_is_waited_for_and_then_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"a" * 50, {"TIMER_DELAY_SEC": 1}))
        end = desk.store.log_end
        await desk.ask(timed(b"b", {"TIMER_DELAY_SEC": 1}))
        await enqueued(desk)
        path = next((tmp_path / "commitlog").iterdir())
        data = bytearray(path.read_bytes())
        data[data.index(b"a" * 50, 0, end)] ^= 1  # its body stands in front of its key
        path.write_bytes(data)
        await seconds(desk, time, 5)
        assert desk.service.timers.did.delivered == 0
        monkeypatch.setattr(deliveries, "DAMAGED_WAIT_MS", 0)
        await seconds(desk, time, 1)
        await delivered(desk, 1)
        assert desk.service.timers.did.parked == 1


async def test_a_disk_that_takes_no_unit_holds_nothing_up_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"a", {"TIMER_DELAY_SEC": 1}))
        await enqueued(desk)
        files = desk.service.timers._files
        assert files is not None

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(files.log, "append", full)
            answer = await desk.ask(timed(b"b", {"TIMER_DELAY_SEC": 1}))
            assert answer.code == 0, "the topic has it"
            await seconds(desk, time, 5)
            assert desk.service.timers.behind == 1
        await seconds(desk, time, 3)
        await delivered(desk, 2)
        assert sorted(await bodies(desk)) == [b"a", b"b", b"now"]


@pytest.mark.parametrize("stopped", ["stop_enqueue", "stop_dequeue"])
async def test_each_side_of_the_wheel_can_be_stopped(tmp_path: Path, stopped: str) -> None:
    rules = TimerRules("b", **{stopped: True})  # type: ignore[arg-type]
    async with Desk(tmp_path, timers=rules) as desk:
        desk.lead()
        time = TimeMachine(desk)
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"a", {"TIMER_DELAY_SEC": 1}))
        await seconds(desk, time, 4)
        assert desk.service.timers.behind == (stopped == "stop_enqueue")
        assert desk.service.timers.did.delivered == 0


async def test_without_a_wheel_a_time_is_refused(tmp_path: Path) -> None:
    async with Desk(tmp_path, timers=TimerRules("b", enabled=False)) as desk:
        desk.lead()
        answer = await desk.ask(timed(b"a", {"TIMER_DELAY_SEC": 1}))
        assert answer.code == 1 and "timerWheelEnable is false" in (answer.remark or "")
        turn(desk)
    assert not (tmp_path / "timerwheel").exists()


@pytest.mark.parametrize(
    "properties", [{"TIMER_DELAY_SEC": 1}, {"TIMER_DELIVER_MS": 1}, {"TIMER_DELAY_MS": 5}]
)
async def test_a_batch_has_no_time(tmp_path: Path, properties: Mapping[str, object]) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        request = timed(b"a", properties)
        request.ext["m"] = "true"
        answer = await desk.ask(request)
        assert answer.code == 13 and "a batch cannot be delayed" in (answer.remark or "")


async def test_59_pop_is_told_until_when_everything_is_delivered(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        time, timers = TimeMachine(desk), desk.service.timers
        assert timers.delivered_until_ms == 0  # it does not lead
        desk.lead()
        assert timers.delivered_until_ms == time.now_ms  # nothing ever waited
        await desk.ask(send_request("T", b"now"))
        await desk.ask(timed(b"later", {"TIMER_DELAY_MS": 2_500}))
        await enqueued(desk)
        assert timers.delivered_until_ms <= time.now_ms
        time.pass_ms(4_000)
        await until(lambda: timers.delivered_until_ms == time.now_ms, "the slot is read")
        assert await bodies(desk) == [b"now", b"later"]
