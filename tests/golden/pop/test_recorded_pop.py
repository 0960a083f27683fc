"""Pop consumption beside what classes of RocketMQ 5.3.3 wrote (README.md)."""

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.remoting import fastjson
from brokers.service.popping.ack_requests import parse_batch
from brokers.service.popping.assignment import STRATEGIES, Queue
from brokers.service.popping.handles import (
    Handle,
    Popped,
    message_offset_info,
    order_count_info,
    parse_handle,
    start_offset_info,
)
from brokers.service.popping.names import RETRY_V1, RETRY_V2, kind_of, retry_topic
from brokers.service.popping.ordered import OrderedPops
from brokers.service.popping.records import Ack, Key, RecordMaker, read_ack, read_check_point
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import MessageFields, host_bytes

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "recorded.json").read_text("utf-8"))
KEY = Key("P1", "G1", 3, 7, 1795413789348, "b1")
MAKER = RecordMaker("rmq_sys_REVIVE_LOG_c", host_bytes("127.0.0.1", 10911))


def key_of(message: MessageFields) -> str:
    return decode_properties(message.properties)["UNIQ_KEY"]


@pytest.mark.parametrize("recorded", RECORDED["checkPoints"])
def test_83_check_points_are_those_of_java(recorded: dict[str, Any]) -> None:
    point = read_check_point(recorded["body"].encode(), "own")
    assert list(point.offsets) == recorded["offsets"]
    assert (point.visible_ms, point.re_puts) == (recorded["reviveTime"], recorded["rePuts"])
    message = MAKER.check_point(point, 0, 0)
    assert message.body == recorded["body"].encode() and key_of(message) == recorded["key"]


def test_83_acknowledgements_are_those_of_java() -> None:
    one, batch = RECORDED["ack"], RECORDED["batchAck"]
    assert read_ack(one["body"].encode(), "own", batch=False) == Ack(KEY, (9,))
    assert read_ack(batch["body"].encode(), "own", batch=True) == Ack(KEY, (8, 9))
    alone = MAKER.ack(Ack(KEY, (9,)), 1, 0, 0)
    assert (alone.body, key_of(alone)) == (one["body"].encode(), one["key"])
    many = MAKER.batch_ack(Ack(KEY, (8, 9)), 1, 0, 0)
    assert (many.body, key_of(many)) == (batch["body"].encode(), batch["key"])


def test_58_info_strings_are_those_of_java() -> None:
    starts = [Popped("0", 1, 0, ()), Popped("1", 0, 4, ()), Popped("2", 0, 5, ())]
    assert start_offset_info(starts) == RECORDED["startOffsetInfo"]
    offsets = [Popped("0", 1, 0, (2, 3)), Popped("2", 0, 0, (5,))]
    assert message_offset_info(offsets) == RECORDED["msgOffsetInfo"]
    counts = [Popped("0", 1, 0, (2, 3), {2: 3})]
    assert order_count_info(counts) == RECORDED["orderCountInfo"]


def test_62_handles_are_those_of_java() -> None:
    for kind, text in zip("012", RECORDED["handles"], strict=True):
        handle = Handle(7, 1795413789348, 10_000, 3, kind, "b1", int(kind == "0"), 9)
        assert handle.text() == text and parse_handle(text) == handle


def test_71_names_of_retry_topics_are_those_of_java() -> None:
    kinds = (RETRY_V1, RETRY_V2)
    names = [retry_topic("G1", "T", kind) for kind in kinds]
    assert names == RECORDED["retryTopics"] and tuple(map(kind_of, names)) == kinds


def test_60_a_batch_of_a_java_client_is_read() -> None:
    (one,) = parse_batch(RECORDED["batchBody"].encode())
    assert (one.group, one.topic, one.offsets) == ("G1", "%RETRY%G1_T", (7, 9, 47))
    assert one.handle == Handle(7, 1795413789348, 10_000, 3, "1", "b1", 0)


def test_77_ordered_pops_are_those_of_java() -> None:
    key = "O1", "GO", 0
    first, second = (fastjson.loads(text) for text in RECORDED["ordered"])
    pops = OrderedPops()
    pops.popped(key, "a1", 1_000, 3_000, (4, 5, 7))
    pops.ack(key, 5, 1_000, 4)
    assert fastjson.loads(fastjson.dumps(pops.table()["O1@GO"]["0"])) == first
    pops.popped(key, "a2", 5_000, 3_000, (4, 5, 7, 8))
    pops.change(key, 5, 5_000, 9_000)
    ours = pops.table()["O1@GO"]["0"]
    assert isinstance(ours, dict) and isinstance(second, dict)
    assert fastjson.loads(fastjson.dumps(ours)) == second
    again = OrderedPops()
    assert again.take({"O1@GO": {"0": first}}) == 0


@pytest.mark.parametrize("case", RECORDED["shares"])
def test_79_shares_are_those_of_java(case: str) -> None:
    name, queues, clients = case.split(" ")
    listed = [Queue("T", "b1", number) for number in range(int(queues))]
    ours = [
        [queue.queue_id for queue in STRATEGIES[name](listed, int(clients), at)]
        for at in range(int(clients))
    ]
    assert ours == RECORDED["shares"][case]
