"""Slave acting master, section 3.5: where messages escape to, and what counts as done."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.escape import NO_ESCAPE, NO_MASTER, Escape
from brokers.acting.forms import Kind, producer_group, send_request
from brokers.acting.messages import Place
from brokers.acting.outcomes import get_request, got_locally, got_of, is_done, put_of
from brokers.acting.targets import Route, Target, fixed_target, java_host_text, next_target
from brokers.store.log.properties import encode_properties, java_string_hash
from brokers.store.log.records import MessageFields, host_bytes
from tests.conformance.rows import Row, Shown, Table
from tests.support.acting_rig import of

PLACE = Place("c1", "broker-a", 1, "10.0.0.2:10911")
HOST = host_bytes("10.0.0.2", 10911)
ROUTE = Route((("broker-b", "b:1", 2), ("broker-c", "c:1", 2)))
REVIVE = "rmq_sys_REVIVE_LOG_c1"


def message(topic: str = "T", **properties: str) -> MessageFields:
    text = encode_properties(properties)
    return MessageFields(topic, 3, b"body", text, 77, HOST, HOST, 5, 0, 2)


def escape(*, allowed: bool = True, local: bool = False) -> Escape:
    return Escape(allowed=allowed, has_local_master=lambda: local)


def out(
    one: Escape,
    route: Route | None = ROUTE,
    kind: Kind = Kind.LEVEL,
    topic: str = "T",
    times: int = 1,
) -> list[fx.Effect]:
    for place in range(times):
        assert one.offer("s", place, kind, message(topic))
    effects = one.tick(0, 0.5)
    one.route_told(topic, route, 1)
    return effects + one.tick(1, 0.5)


PUT = Table("3.5")


@PUT.row("local-master", shipped=[1, 0])
def _() -> list[int]:
    effects = out(escape(local=True, allowed=False))
    return [len(of(effects, fx.PutLocally)), len(of(effects, fx.SendAway))]


@PUT.row(
    "without-either",
    shipped="SERVICE_NOT_AVAILABLE",
    ours={NO_ESCAPE: 1},
    because="11.2 row 3: nothing is given up, it waits and says why",
)
def _() -> object:
    one = escape(allowed=False)
    assert not of(out(one), fx.SendAway)
    return dict(one.waits_for)


@PUT.row("round-robin-without-the-own-name", shipped=["b:1", "b:1", "c:1", "c:1"])
def _() -> list[str]:
    sent = of(out(escape(), times=4), fx.SendAway)
    return sorted(one.target.address for one in sent)


@PUT.row(
    "only-the-own-name-is-left",
    shipped="fails",
    ours={NO_MASTER: 1},
    because="11.2 row 6: with one set it waits and says so",
)
def _() -> object:
    one = escape()
    assert not of(out(one, Route()), fx.SendAway)
    return dict(one.waits_for)


@PUT.row("check-points-and-acknowledgements-to-one-queue", shipped=1)
def _() -> int:
    sent = of(out(escape(), kind=Kind.REVIVAL, topic=REVIVE, times=8), fx.SendAway)
    return len({one.target for one in sent})


@PUT.row(
    "check-points-out-of-the-wheel",
    shipped=4,
    ours=1,
    because="11.3: they meet their acknowledgements only at one queue",
)
def _() -> int:
    sent = of(out(escape(), kind=Kind.TIMER, topic=REVIVE, times=8), fx.SendAway)
    return len({one.target for one in sent})


@PUT.row(
    "a-dead-master-stays-chosen-until-the-refresh",
    shipped=["b", "b"],
    ours=["c", "asked"],
    because="3.5: a failed put makes its broker avoided, and the route is fetched again",
)
def _() -> list[str]:
    one = escape()
    (first,) = of(out(one), fx.SendAway)
    one.answered(first.token, None, 2, 0.5)
    effects = one.tick(2_000, 0.5)
    (second,) = of(effects, fx.SendAway)
    return [
        "c"
        if {first.target.broker_name, second.target.broker_name} == {"broker-b", "broker-c"}
        else "b",
        "asked" if of(effects, fx.AskRoute) else "b",
    ]


@PUT.row("a-route-is-fetched-when-missing-and-each-30-s", shipped=[1, 0, 1])
def _() -> list[int]:
    one = escape()
    counts = [len(of(out(one), fx.AskRoute))]
    for place, at in ((1, 20_000), (2, 30_002)):
        one.offer("s", place, Kind.LEVEL, message())
        counts.append(len(of(one.tick(at, 0.5), fx.AskRoute)))
    return counts


RESULTS = Table("3.5-results")
for _code, _shipped in (
    (0, True),
    (10, True),
    (11, True),
    (12, True),
    (1, False),
    (2, False),
    (13, False),
    (14, False),
    (16, False),
    (17, False),
    (None, False),
):
    RESULTS.row(f"code-{_code}", shipped=_shipped)(lambda code=_code: is_done(put_of(code)))

GET = Table("3.5-get")
GET.row("local-found-and-not", shipped=["FOUND", "ABSENT"])(
    lambda: [got_locally(True).name, got_locally(False).name]
)
GET.row("no-address", shipped="RETRY")(lambda: got_of(0, has_address=False).name)
for _code, _name in (
    (0, "FOUND"),
    (19, "ABSENT"),
    (20, "ABSENT"),
    (21, "ABSENT"),
    (1, "RETRY"),
    (2, "RETRY"),
    (26, "RETRY"),
    (None, "RETRY"),
):
    GET.row(f"remote-{_code}", shipped=_name)(lambda code=_code: got_of(code).name)


@GET.row(
    "request",
    shipped=[11, "InnerConsumerGroup_broker-a_1", "1", "4", "*", "broker-b", "2147483647"],
)
def _() -> list[object]:
    made = get_request("T", 2, 9, "broker-b", PLACE, 55)
    names = ("consumerGroup", "maxMsgNums", "sysFlag", "subscription", "bname", "maxMsgBytes")
    return [made.code, *(made.ext[name] for name in names)]


HASH = Table("3.5-hash")
for _topic, _host, _hash, _16, _8 in (
    ("rmq_sys_REVIVE_LOG_DefaultCluster", host_bytes("127.0.0.1", 10911), -1859092047, 1, 1),
    (REVIVE, HOST, -751462146, 14, 6),
):
    HASH.row(f"vector-{_topic}", shipped=(_hash, _16, _8))(
        lambda topic=_topic, host=_host: (
            java_string_hash(topic + java_host_text(host)),
            index(fixed_target(Route((("a", "a:1", 8), ("b", "b:1", 8))), topic, host)),
            index(fixed_target(Route((("a", "a:1", 8),)), topic, host)),
        )
    )
HASH.row("literal-ipv6", shipped="/[0:0:0:0:0:0:0:1]:10911")(
    lambda: java_host_text(host_bytes("::1", 10911))
)
HASH.row(
    "the-list-by-name-and-number", shipped=["broker-b0", "broker-b1", "broker-c0", "broker-c1"]
)(lambda: [f"{one.broker_name}{one.queue_id}" for one in map(ROUTE.queue_at, range(4))])
HASH.row("nobody", shipped=[None, None])(
    lambda: [fixed_target(Route(), "T", HOST), next_target(Route(), 0)]
)


def index(target: Target | None) -> int:
    assert target is not None
    return target.queue_id + (8 if target.broker_name == "b" else 0)


SEND = Table("3.5-send")


@SEND.row(
    "request",
    shipped={
        "a": "InnerProducerGroup_broker-a_1",
        "b": "T",
        "c": "TBW102",
        "d": "8",
        "e": "1",
        "f": "0",
        "g": "77",
        "h": "5",
        "i": "k\x01v\x02",
        "j": "2",
        "k": "false",
        "m": "false",
    },
)
def _() -> dict[str, str]:
    made = send_request(message(k="v"), Target("broker-b", 1, "b:1"), PLACE)
    assert (made.code, made.body) == (310, b"body")
    return made.ext


SEND.row("producer-group-of-the-message", shipped="pg")(
    lambda: producer_group(message(PGROUP="pg"), PLACE)
)


@pytest.mark.parametrize("row", PUT.rows + RESULTS.rows + GET.rows + HASH.rows + SEND.rows)
def test_row(row: Row | Shown) -> None:
    row.check()
