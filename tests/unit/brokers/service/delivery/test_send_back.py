"""What consumers send back: retries with growing delay, then a dead letter (PROTOCOL 4.14)."""

import asyncio
from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.replica.waiters import Confirmation
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.properties import SCHEDULE_TOPIC, decode_properties
from brokers.store.log.records import StoredMessage, decode_messages, offset_message_id
from tests.support.brokers import send_request, until
from tests.support.client_service import Desk

GROUP = "cg"


async def stored(desk: Desk, topic: str = "T", reconsumed: int = 0) -> StoredMessage:
    request = send_request(topic, b"x")
    request.ext["j"] = str(reconsumed)
    assert (await desk.ask(request)).code == 0
    return log(desk)[-1]


def log(desk: Desk) -> list[StoredMessage]:
    return decode_messages(desk.store.read_log(0, desk.store.log_end))


def back(
    failed: StoredMessage | int, level: int = 0, group: str = GROUP, **ext: str
) -> RemotingCommand:
    offset = failed if isinstance(failed, int) else failed.physical_offset
    fields = {"offset": str(offset), "group": group, "delayLevel": str(level), **ext}
    return RemotingCommand.request(36, fields)


@pytest.mark.parametrize(
    ("reconsumed", "level", "waits_in"), [(0, 0, 2), (1, 0, 3), (5, 0, 7), (0, 1, 0), (3, 18, 17)]
)
async def test_14_a_retry_waits_in_the_level_asked_for_or_in_a_later_one_each_time(
    tmp_path: Path, reconsumed: int, level: int, waits_in: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        failed = await stored(desk, reconsumed=reconsumed)
        assert (await desk.ask(back(failed, level))).code == 0
        again = log(desk)[-1].fields
        assert (again.topic, again.queue_id) == (SCHEDULE_TOPIC, waits_in)
        assert again.reconsume_times == reconsumed + 1 and again.body == b"x"
        found = decode_properties(again.properties)
        assert found["REAL_TOPIC"] == "%RETRY%cg" and found["RETRY_TOPIC"] == "T"
        assert found["ORIGIN_MESSAGE_ID"] == offset_message_id(
            failed.fields.store_host, failed.physical_offset
        )
        assert found["WAIT"] == "false"


@pytest.mark.parametrize(
    ("reconsumed", "level", "ext", "group_max", "dead"),
    [
        (15, 0, {}, 16, False),
        (16, 0, {}, 16, True),
        (0, -1, {}, 16, True),
        (2, 0, {"maxReconsumeTimes": "2"}, 16, True),
        (2, 0, {"maxReconsumeTimes": "3"}, 1, False),
        (1, 0, {}, 1, True),
        (0, 0, {"originTopic": "T", "originMsgId": "x", "unitMode": "false"}, 16, False),
    ],
)
async def test_15_and_16_after_its_tries_a_message_is_a_dead_letter(
    tmp_path: Path, reconsumed: int, level: int, ext: dict[str, str], group_max: int, dead: bool
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        desk.tables.groups.put({"groupName": GROUP, "retryMaxTimes": group_max}, 0)
        failed = await stored(desk, reconsumed=reconsumed)
        assert (await desk.ask(back(failed, level, **ext))).code == 0
        again = log(desk)[-1].fields
        found = decode_properties(again.properties)
        if dead:
            assert (again.topic, again.queue_id, found["DELAY"]) == ("%DLQ%cg", 0, "0")
            assert "REAL_TOPIC" not in found
            assert desk.tables.topics.get("%DLQ%cg") == TopicConfig("%DLQ%cg", 1, 1)
        else:
            assert again.topic == SCHEDULE_TOPIC
        assert found["RETRY_TOPIC"] == "T" and "ORIGIN_MESSAGE_ID" in found


async def test_15_a_dead_letter_names_the_first_message(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        first = await stored(desk)
        await desk.ask(back(first, 1))
        await desk.ask(back(log(desk)[-1], -1))
        found = decode_properties(log(desk)[-1].fields.properties)
        assert found["RETRY_TOPIC"] == "T"
        assert found["ORIGIN_MESSAGE_ID"] == offset_message_id(
            first.fields.store_host, first.physical_offset
        )


@pytest.mark.parametrize("shift", [-1, 1, 10, 100_000])
async def test_17_an_offset_where_no_message_begins_stores_nothing(
    tmp_path: Path, shift: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        failed = await stored(desk)
        end = desk.store.log_end
        answer = await desk.ask(back(failed.physical_offset + shift))
        assert answer.code == 1 and "look message by offset failed" in str(answer.remark)
        assert desk.store.log_end == end


async def test_18_a_group_without_retry_queues_is_answered_and_nothing_is_stored(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        desk.tables.groups.put({"groupName": GROUP, "retryQueueNums": 0}, 0)
        failed = await stored(desk)
        end = desk.store.log_end
        assert (await desk.ask(back(failed))).code == 0 and desk.store.log_end == end


@pytest.mark.parametrize(
    ("ext", "code"),
    [
        ({"group": "bad group"}, 26),
        ({"group": ""}, 26),
        ({"delayLevel": "x"}, 1),
        ({"offset": "x"}, 1),
    ],
)
async def test_what_cannot_be_read_is_refused(
    tmp_path: Path, ext: dict[str, str], code: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        request = back(await stored(desk))
        request.ext.update(ext)
        assert (await desk.ask(request)).code == code


async def test_an_unknown_group_and_its_topic_are_made(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        failed = await stored(desk)
        assert (await desk.ask(back(failed))).code == 0
        assert desk.tables.groups.get(GROUP) is not None
        assert desk.tables.topics.get("%RETRY%cg") is not None
        assert "%RETRY%cg" not in desk.changes.unheld


async def test_success_is_answered_only_when_the_members_hold_the_retry(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        failed = await stored(desk)
        await desk.ask(back(failed))
        desk.confirm_at_once = False
        for how, code, remark in (
            (Confirmation.CONFIRMED, 0, None),
            (Confirmation.TIMED_OUT, 1, "FLUSH_SLAVE_TIMEOUT"),
        ):
            waiting = asyncio.ensure_future(desk.ask(back(failed)))
            await until(lambda: desk.waits, "the retry is written")
            assert not waiting.done() and desk.service.unfinished() == 1
            desk.confirm(how)
            answer = await waiting
            assert (answer.code, answer.remark) == (code, remark)


async def test_a_slave_passes_it_on_to_its_master(tmp_path: Path) -> None:
    async with Desk(tmp_path / "a") as master, Desk(tmp_path / "b") as slave:
        master.lead()
        failed = await stored(master)
        slave.follow(master.address)
        assert (await slave.ask(back(failed))).code == 0
        assert log(master)[-1].fields.topic == SCHEDULE_TOPIC and slave.store.log_end == 0


async def test_a_moment_without_enough_replicas_loses_no_retry(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        failed = await stored(desk)
        await desk.ask(back(failed))
        desk.refusal = "in-sync replicas not enough: 1 of 2"
        waiting = asyncio.ensure_future(desk.ask(back(failed)))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        desk.refusal = None
        assert (await waiting).code == 0


@pytest.mark.parametrize(
    ("reconsumed", "own_max", "locked", "topic"),
    [
        (16, "16", False, "%RETRY%cg"),
        (17, "16", False, "%DLQ%cg"),
        (17, None, False, "%DLQ%cg"),
        (3, None, False, "%RETRY%cg"),
        (0, None, True, "%DLQ%cg"),
    ],
)
async def test_19_a_send_to_the_retry_topic_ends_among_the_dead_letters(
    tmp_path: Path, reconsumed: int, own_max: str | None, locked: bool, topic: str
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        await stored(desk)
        if locked:
            rows = [{"brokerName": "b", "topic": "T", "queueId": 0}]
            body = {"consumerGroup": GROUP, "clientId": "c", "mqSet": rows}
            await desk.ask(RemotingCommand.request(41, body=fastjson.dumps(body)))
        request = send_request("%RETRY%cg", b"again")
        request.ext["j"] = str(reconsumed)
        if own_max is not None:
            request.ext["l"] = own_max
        assert (await desk.ask(request)).code == 0
        kept = log(desk)[-1].fields
        assert kept.topic == topic
        delay = decode_properties(kept.properties).get("DELAY")
        assert delay == ("-1" if topic.startswith("%DLQ%") else None)
