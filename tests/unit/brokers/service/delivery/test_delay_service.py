"""Delayed messages on a real store: delivered in order, not before their time, and told only when
their copies are safe.
"""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.delivery import delay_service
from brokers.store.log.properties import SCHEDULE_TOPIC, decode_properties
from brokers.store.log.records import StoredMessage, decode_messages
from tests.support.brokers import pull_request, send_request, until
from tests.support.client_service import Desk


def delayed(body: bytes, level: int | str, topic: str = "T", queue_id: int = 0) -> RemotingCommand:
    request = send_request(topic, body, queue_id)
    request.ext["i"] = f"UNIQ_KEY\x01{body.decode()}\x02TAGS\x01t\x02DELAY\x01{level}\x02"
    return request


async def read(desk: Desk, topic: str = "T", queue_id: int = 0) -> list[StoredMessage]:
    answer = await desk.ask(pull_request(topic, queue_id, 0))
    return decode_messages(answer.body) if answer.code == 0 else []


async def places(desk: Desk) -> dict[str, int]:
    body = fastjson.loads((await desk.ask(RemotingCommand.request(45))).body)
    assert isinstance(body, dict)
    return {str(level): place for level, place in body["offsetTable"].items()}


def standing(folder: Path) -> Desk:
    """A broker whose wall clock moves when a test says so."""
    desk = Desk(folder)
    desk.stand_at(0)
    return desk


async def test_1_a_message_comes_when_it_is_due_to_the_queue_that_was_chosen(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"now"))
        answer = await desk.ask(delayed(b"later", 3, queue_id=2))
        assert (answer.code, answer.ext["queueId"], answer.ext["queueOffset"]) == (0, "2", "0")
        (waiting,) = await read(desk, SCHEDULE_TOPIC, 2)
        assert waiting.fields.body == b"later"
        for offset_ms in (0, 9_000):
            desk.stand_at(offset_ms)
            desk.service.delivery.tick(1)
            assert not await read(desk, "T", 2)
        desk.stand_at(10_100)
        await until(lambda: desk.service.delivery.delivered == 1, "it is delivered")
        (copy,) = await read(desk, "T", 2)
        assert copy.fields.body == b"later" and copy.store_ms >= waiting.store_ms + 10_000
        assert decode_properties(copy.fields.properties)["REAL_TOPIC"] == "T"


async def test_6_a_level_keeps_its_order_and_a_short_one_overtakes(tmp_path: Path) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        await desk.ask(send_request("T", b"now"))
        for number in range(100):
            await desk.ask(delayed(b"m%03d" % number, 2))
        await desk.ask(delayed(b"short", 1))
        desk.stand_at(1_500)
        await until(lambda: desk.service.delivery.delivered == 1, "the short one is delivered")
        desk.stand_at(6_000)
        await until(lambda: desk.service.delivery.delivered == 101, "all are delivered")
        bodies = [
            record.fields.body
            for record in decode_messages(desk.store.read_log(0, desk.store.log_end))
            if record.fields.topic == "T"
        ]
        assert bodies == [b"now", b"short", *(b"m%03d" % number for number in range(100))]


async def test_11_a_clock_that_steps_back_holds_nothing_for_longer_than_its_level(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        await desk.ask(delayed(b"a", 2))
        desk.stand_at(-3_600_000)
        desk.service.delivery.tick(1)
        desk.stand_at(-3_600_000 + 4_000)
        desk.service.delivery.tick(100)
        assert desk.service.delivery.delivered == 0, "nothing comes early"
        desk.stand_at(-3_600_000 + 5_100)
        await until(lambda: desk.service.delivery.delivered == 1, "it is delivered")


async def test_places_are_told_when_their_copies_are_durable_and_a_successor_goes_on_there(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        for number in range(3):
            await desk.ask(delayed(b"%d" % number, 1))
        desk.store.checkpoint()
        desk.stand_at(1_500)
        await until(lambda: desk.service.delivery.delivered == 3, "all are delivered")
        assert await places(desk) in ({}, {"1": 0})
        desk.store.checkpoint()
        desk.service.delivery.tick(1)
        assert await places(desk) == {"1": 3}
        await desk.ask(delayed(b"3", 1))
        desk.service.mastership_over()
        desk.lead(2)
        desk.stand_at(5_000)
        await until(lambda: desk.service.delivery.delivered == 4, "the next one is delivered")
        bodies = [each.fields.body for each in await read(desk)]
        assert bodies == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(("told", "first"), [(7, 2), (-4, 0), (1, 1), ("x", 0)])
async def test_10_a_place_outside_of_the_queue_is_moved_into_it(
    tmp_path: Path, told: object, first: int
) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        for number in range(2):
            await desk.ask(delayed(b"%d" % number, 1))
        desk.service.mastership_over()
        desk.tables.kept.put(45, {"1": told, "99": 3}, None)
        desk.lead(2)
        await desk.ask(delayed(b"2", 1))
        desk.stand_at(2_000)
        await until(lambda: desk.service.delivery.delivered == 3 - first, "the rest is delivered")
        bodies = [each.fields.body for each in await read(desk)]
        assert bodies == [b"0", b"1", b"2"][first:]


async def test_12_a_put_that_is_refused_is_tried_again_in_order(tmp_path: Path) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        for number in range(40):
            await desk.ask(delayed(b"%02d" % number, 1))
        desk.refusal = "in-sync replicas not enough: 1 of 2"
        desk.stand_at(1_500)
        for _ in range(3):
            desk.service.delivery._again_ms = 0
            desk.service.delivery.tick(1)
        assert desk.service.delivery.delivered == 0 and not await read(desk)
        desk.refusal = None
        await until(lambda: desk.service.delivery.delivered == 40, "all are delivered")
        assert [each.fields.body for each in await read(desk)][:3] == [b"00", b"01", b"02"]


async def test_13_a_record_that_goes_nowhere_is_counted_and_holds_nothing_up(
    tmp_path: Path,
) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        await desk.ask(delayed(b"a", 1))
        strange = decode_messages(desk.store.read_log(0, desk.store.log_end))[0].fields
        cut = strange.properties.replace(b"REAL_QID\x010\x02", b"")
        desk.store.put(replace(strange, properties=cut), desk.clock.wall_ms())
        desk.service.confirmed(desk.store.log_end)
        await desk.ask(delayed(b"b", 1))
        desk.stand_at(1_500)
        await until(lambda: desk.service.delivery.delivered == 2, "the others are delivered")
        assert desk.service.delivery.parked == 1
        assert [each.fields.body for each in await read(desk)] == [b"a", b"b"]


async def test_a_damaged_message_is_waited_for_and_then_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        await desk.ask(delayed(b"a" * 50, 1))
        end = desk.store.log_end
        await desk.ask(delayed(b"b", 1))
        path = next((tmp_path / "commitlog").iterdir())
        data = bytearray(path.read_bytes())
        place = data.index(b"a" * 50, 0, end)
        data[place] ^= 1
        path.write_bytes(data)
        desk.stand_at(1_500)
        for _ in range(3):
            desk.service.delivery.tick(1)
        assert desk.service.delivery.delivered == 0
        monkeypatch.setattr(delay_service, "DAMAGED_WAIT_MS", 0)
        await until(lambda: desk.service.delivery.delivered == 1, "the one behind is delivered")
        assert desk.service.delivery.parked == 1


async def test_a_slave_delivers_nothing(tmp_path: Path) -> None:
    async with standing(tmp_path) as desk:
        desk.lead()
        await desk.ask(delayed(b"a", 1))
        desk.follow("127.0.0.1:1", 2)
        desk.stand_at(5_000)
        desk.service.delivery.tick(1)
        await asyncio.sleep(0)
        assert desk.service.delivery.delivered == 0
        desk.lead(3)
        await until(lambda: desk.service.delivery.delivered == 1, "its next master does")
