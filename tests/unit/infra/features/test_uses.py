"""Where an application sends what, and what it says of itself afterwards: without brokers."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.service.popping.handles import Handle
from infra.features.counts import Sent
from infra.features.judged_pops import Given
from infra.features.orders import Orders
from infra.features.pop_requests import ack_request, pop_request
from infra.features.pops import Pops
from infra.features.transactions import Transactions, is_committed
from infra.features.use import LANES, FeatureUse
from infra.features.waiting import Delayed, Timed
from infra.workload.client import Route

BOTH = (Route("a", {0: "h:1"}, 4), Route("b", {0: "h:2"}, 4))
A_ACTS = (Route("a", {0: "h:3"}, 4, perm=4), BOTH[1])
NOBODY = (Route("a", {1: "h:3"}, 4), Route("b", {0: "h:4"}, 4, perm=4))


def use(kind: type[FeatureUse], monkeypatch: pytest.MonkeyPatch, *routes: Route) -> Any:
    made = kind(["h:9"], "t")
    monkeypatch.setattr(made, "sets", lambda: list(routes))
    return made


def test_messages_go_to_all_sets_in_turn_and_again_to_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed = use(Timed, monkeypatch, *BOTH)
    assert [timed.place(number, 1) for number in (0, 3, 4)] == [("a", 0), ("a", 3), ("b", 0)]
    assert timed.place(0, 2) == ("b", 0)


def test_a_set_that_is_only_read_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = use(Timed, monkeypatch, *A_ACTS)
    assert {timed.place(number, 1)[0] for number in range(16)} == {"b"}
    assert use(Timed, monkeypatch, *NOBODY).place(0, 1) is None


def test_an_order_stays_where_it_began_and_waits_there(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = use(Orders, monkeypatch, *BOTH)
    assert [orders.place(lane, 1) for lane in range(LANES)] == [
        *(("a", queue) for queue in range(4)),
        *(("b", queue) for queue in range(4)),
    ]
    monkeypatch.setattr(orders, "sets", lambda: list(A_ACTS))
    assert orders.place(LANES, 1) is None and orders.place(LANES + 4, 1) == ("b", 0)


def test_a_message_says_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, key in ((Timed, "TIMER_DELIVER_MS"), (Delayed, "DELAY")):
        one = use(kind, monkeypatch, *BOTH)
        one.sent[1] = Sent(1_000)
        assert key in one.asks(1) and one.sent[1].due_ms > 1_000


def test_a_third_of_the_transactions_is_left_to_the_question() -> None:
    assert [is_committed(number) for number in range(6)] == [True, False, True, True, False, False]


def test_what_one_set_took_and_another_delivered_has_crossed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = use(Transactions, monkeypatch, *BOTH)
    one.sent = {
        n: Sent(0, 0, calls, answered_ms=1, taken_by="a") for n, calls in enumerate((1, 1, 2))
    }
    one.copies = {0: [(5, "b")], 1: [(5, "a")], 2: [(5, "b")]}
    assert one.crossed() == [0]


def test_what_two_sets_handed_out_has_crossed(monkeypatch: pytest.MonkeyPatch) -> None:
    pops = use(Pops, monkeypatch, *BOTH)
    pops.given = {
        0: [Given(False, 0, 1, given_by="a"), Given(True, 2, 3, given_by="b")],
        1: [Given(False, 0, 1, given_by="a")],
    }
    assert pops.crossed() == [0]


def test_an_acknowledgement_names_the_topic_that_the_copy_came_from() -> None:
    handle = Handle(0, 1, 2, 3, "1", "a", 0, 7)
    assert ack_request(handle, "t", "g").ext["topic"] == "%RETRY%g_t"
    assert pop_request("t", "g", pollTime=5).ext["pollTime"] == "5"
