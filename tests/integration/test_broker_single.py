"""One broker with a real store on real sockets: what clients see of a master."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.process.broker import BrokerProcess
from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.store.files.errors import LogError
from brokers.store.log.batch_units import BatchUnit, encode_batch
from brokers.store.log.records import decode_messages
from brokers.store.recovery.boot import BootMarker
from tests.support.brokers import (
    broker_config,
    call,
    pull_request,
    send_request,
    start_broker,
    until,
)
from tests.support.scripted_controller import ScriptedController


@pytest.fixture
async def broker(tmp_path: Path, controller: ScriptedController) -> AsyncIterator[BrokerProcess]:
    made = await start_broker(broker_config(tmp_path / "store", [controller.address]))
    await until(lambda: made.roles.serving, "the broker serves")
    yield made
    await made.stop("test")


async def test_a_fresh_broker_gets_its_id_and_becomes_master(
    broker: BrokerProcess, controller: ScriptedController, tmp_path: Path
) -> None:
    assert controller.heard_codes()[:4] == [1012, 1013, 1003, 1002]
    assert (
        tmp_path / "store" / "brokerIdentity"
    ).read_text() == f"regent#broker-a#1#{controller.codes[1]}"
    assert not (tmp_path / "store" / "brokerIdentity-temp").exists()
    assert (tmp_path / "store" / "epochFileCheckpoint").read_text().splitlines()[2:] == ["1-0"]


async def test_a_message_is_sent_and_pulled_byte_for_byte(
    broker: BrokerProcess, client: RemotingClient
) -> None:
    answer = await call(client, broker, send_request("T", b"hello", 1))
    assert (
        answer.code,
        answer.ext["queueId"],
        answer.ext["queueOffset"],
        answer.ext["transactionId"],
    ) == (0, "1", "0", "K1")
    assert len(answer.ext["msgId"]) == 32 and answer.ext["MSG_REGION"] == "DefaultRegion"
    pulled = await call(client, broker, pull_request("T", 1, 0))
    (message,) = decode_messages(pulled.body)
    assert (
        pulled.code == 0
        and pulled.ext["nextBeginOffset"] == "1"
        and message.fields.body == b"hello"
    )
    assert b"CLUSTER\x01regent\x02" in message.fields.properties


async def test_many_pipelined_sends_keep_their_order_within_a_queue(
    broker: BrokerProcess, client: RemotingClient
) -> None:
    # The first sends of a topic wait until it is there and may be overtaken meanwhile.
    assert (await call(client, broker, send_request("T", b"first", 3))).code == 0
    answers = await asyncio.gather(
        *(
            call(client, broker, send_request("T", b"%d" % number, number % 2))
            for number in range(500)
        )
    )
    assert {answer.code for answer in answers} == {0}
    offsets = [int(answer.ext["queueOffset"]) for answer in answers[::2]]
    assert offsets == list(range(250))
    bodies: list[bytes] = []
    while len(bodies) < 250:
        pulled = await call(client, broker, pull_request("T", 0, len(bodies)))
        bodies += [message.fields.body for message in decode_messages(pulled.body)]
    assert bodies == [b"%d" % number for number in range(0, 500, 2)]


async def test_a_batch_is_stored_as_single_messages(
    broker: BrokerProcess, client: RemotingClient
) -> None:
    request = send_request(
        "T", encode_batch([BatchUnit(0, b"a", b""), BatchUnit(7, b"b", b"k\x01v\x02")])
    )
    request.code, request.ext["m"], request.ext["i"] = 320, "true", ""
    answer = await call(client, broker, request)
    assert answer.code == 0 and len(answer.ext["msgId"].split(",")) == 2
    messages = decode_messages((await call(client, broker, pull_request("T", 0, 0))).body)
    assert [(each.fields.body, each.fields.flag, each.queue_offset) for each in messages] == [
        (b"a", 0, 0),
        (b"b", 7, 1),
    ]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"b": "bad name"}, 29),
        ({"e": "99"}, 29),
        ({"c": "absent"}, 17),
        ({"g": "x"}, 1),
        ({"f": "4"}, 13),
    ],
)
async def test_sends_that_cannot_be_stored_are_refused(
    broker: BrokerProcess, client: RemotingClient, change: dict[str, str], code: int
) -> None:
    request = send_request("T", b"x")
    request.ext.update(change)
    assert (await call(client, broker, request)).code == code


async def test_a_held_pull_is_woken_by_the_next_message(
    broker: BrokerProcess, client: RemotingClient
) -> None:
    await call(client, broker, send_request("T", b"first"))
    waiting = asyncio.ensure_future(
        call(client, broker, pull_request("T", 0, 1, suspend_ms=30_000), 40_000)
    )
    await until(lambda: broker.service.pulls.held.count == 1, "the pull is held")
    await call(client, broker, send_request("T", b"second"))
    pulled = await waiting
    assert pulled.code == 0 and decode_messages(pulled.body)[0].fields.body == b"second"


async def test_a_held_pull_whose_time_is_over_says_that_nothing_came(
    broker: BrokerProcess, client: RemotingClient
) -> None:
    await call(client, broker, send_request("T", b"first"))
    pulled = await call(client, broker, pull_request("T", 0, 1, suspend_ms=20))
    assert (pulled.code, pulled.ext["nextBeginOffset"]) == (19, "1")


async def test_tags_choose_messages(broker: BrokerProcess, client: RemotingClient) -> None:
    for tag in ("A", "B", "A"):
        await call(client, broker, send_request("T", tag.encode(), tags=tag))
    pulled = await call(client, broker, pull_request("T", 0, 0, subscription="B"))
    assert [message.fields.body for message in decode_messages(pulled.body)] == [
        b"B"
    ] and pulled.ext["nextBeginOffset"] == "3"


async def test_offsets_are_committed_queried_and_survive_a_restart(
    broker: BrokerProcess, client: RemotingClient, controller: ScriptedController
) -> None:
    await call(client, broker, send_request("T", b"x"))
    where = {"consumerGroup": "cg", "topic": "T", "queueId": "0"}
    assert (await call(client, broker, RemotingCommand.request(14, dict(where)))).ext == {
        "offset": "0"
    }
    assert (
        await call(client, broker, RemotingCommand.request(15, where | {"commitOffset": "1"}))
    ).code == 0
    assert (await call(client, broker, RemotingCommand.request(14, dict(where)))).ext == {
        "offset": "1"
    }
    assert (
        await call(client, broker, RemotingCommand.request(30, {"topic": "T", "queueId": "0"}))
    ).ext == {"offset": "1"}
    await broker.stop("test")
    again = await start_broker(broker.config)
    try:
        await until(lambda: again.roles.serving, "the broker serves again")
        assert (await call(client, again, RemotingCommand.request(14, dict(where)))).ext == {
            "offset": "1"
        }
        assert again.roles.current.master_epoch == 2
        pulled = await call(client, again, pull_request("T", 0, 0))
        assert decode_messages(pulled.body)[0].fields.body == b"x"
    finally:
        await again.stop("test")


async def test_consumers_are_listed_and_notified(
    broker: BrokerProcess, client: RemotingClient
) -> None:
    notified: list[str] = []

    def on_request(_connection: object, request: RemotingCommand) -> None:
        notified.append(request.ext["consumerGroup"])

    consumer = RemotingClient(on_request)
    body = fastjson.dumps(
        {
            "clientID": "c1",
            "consumerDataSet": [
                {"groupName": "cg", "subscriptionDataSet": [{"topic": "T", "subString": "*"}]}
            ],
        }
    )
    try:
        answer = await call(consumer, broker, RemotingCommand.request(34, body=body))
        assert answer.code == 0 and answer.ext["IS_SUPPORT_HEART_BEAT_V2"] == "true"
        await until(lambda: notified == ["cg"], "the group was notified")
        listed = await call(client, broker, RemotingCommand.request(38, {"consumerGroup": "cg"}))
        assert fastjson.loads(listed.body) == {"consumerIdList": ["c1"]}
        assert broker.tables.topics.get("%RETRY%cg") is not None
    finally:
        await consumer.close()
    await until(lambda: broker.service.groups.client_ids("cg") == [], "the closed client is gone")


async def test_the_broker_tells_about_itself(broker: BrokerProcess, client: RemotingClient) -> None:
    status = fastjson.loads((await call(client, broker, RemotingCommand.request(19002))).body)
    assert (
        isinstance(status, dict)
        and status["ready"] is True
        and status["role"] == "MASTER"
        and status["sync_state_set"] == [1]
    )
    epochs = fastjson.loads((await call(client, broker, RemotingCommand.request(1007))).body)
    assert isinstance(epochs, dict) and epochs["epochList"] == [
        {"endOffset": 2**63 - 1, "epoch": 1, "startOffset": 0}
    ]
    assert (await call(client, broker, RemotingCommand.request(12345))).code == 3


async def test_an_unanswered_apply_keeps_the_id_and_its_check_code(
    tmp_path: Path, controller: ScriptedController
) -> None:
    controller.silent_codes = {1013}
    broker = await start_broker(broker_config(tmp_path / "store", [controller.address]))
    try:
        await until(lambda: 1013 in controller.heard_codes(), "1013 was sent")
        temp = (tmp_path / "store" / "brokerIdentity-temp").read_text()
    finally:
        await broker.stop("test")
    controller.silent_codes = set()
    again = await start_broker(broker.config)
    try:
        await until(lambda: again.roles.serving, "the broker serves")
        assert controller.codes == {1: temp.split("#")[3]}
    finally:
        await again.stop("test")


async def test_a_failing_disk_ends_the_process_and_the_next_start_is_unclean(
    broker: BrokerProcess, client: RemotingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await call(client, broker, send_request("T", b"kept"))).code == 0
    running = asyncio.ensure_future(broker.run_until(asyncio.Event()))

    def refuse(*_: object) -> None:
        raise LogError("input/output error")

    assert broker.store is not None
    monkeypatch.setattr(broker.store, "put_many", refuse)
    assert (await call(client, broker, send_request("T", b"not written"))).code != 0
    with pytest.raises(LogError, match="the disk failed"):
        await running
    await broker.stop("failed")
    has_data = True
    assert BootMarker(broker.config.store_dir).examine(has_data).reason == "io_error"


async def test_with_sync_flush_what_is_answered_is_on_the_disk_and_many_share_a_flush(
    tmp_path: Path, controller: ScriptedController, client: RemotingClient
) -> None:
    config = broker_config(
        tmp_path / "store", [controller.address], flush_disk="sync", flush_interval_ms=3_600_000
    )
    broker = await start_broker(config)
    await until(lambda: broker.roles.serving, "the broker serves")
    try:
        for number in range(5):
            answer = await call(client, broker, send_request("T", b"%d" % number))
            assert answer.code == 0 and broker.store.log.flushed_offset == broker.store.log_end
        answers = await asyncio.gather(
            *(call(client, broker, send_request("T", b"x")) for _ in range(64))
        )
        assert {answer.code for answer in answers} == {
            0
        } and broker.store.log.flushed_offset == broker.store.log_end
        assert (
            broker.replica._group_commit is not None
            and broker.replica._group_commit.flushes <= 5 + 32
        )
        broker.store.log.io_error = "planted"  # as after a flush that failed
        assert (await call(client, broker, send_request("T", b"x"))).code == 14
    finally:
        await broker.stop("test")


async def test_a_flush_that_is_late_is_answered_as_such_and_the_message_is_stored(
    tmp_path: Path,
    controller: ScriptedController,
    client: RemotingClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = broker_config(
        tmp_path / "store",
        [controller.address],
        flush_disk="sync",
        sync_flush_timeout_ms=100,
        flush_interval_ms=3_600_000,
    )
    broker = await start_broker(config)
    await until(lambda: broker.roles.serving, "the broker serves")
    go = threading.Event()
    real = broker.store.log.flush
    monkeypatch.setattr(broker.store.log, "flush", lambda: (go.wait(30), real())[1])
    try:
        answer = await call(client, broker, send_request("T", b"x"))
        assert (answer.code, answer.remark, answer.ext["queueOffset"]) == (10, None, "0")
        # confirmed by the set, so readable
        assert (await call(client, broker, pull_request("T", 0, 0))).code == 0
    finally:
        go.set()
        await broker.stop("test")
