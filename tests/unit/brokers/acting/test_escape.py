"""Messages on their way out of a set without a master: forms, limits, places, patience."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.backoff import Backoff
from brokers.acting.escape import (
    AGAIN,
    IN_FLIGHT_MAX,
    NO_ROUTE,
    PER_SOURCE_MAX,
    REFUSED,
    ROUTE_AGAIN_MS,
    SAYS_EVERY_MS,
    UNSAFE_MAX,
    Escape,
)
from brokers.acting.forms import Kind, Stays, leaving, of_own, rolled
from brokers.acting.outcomes import Put
from brokers.acting.special import SWITCHES
from brokers.acting.targets import Route, read_address, read_route
from brokers.remoting.command import RemotingCommand
from brokers.store.log.properties import decode_properties, encode_properties
from brokers.store.log.records import MessageFields, StoredMessage, host_bytes
from tests.support.acting_rig import of

HOST = host_bytes("10.0.0.2", 10911)
ROUTE = Route((("broker-b", "b:1", 4),))


def message(topic: str = "T", sys_flag: int = 0, **properties: str) -> MessageFields:
    text = encode_properties(properties)
    return MessageFields(topic, 0, b"body", text, 77, HOST, HOST, 0, sys_flag)


def stored(topic: str, sys_flag: int = 0, **properties: str) -> StoredMessage:
    return StoredMessage(message(topic, sys_flag, **properties), 100, 1, 0, 5, 900, 80)


def escape() -> Escape:
    one = Escape(allowed=True, has_local_master=lambda: False)
    one.offer("s", 0, Kind.LEVEL, message())
    one.tick(0, 0.5)
    one.route_told("T", ROUTE, 0)
    return one


def sent(effects: list[fx.Effect]) -> list[fx.SendAway]:
    return of(effects, fx.SendAway)


FORMS = {
    "level": (
        leaving(Kind.LEVEL, stored("SCHEDULE_TOPIC_XXXX", 0x30, DELAY="3", REAL_TOPIC="T",
                                   REAL_QID="2", WAIT="false", K="v", CLUSTER="c")),
        ("T", 0, {"REAL_TOPIC": "T", "REAL_QID": "2", "K": "v"}),
    ),
    "timer": (
        leaving(Kind.TIMER, stored("rmq_sys_wheel_timer", 8, TIMER_DELAY_MS="5", REAL_TOPIC="T",
                                   REAL_QID="2", TIMER_OUT_MS="900")),
        ("T", 0, {"REAL_TOPIC": "T", "REAL_QID": "2", "TIMER_OUT_MS": "900"}),
    ),
    "rolled": (
        rolled(stored("rmq_sys_wheel_timer", 0, TIMER_DELAY_MS="5", REAL_TOPIC="T", REAL_QID="2",
                      TIMER_OUT_MS="900")),
        ("rmq_sys_wheel_timer", 0, {"TIMER_DELAY_MS": "5", "REAL_TOPIC": "T", "REAL_QID": "2",
                                    "TIMER_OUT_MS": "900"}),
    ),
    "half": (
        leaving(Kind.HALF, stored("RMQ_SYS_TRANS_HALF_TOPIC", 0, REAL_TOPIC="T", REAL_QID="2",
                                  PGROUP="pg", TRAN_PREPARED_QUEUE_OFFSET="9",
                                  TRANSACTION_CHECK_TIMES="2")),
        ("T", 4, {"REAL_TOPIC": "T", "PGROUP": "pg", "TRANSACTION_CHECK_TIMES": "2",
                  "TRAN_MSG": "true"}),
    ),
    "odd": (
        leaving(Kind.LEVEL, stored("SCHEDULE_TOPIC_XXXX", DELAY="3", REAL_TOPIC="T", REAL_QID="2",
                                   K="a\x01\udcff\x01", 名="値")),
        ("T", 0, {"REAL_TOPIC": "T", "REAL_QID": "2", "K": "a\x01\udcff\x01", "名": "値"}),
    ),
    "check point": (
        of_own(Kind.REVIVAL, message("rmq_sys_REVIVE_LOG_c1", TAGS="ck", TIMER_DELIVER_MS="9")),
        ("rmq_sys_REVIVE_LOG_c1", 0, {"TAGS": "ck", "TIMER_DELIVER_MS": "9"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_message_leaves_in_this_form(name: str) -> None:
    found, (topic, sys_flag, properties) = FORMS[name]
    assert (found.topic, found.sys_flag) == (topic, sys_flag)
    assert decode_properties(found.properties) == properties


@pytest.mark.parametrize(
    ("kind", "one"),
    [
        (Kind.LEVEL, stored("SCHEDULE_TOPIC_XXXX", REAL_TOPIC="RMQ_SYS_TRANS_HALF_TOPIC",
                            REAL_QID="0")),
        (Kind.LEVEL, stored("SCHEDULE_TOPIC_XXXX", K="v")),
        (Kind.TIMER, stored("rmq_sys_wheel_timer", TIMER_DEL_UNIQKEY="x", REAL_TOPIC="T",
                            REAL_QID="0")),
        (Kind.HALF, stored("RMQ_SYS_TRANS_HALF_TOPIC", K="v")),
        (Kind.REVIVAL, stored("T", K="v")),
    ],
)  # fmt: skip
def test_what_has_no_destination_stays(kind: Kind, one: StoredMessage) -> None:
    with pytest.raises(Stays):
        leaving(kind, one)


def test_no_place_is_passed_before_its_message_is_done() -> None:
    one = escape()
    one.offer("s", 1, Kind.LEVEL, message())
    first, second = sent(one.tick(1, 0.5))
    assert one.answered(second.token, 0, 2, 0.5) is Put.STORED
    assert one.safe("s", 2) == 0
    assert one.answered(first.token, 1, 2, 0.5) is Put.FAILED
    assert one.safe("s", 2) == 0
    (again,) = sent(one.tick(60_000, 0.5))
    one.answered(again.token, 12, 60_001, 0.5)
    assert (one.safe("s", 2), one.counts[Put.SOFT], one.in_hand) == (2, 1, 0)


def test_a_message_that_is_never_taken_is_tried_for_ever_and_ever_less_often() -> None:
    one = escape()
    now_ms, pauses = 1, []
    for _ in range(40):
        (away,) = sent(one.tick(now_ms, 1.0))
        one.answered(away.token, 13, now_ms, 1.0)
        one.route_told("T", ROUTE, now_ms)
        began_ms = now_ms
        while not any(
            not item.token and item.due_ms <= now_ms for item in one._sources["s"].items.values()
        ):
            now_ms += 100
        pauses.append(now_ms - began_ms)
    assert pauses[0] == 200 and pauses[-1] == 60_000 and sorted(pauses) == pauses


def test_more_than_a_source_may_have_is_not_taken() -> None:
    one = Escape(allowed=True, has_local_master=lambda: False)
    taken = [one.offer("s", place, Kind.LEVEL, message()) for place in range(PER_SOURCE_MAX + 1)]
    assert taken == [True] * PER_SOURCE_MAX + [False]
    assert one.offer("other", 0, Kind.LEVEL, message())
    one.tick(0, 0.5)
    one.route_told("T", ROUTE, 0)
    assert len(sent(one.tick(1, 0.5))) == one.in_flight == IN_FLIGHT_MAX


def full(code: int | None = 0) -> Escape:
    """As many puts are under way as may be, more than that wait; one was answered at 1 ms."""
    one = Escape(allowed=True, has_local_master=lambda: False)
    for source in ("s", "other"):
        for place in range(PER_SOURCE_MAX):
            assert one.offer(source, place, Kind.LEVEL, message())
    one.tick(0, 0.5)
    one.route_told("T", ROUTE, 0)
    first = sent(one.tick(1, 0.5))[0]
    one.answered(first.token, code, 1, 0.5)
    one.tick(1, 0.5)
    assert one.in_flight == IN_FLIGHT_MAX < one.in_hand
    return one


def test_what_was_put_is_told_in_time_however_much_is_under_way() -> None:
    one = full()
    assert not of(one.tick(1_000, 0.5), fx.Report)
    (told,) = of(one.tick(1_001, 0.5), fx.Report)
    assert (told.kind, told.fields["messages"], told.fields["over_ms"]) == ("EscapeBatch", 1, 1_000)


def test_that_messages_wait_is_told_however_much_is_under_way() -> None:
    one = full(2)
    assert dict(one.waits_for) == {REFUSED: 1}
    reports = of(full(2).tick(1, 0.5), fx.Report) or of(one.tick(2, 0.5), fx.Report)
    assert not reports, "it was told when it began to wait"
    (told,) = [
        found for found in of(one.tick(SAYS_EVERY_MS + 1, 0.5), fx.Report)
        if found.kind == "EscapeWaits"
    ]  # fmt: skip
    assert told.fields["reasons"] == {REFUSED: 1}


def test_what_was_put_is_told_in_time_while_who_acts_holds_back() -> None:
    one = full()
    one.hold()
    (told,) = of(one.tick(1_001, 0.5), fx.Report)
    assert told.kind == "EscapeBatch"


def test_a_source_waits_when_too_much_is_done_behind_one_that_is_stuck() -> None:
    one = escape()
    for place in range(1, UNSAFE_MAX + 1):
        one.passed("s", place)
    assert not one.has_room("s", 1) and one.has_room("other", 1)


def test_waiting_is_said_once_a_minute() -> None:
    one = Escape(allowed=False, has_local_master=lambda: False)
    one.offer("s", 0, Kind.LEVEL, message())
    said = [at for at in range(0, 130_000, 1_000) if of(one.tick(at, 0.5), fx.Report)]
    assert said == [0, 60_000, 120_000]


def test_a_route_is_missing_only_when_no_name_server_told_one() -> None:
    one = Escape(allowed=True, has_local_master=lambda: False)
    one.offer("s", 0, Kind.LEVEL, message())
    assert not of(one.tick(0, 0.5), fx.Report) and not one.waits_for
    one.route_told("T", None, 10)
    assert dict(one.waits_for) == {NO_ROUTE: 1}
    assert of(one.tick(ROUTE_AGAIN_MS, 0.5), fx.AskRoute)
    one.route_told("T", ROUTE, ROUTE_AGAIN_MS)
    assert len(sent(one.tick(ROUTE_AGAIN_MS, 0.5))) == 1 and not one.waits_for


def test_answers_after_somebody_else_acts_say_nothing() -> None:
    one = escape()
    (away,) = sent(one.tick(1, 0.5))
    one.forget()
    assert one.answered(away.token, 0, 2, 0.5) is None and one.in_hand == 0


def test_a_route_is_read_without_the_own_set_and_what_takes_nothing() -> None:
    body = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"broker-a"},{"brokerAddrs":'
        b'{0:"b:1"},"brokerName":"broker-b"},{"brokerAddrs":{1:"c:1"},"brokerName":"broker-c"},'
        b'{"brokerAddrs":{0:"d:1"},"brokerName":"broker-d"}],"queueDatas":['
        b'{"brokerName":"broker-d","perm":4,"writeQueueNums":4},'
        b'{"brokerName":"broker-c","perm":6,"writeQueueNums":4},'
        b'{"brokerName":"broker-b","perm":6,"writeQueueNums":4},'
        b'{"brokerName":"broker-a","perm":6,"writeQueueNums":4}]}'
    )
    assert read_route(RemotingCommand(0, body=body), "broker-a") == ROUTE
    assert read_route(RemotingCommand(17), "broker-a") == Route()
    for bad in (
        RemotingCommand(1),
        RemotingCommand(0),
        RemotingCommand(0, body=b'{"queueDatas":[1]}'),
    ):
        with pytest.raises(ValueError):
            read_route(bad, "broker-a")


def test_where_messages_of_a_set_are_read() -> None:
    def told(addresses: bytes) -> RemotingCommand:
        body = b'{"brokerDatas":[{"brokerAddrs":%b,"brokerName":"a"}],"queueDatas":[]}'
        return RemotingCommand(0, body=body % addresses)

    assert read_address(told(b'{0:"m:1",1:"s:1"}'), "a") == "m:1"
    assert read_address(told(b'{2:"s:2",1:"s:1"}'), "a") == "s:1"
    assert read_address(told(b'{0:"m:1"}'), "b") is None
    assert read_address(told(b"{}"), "a") is None
    assert read_address(RemotingCommand(17), "a") is None
    for bad in (RemotingCommand(1), RemotingCommand(0), RemotingCommand(0, body=b"[1]")):
        with pytest.raises(ValueError):
            read_address(bad, "a")


def test_pauses_double_up_to_a_limit() -> None:
    assert [AGAIN.pause_ms(failures, 1.0) for failures in (1, 2, 3, 99)] == [200, 400, 800, 60_000]
    assert AGAIN.pause_ms(1, 0.0) == 100
    with pytest.raises(ValueError):
        Backoff(0, 1)
    assert len(SWITCHES) == 5
