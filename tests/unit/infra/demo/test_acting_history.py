"""Acting periods out of what brokers reported."""

from __future__ import annotations

from typing import Any

import pytest

from infra.demo.acting_history import KINDS, missing, periods

STEPS = [{"kind": "away", "set": "a", "at_ms": 900}]


def row(at_ms: int, broker_id: int, name: str = "a") -> dict[str, Any]:
    return {"broker_name": name, "broker_id": broker_id, "at_ms": at_ms}


def events(**told: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {**{kind: [] for kind in KINDS}, **told}


def test_a_begin_gets_the_next_end_of_the_same_broker_and_the_masters_return() -> None:
    told = events(
        acting_began=[row(1_000, 1)],
        acting_over=[row(500, 1), row(3_000, 2), row(4_000, 1), row(9_000, 1)],
        pre_online_over=[row(600, 0), row(3_500, 0), row(2_000, 0, "b")],
    )
    assert periods(told) == [
        {"broker_name": "a", "broker_id": 1, "began_ms": 1_000, "for_ms": 3_000, "online_ms": 2_500}
    ]
    assert missing(periods(told), STEPS) == []


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (events(), "no slave of a is known to have acted"),
        (events(acting_began=[row(800, 1)]), "no slave of a is known to have acted"),
        (events(acting_began=[row(1_000, 1)]), "nothing says that the slave of a acts no more"),
        (
            events(acting_began=[row(1_000, 1)], acting_over=[row(2_000, 1)]),
            "nothing says that the master of a went online again",
        ),
    ],
)
def test_what_the_tables_do_not_know_is_named(told: Any, why: str) -> None:
    assert missing(periods(told), STEPS) == [why]
