"""Orders and records as they travel and lie on disk: read whole, or refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.changeover.order import (
    REPLICAS_MAX,
    Kind,
    Lines,
    Order,
    Record,
    for_others,
    order_of,
    orders_of,
    record_of,
)

ADOPT = Order(
    "c0", Kind.CONTROLLERS, "regent", "a", "h1:1", "h1:1", 1, 2, ("k1:9", "k2:9"), "h1:1;code", 1
)
RELEASE = Order("c1", Kind.FIXED, "regent", "a", "h1:1", "h1:1", 0, 2)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@pytest.mark.parametrize("order", [ADOPT, RELEASE], ids=["adopt", "release"])
def test_what_is_written_is_read_again(order: Order) -> None:
    record = Record(order, Lines(3), True, (order,), in_order=True, acts=True)
    assert order_of(json.loads(json.dumps(order.document()))) == order
    assert record_of(json.loads(json.dumps(record.document()))) == record


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "both"},
        {"broker_id": 0},
        {"broker_id": True},
        {"broker_id": 2**31},
        {"copies": 0},
        {"epoch": 0},
        {"change": ""},
        {"address": "a\nb"},
        {"address": "x" * 513},
        {"controllers": []},
        {"controllers": "k1:9"},
        {"controllers": ["k"] * 65},
        {"check_code": 7},
        {"cluster_name": None},
    ],
    ids=str,
)
def test_an_order_that_cannot_be_one_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        order_of({**ADOPT.document(), **change})


def test_a_fixed_place_names_no_controllers() -> None:
    with pytest.raises(ValueError, match="controllers"):
        order_of({**RELEASE.document(), "controllers": ["k1:9"]})


@pytest.mark.parametrize(
    "second",
    [
        replace(ADOPT, broker_id=2),
        replace(ADOPT, address="h2:1"),
        replace(ADOPT, address="h2:1", broker_id=2, change="c9"),
        replace(ADOPT, address="h2:1", broker_id=2, leader="h2:1"),
    ],
    ids=["one address twice", "one id twice", "two changeovers", "two leaders"],
)
def test_orders_of_a_set_fit_together(second: Order) -> None:
    good = replace(ADOPT, address="h2:1", broker_id=2, check_code="h2:1;code")
    assert orders_of([ADOPT.document(), good.document()]) == (ADOPT, good)
    assert for_others((ADOPT, good), "h1:1") == (good,)
    with pytest.raises(ValueError):
        orders_of([ADOPT.document(), second.document()])


def test_the_one_who_leads_has_an_order_too_and_their_number_is_limited() -> None:
    with pytest.raises(ValueError, match="leads"):
        orders_of([replace(ADOPT, address="h2:1").document()])
    with pytest.raises(ValueError, match=str(REPLICAS_MAX)):
        orders_of([ADOPT.document()] * (REPLICAS_MAX + 1))


@given(JSON)
def test_whatever_comes_is_read_or_refused(document: object) -> None:
    for read in (order_of, orders_of, record_of):
        with pytest.raises(ValueError):
            read(document)


@given(st.sampled_from(sorted(ADOPT.document())), JSON)
def test_one_odd_field_is_read_or_refused(name: str, value: object) -> None:
    try:
        assert isinstance(order_of({**ADOPT.document(), name: value}), Order)
    except ValueError:
        pass
