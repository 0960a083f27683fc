"""What of the demo's steps the tables have to know."""

from __future__ import annotations

from typing import Any

import pytest

from infra.demo.acting_history import missing

STEPS = [{"kind": "away", "set": "a", "at_ms": 900}, {"kind": "returned", "set": "a"}]
PERIOD = {
    "broker_name": "a",
    "broker_id": 1,
    "since_ms": 1_000,
    "until_ms": 4_000,
    "master_back_ms": 3_500,
    "messages": 7,
}


def test_a_period_with_its_end_the_return_and_what_left_is_whole() -> None:
    assert missing([PERIOD], STEPS) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"broker_name": "b"}, "no slave of a is known to have acted"),
        ({"since_ms": 800}, "no slave of a is known to have acted"),
        ({"since_ms": 60_000}, "no slave of a is known to have acted"),
        ({"until_ms": None}, "nothing says that the slave of a acts no more"),
        ({"master_back_ms": None}, "nothing says that the master of a went online again"),
        ({"messages": 0}, "nothing says that messages left a"),
    ],
)
def test_what_the_tables_do_not_know_is_named(change: dict[str, Any], why: str) -> None:
    assert missing([{**PERIOD, **change}], STEPS) == [why]
