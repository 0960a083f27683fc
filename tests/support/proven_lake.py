"""A small lake to prove, and what somebody does to its rows. Knows no rule."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from events.broker_events import BrokerEventHeader, RoleChanged
from events.codec import decode, encode
from lakehouse.proof.known_names import KNOWN
from lakehouse.proof.verdict import Verdict
from lakehouse.proof.verify import verify_here
from lakehouse.tables import delta
from lakehouse.tables.delta import ensure_tables
from lakehouse.tables.lake import Lake
from tests.support.control_history import History, seen, with_master
from tests.support.landed_log import command_records, event_records, land, outcome_records

Prove = Callable[..., Verdict]
"""The proof of a lake and a scope, in this process or in Spark."""
BOTH = pytest.mark.parametrize(
    "prove", ["here", pytest.param("in Spark", marks=pytest.mark.spark)], indirect=True
)
BOTH_LONG = pytest.mark.parametrize(
    "prove",
    ["here", pytest.param("in Spark", marks=[pytest.mark.spark, pytest.mark.long])],
    indirect=True,
)

RANGE = 5
"""Commands of a range, for histories of some twenty."""
AT = 7
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def history_with_failover() -> History:
    history = with_master(1, 2, 3)
    history.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    history.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)
    history.append(b"garbage")
    return history


def landed(lake: Lake) -> int:
    """A history with events, proven once; gives how many commands it has."""
    history = history_with_failover()
    events = [
        encode(
            RoleChanged(
                BrokerEventHeader(bytes(16), "c", "broker-a", i, "i", 1, 1), "SLAVE", 2, 2, "n"
            )
        )
        for i in (1, 2, 3)
    ]
    land(
        lake,
        command_records(history.records)
        + outcome_records(history.records)
        + event_records(events, 0)
        + event_records(events[:2], 1),
    )
    first = verify_here(lake)
    assert first.exit_code == 0 and "named for the first time" in first.text()
    again = verify_here(lake)
    assert (again.exit_code, again.findings, again.notices) == (0, [], [])
    return len(history.records)


def altered(at: int, **columns: Any) -> Callable[[list[Any]], list[Any]]:
    """Other values in these columns of the row at a place in its file."""
    return lambda rows: [*rows[:at], rows[at] | columns, *rows[at + 1 :]]


def republished(at: int, **fields: Any) -> Callable[[list[Any]], list[Any]]:
    """An outcome that says something else, where the fold does not say what is right."""

    def change(rows: list[Any]) -> list[Any]:
        lie = encode(replace(decode(rows[at]["value"]), **fields))
        return [*rows[:at], rows[at] | {"value": lie}, *rows[at + 1 :]]

    return change


def without_names(lake: Lake, keep: Callable[[Any], bool]) -> None:
    rows = [row for row in delta.read(lake, KNOWN).to_pylist() if keep(row)]
    shutil.rmtree(lake.uri(KNOWN))
    ensure_tables(lake, (KNOWN,))
    delta.append_rows(lake, KNOWN, rows)
