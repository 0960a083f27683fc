"""Two sets without controllers, one of whose masters goes away: what is due of it is delivered by
its slave through the master of the other set, and the master goes on behind it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.service.popping.names import REVIVE_GROUP
from brokers.service.transactions.end_requests import COMMIT
from brokers.service.transactions.forms import GROUP
from brokers.store.log.records import StoredMessage, decode_messages, parse_offset_message_id
from infra.features.pop_requests import ack_request, gotten, pop_request
from tests.support.brokers import broker_config, call, send_request, start_broker, until
from tests.support.timers import timed

HALF_TOPIC, REVIVE = "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_REVIVE_LOG_regent"


async def broker(folder: Path, name: str, broker_id: int, name_server: str) -> BrokerProcess:
    return await start_broker(
        broker_config(
            folder / f"{name}{broker_id}",
            [],
            [name_server],
            broker_name=name,
            broker_id=broker_id,
            in_sync_replicas=1,
            name_server_register_ms=1_000,
            ack_timeout_ms=20_000,
            transaction_timeout_ms=1_000,
            transaction_check_interval_ms=1_000,
            slave_read_enable=True,
            enable_remote_escape=True,
        )
    )


class Sets:
    """Set `a` with master and slave, set `b` with a master."""

    def __init__(self, folder: Path, name_server: str) -> None:
        self._folder, self._name_server = folder, name_server

    async def start(self, client: RemotingClient) -> None:
        self.master = await broker(self._folder, "a", 0, self._name_server)
        self.slave = await broker(self._folder, "a", 1, self._name_server)
        self.other = await broker(self._folder, "b", 0, self._name_server)
        await until(lambda: self.master.roles.serving and self.other.roles.serving, "masters lead")
        for one in (self.master, self.other):
            assert (await call(client, one, send_request("T", b"first"))).code == 0
        await self.copied()

    async def copied(self) -> None:
        master, slave = self.master.store, self.slave.store
        await until(lambda: slave.dispatched_offset == master.log_end, "the slave has it")
        topics = self.master.tables.topics.configs
        await until(
            lambda: set(self.slave.tables.topics.configs) >= set(topics), "the slave has its topics"
        )

    async def master_goes_away(self) -> None:
        await self.master.stop("test")
        self.slave.service.acting_begins()

    async def stop(self) -> None:
        for one in (self.slave, self.other):
            await one.stop("test")


@pytest.fixture
async def sets(tmp_path: Path, name_server: str, client: RemotingClient) -> AsyncIterator[Sets]:
    made = Sets(tmp_path, name_server)
    await made.start(client)
    yield made
    await made.stop()


def nothing_comes_due(broker: BrokerProcess) -> None:
    """It takes what waits for its time and delivers none of it, however long the rest takes."""
    began_ms = broker.clock.wall_ms()
    broker.service.timers.now_ms = lambda: began_ms  # type: ignore[method-assign]
    broker.service.delivery.tick = lambda now_ms: None  # type: ignore[method-assign]


def records(broker: BrokerProcess, topic: str = "T") -> list[StoredMessage]:
    found = decode_messages(broker.store.read_log(0, broker.store.log_end))
    return [one for one in found if one.fields.topic == topic and one.fields.body != b"first"]


def bodies(broker: BrokerProcess) -> list[bytes]:
    return sorted(one.fields.body for one in records(broker))


def delayed(body: bytes, level: int) -> RemotingCommand:
    request = send_request("T", body, key=body.decode())
    request.ext["i"] += f"DELAY\x01{level}\x02"
    return request


def half(key: str) -> RemotingCommand:
    request = send_request("T", key.encode(), key=key)
    request.ext["g"] = str(int(time.time() * 1000))
    request.ext["f"] = "4"
    request.ext["i"] += "TRAN_MSG\x01true\x02PGROUP\x01pg\x02"
    return request


def end(sent: dict[str, str]) -> RemotingCommand:
    """A commit as a producer makes it of the answer to its half."""
    fields = {
        "producerGroup": "pg",
        "tranStateTableOffset": sent["queueOffset"],
        "commitLogOffset": str(parse_offset_message_id(sent["msgId"])[1]),
        "commitOrRollback": str(COMMIT),
        "msgId": sent["transactionId"],
    }
    return RemotingCommand.request(37, fields)


def committed(asked: RemotingCommand) -> RemotingCommand:
    """The answer to a question about a half."""
    fields = {
        "producerGroup": "pg",
        "tranStateTableOffset": asked.ext["tranStateTableOffset"],
        "commitLogOffset": asked.ext["commitLogOffset"],
        "commitOrRollback": str(COMMIT),
        "fromTransactionCheck": "true",
        "msgId": asked.ext["msgId"],
    }
    return RemotingCommand.request(37, fields)


async def greet(producer: RemotingClient, broker: BrokerProcess) -> None:
    body = {"clientID": "p1", "producerDataSet": [{"groupName": "pg"}], "consumerDataSet": []}
    answer = await call(producer, broker, RemotingCommand.request(34, body=fastjson.dumps(body)))
    assert answer.code == 0


async def test_delay_levels(sets: Sets, client: RemotingClient) -> None:
    nothing_comes_due(sets.master)
    wanted = [b"%03d" % number for number in range(100)]
    sent = [await call(client, sets.master, delayed(body, 2)) for body in wanted]
    assert all(answer.code == 0 for answer in sent)
    await sets.copied()
    stored = {one.fields.body: one.store_ms for one in records(sets.slave, "SCHEDULE_TOPIC_XXXX")}
    await sets.master_goes_away()
    log_end = sets.slave.store.log_end
    kept = sets.slave.tables.kept
    await until(lambda: kept.table(45).get("2") == 100, "the slave tells that all are delivered")
    assert bodies(sets.other) == wanted and sets.slave.store.log_end == log_end
    assert all(one.store_ms - stored[one.fields.body] >= 5_000 for one in records(sets.other))
    assert not sets.slave.roles.serving


async def test_timed_messages(sets: Sets, client: RemotingClient) -> None:
    nothing_comes_due(sets.master)
    wanted = [b"%03d" % number for number in range(50)]
    due_ms = int(time.time() * 1000) + 8_000
    for body in wanted:
        answer = await call(client, sets.master, timed(body, {"TIMER_DELIVER_MS": due_ms}))
        assert answer.code == 0, answer.remark
    await sets.copied()
    await sets.master_goes_away()
    log_end, check = sets.slave.store.log_end, sets.slave.tables.kept.timer_check_point
    await until(lambda: check.read_ms > due_ms, "the slave tells that their slot is done")
    assert bodies(sets.other) == wanted and sets.slave.store.log_end == log_end
    assert all(one.store_ms >= due_ms for one in records(sets.other))


async def test_transactions(sets: Sets, client: RemotingClient) -> None:
    sent = {}
    for number in range(6):
        answer = await call(client, sets.master, half(f"K{number}"))
        assert answer.code == 0, answer.remark
        sent[number] = answer.ext
    for number in (1, 4):
        assert (await call(client, sets.master, end(sent[number]))).code == 0
    await sets.copied()
    asked: dict[str, RemotingCommand] = {}
    answers: list[asyncio.Future[RemotingCommand]] = []
    producer = RemotingClient(lambda _, request: asked.update({request.ext["msgId"]: request}))
    try:
        await greet(producer, sets.other)
        await sets.master_goes_away()
        await until(
            lambda: sets.slave.tables.offsets.query(GROUP, HALF_TOPIC, 0) == 6,
            "the slave tells that all have left",
        )
        await until(lambda: set(asked) == {"K0", "K2", "K3", "K5"}, "the other master asks")
        for request in asked.values():
            answers.append(asyncio.ensure_future(call(client, sets.other, committed(request))))
        assert {one.code for one in await asyncio.gather(*answers)} == {0}
        await until(lambda: bodies(sets.other) == [b"K0", b"K2", b"K3", b"K5"], "all are there")
    finally:
        await producer.close()


async def test_popped_messages(sets: Sets, client: RemotingClient) -> None:
    """Of three that are popped one is acknowledged; the master goes when their check point is in
    the revive topic, and the acknowledgement is in it or still in the wheel.
    """
    for number in range(3):
        assert (await call(client, sets.master, send_request("P", b"%d" % number, 0))).code == 0
    assert (await call(client, sets.other, send_request("P", b"there", 0))).code == 0
    answer = await call(client, sets.master, pop_request("P", queueId=0, invisibleTime=3_000))
    first, *rest = gotten(answer, "a")
    assert len(rest) == 2
    assert (await call(client, sets.master, ack_request(first.handle, "P"))).code == 0
    await until(lambda: records(sets.master, REVIVE), "the check point came out of the wheel")
    await sets.copied()
    await sets.master_goes_away()
    await until(
        lambda: any(
            sets.slave.tables.offsets.query(REVIVE_GROUP, REVIVE, number) is not None
            for number in range(8)
        ),
        "the slave tells that the check point is done",
    )
    copies = [one.fields.body for one in records(sets.other, "%RETRY%g_P")]
    assert sorted(map(bytes, copies)) == [b"1", b"2"]


async def test_popped_messages_whose_check_point_is_still_in_the_wheel(
    sets: Sets, client: RemotingClient
) -> None:
    """The other set's reviver has the check point, and the slave has its messages."""
    nothing_comes_due(sets.master)
    for number in range(3):
        assert (await call(client, sets.master, send_request("P", b"%d" % number, 0))).code == 0
    assert (await call(client, sets.other, send_request("P", b"there", 0))).code == 0
    answer = await call(client, sets.master, pop_request("P", queueId=0, invisibleTime=8_000))
    first, *rest = gotten(answer, "a")
    assert len(rest) == 2
    assert (await call(client, sets.master, ack_request(first.handle, "P"))).code == 0
    await sets.copied()
    assert not records(sets.master, REVIVE)
    await sets.master_goes_away()
    await until(
        lambda: len(records(sets.other, "%RETRY%g_P")) >= 2, "the other set has fetched them"
    )
    copies = [one.fields.body for one in records(sets.other, "%RETRY%g_P")]
    assert sorted(map(bytes, copies)) == [b"1", b"2"] and not records(sets.slave, REVIVE)
