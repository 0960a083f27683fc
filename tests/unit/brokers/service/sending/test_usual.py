"""The short way of a send: whatever it takes, the long way would have taken just so."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.service.sending.messages import MessageMaker
from brokers.service.sending.request import parse_v2, property_value, refusal, waits_for_replicas
from brokers.service.sending.timed import TIMER_TOPIC
from brokers.service.sending.usual import usual_send
from brokers.service.tables.topics import TopicConfig
from brokers.store.log.records import decode_messages, host_bytes
from tests.support.brokers import send_request
from tests.support.client_service import Desk
from tests.support.examples import examples

USUAL = send_request("T", b"x").ext
NUMBERS = st.sampled_from(
    [
        "0",
        "3",
        "7",
        "8",
        "-1",
        "",
        " 1",
        "1_0",
        "+2",
        "٣",
        "²",
        "4.0",
        "x",
        "9" * 18,
        "9" * 19,
        "9" * 30,
    ]
)
PIECES = st.sampled_from(
    [
        "UNIQ_KEY\x01k1\x02",
        "UNIQ_KEY\x01",
        "xUNIQ_KEY\x01k2\x02",
        "WAIT\x01true\x02",
        "WAIT\x01false\x02",
        "WAIT\x01",
        "TAGS\x01a\x02",
        "DELAY\x013\x02",
        "DELAYED\x01x\x02",
        "TRAN_MSG\x01true\x02",
        "TIMER_DELAY_MS\x015\x02",
        "TIMER_DEQUEUE_MS\x015\x02",
        "POP_CK\x01x\x02",
        "KEYS\x01a b\x02",
        "\x02",
        "\x01",
        "ä",
        "\x02UNIQ_KEY\x01k3",
        "",
    ]
)
FIELDS = {
    "a": st.none() | st.just(""),
    "b": st.none() | st.sampled_from(["T", "U", ""]),
    "c": st.none() | st.just("TBW102"),
    "d": st.none() | NUMBERS,
    "e": st.none() | NUMBERS,
    "f": st.none() | NUMBERS,
    "g": st.none() | NUMBERS,
    "h": st.none() | NUMBERS,
    "i": st.none() | st.lists(PIECES, max_size=4).map("".join),
    "j": st.none() | NUMBERS,
    "k": st.none() | st.sampled_from(["true", "false"]),
    "m": st.none() | st.sampled_from(["true", "false", "TRUE"]),
    "regentForwardedFor": st.just("10.0.0.1:5"),
}
# Few at a time: with many, hardly a send stays usual.
CHANGES = st.lists(
    st.one_of([st.tuples(st.just(key), values) for key, values in FIELDS.items()]), max_size=3
).map(dict)
MAKER = MessageMaker("c", host_bytes("127.0.0.1", 10911))
CONFIG = TopicConfig("T", 8, 8)
IN_AN_HOUR_MS = time.time_ns() // 1_000_000 + 3_600_000


def changed(changes: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in ({**USUAL} | changes).items() if value is not None}


def test_what_a_java_producer_sends_is_usual() -> None:
    assert usual_send(USUAL) is not None


# Many draws are unusual, which is their right: some seeds draw fifty of them before the tenth usual
# one.
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.filter_too_much])
@given(CHANGES, st.integers(0, 2))
@example({"i": "UNIQ_KEY\x01k\x02"}, 1)
@example({"i": "UNIQ_KEY\x01k\x02xUNIQ_KEY\x01l\x02"}, 1)
def test_whatever_is_usual_is_the_same_message_the_long_way(
    changes: dict[str, str | None], padding: int
) -> None:
    ext = changed(changes)
    read = usual_send(ext)
    assume(read is not None)
    assert read is not None
    request, connection = (
        RemotingCommand(310, ext=ext, body=b"x" * (1 + padding)),
        SimpleNamespace(attributes={}, peer="10.0.0.9:7"),
    )
    leave_express = parse_v2(ext)
    if read.queue_id < CONFIG.queues:
        assert refusal(leave_express, CONFIG, request.body) is None
    assert (
        waits_for_replicas(leave_express.properties)
        and property_value(leave_express.properties, "UNIQ_KEY") == read.unique_key
    )
    assert (leave_express.topic, leave_express.queue_id) == (read.topic, read.queue_id)
    assert MAKER.messages(connection, request, leave_express, leave_express.queue_id) == [
        MAKER.usual(connection, read, request.body)
    ]  # type: ignore[arg-type]


def test_properties_that_are_too_long_are_for_the_long_way_to_refuse() -> None:
    read = usual_send(USUAL | {"i": "UNIQ_KEY\x01" + "k" * 32_760})
    assert read is not None
    assert MAKER.usual(SimpleNamespace(attributes={}, peer=""), read, b"x") is None  # type: ignore[arg-type]


async def stored_and_answered(
    folder: Path, requests: list[RemotingCommand], *, short: bool
) -> tuple[list[object], list[tuple[object, ...]]]:
    async with Desk(folder) as desk:
        desk.clock.wall_ms = lambda: 1_700_000_000_000  # type: ignore[method-assign]
        desk.lead()
        if not short:
            dispatcher = desk.server._handler
            assert isinstance(dispatcher, Dispatcher)
            dispatcher.express.clear()
        answers = [await desk.ask(request) for request in requests]
        log = decode_messages(desk.store.read_log(0, desk.store.log_end))
        return (
            [(each.code, each.remark, each.ext, each.version, each.language) for each in answers],
            [
                (
                    each.queue_offset,
                    each.physical_offset,
                    each.fields.topic,
                    each.fields.properties,
                    each.fields.body,
                    each.body_crc,
                    each.fields.sys_flag,
                    each.fields.flag,
                    each.fields.born_ms,
                )
                for each in log
            ],
        )


@pytest.mark.parametrize("seed", range(3))
async def test_both_ways_store_the_same_log_and_give_the_same_answers(
    tmp_path: Path, seed: int
) -> None:
    texts = [
        "UNIQ_KEY\x01k%d\x02",
        "WAIT\x01true\x02UNIQ_KEY\x01k-%d\x02TAGS\x01a\x02",
        "UNIQ_KEY\x01ä%d\x02DELAY\x010\x02",
        "UNIQ_KEY\x01k%d\x02TRAN_MSG\x01true\x02",
        "KEYS\x01%d",
        'UNIQ_KEY\x01"%d\x02',
        f"UNIQ_KEY\x01k%d\x02TIMER_DELIVER_MS\x01{IN_AN_HOUR_MS}\x02",
        "TIMER_DELAY_SEC\x01soon\x02UNIQ_KEY\x01k%d\x02",
    ]
    requests = []
    for number in range(40):
        pick = number * 7 + seed * 3
        changes = {"i": texts[pick % len(texts)] % number, "e": str(pick % 5), "b": "TU"[pick % 2]}
        if pick % 11 == 0:
            changes["f"] = str(pick % 3)
        requests.append(RemotingCommand(310, ext=USUAL | changes, body=b"b" * (pick % 4)))
    short = await stored_and_answered(tmp_path / "short", requests, short=True)
    assert short == await stored_and_answered(tmp_path / "long", requests, short=False)
    assert len(short[1]) > 10 and TIMER_TOPIC in {each[2] for each in short[1]}
