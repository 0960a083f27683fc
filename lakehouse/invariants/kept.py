"""What a check of all history keeps in the lake for the next one: how far it came with what it
knew, and the alarms.

Responsible for the two tables, each replaced for one cluster in one commit. Refuses to judge. The
alarms are written first: a check that dies between the two is made again and finds the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
from msgspec import Struct

from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.invariants.alarms import ALARMS, Alarm
from lakehouse.invariants.invariants import INVARIANTS, carried_from_json
from lakehouse.tables.columns import Column
from lakehouse.tables.delta import ensure_tables, milliseconds, read, replace_rows
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import CLUSTER, CLUSTER_ID, TABLE_PROPERTIES, TIMESTAMP, TableSpec

FORMAT = 1

CHECKED = TableSpec(
    name="proof/check",
    meaning=(
        "How far the check of all history has come with each cluster, and what it must know to go "
        "on. May be thrown away: the next check then judges everything again."
    ),
    columns=(
        CLUSTER,
        Column("checked_at", TIMESTAMP, "When it came so far."),
        Column(
            "judged", pa.int64(), "The last command whose outcome was judged; -1 before the first."
        ),
        Column("state", pa.binary(), "What it knows (`check_store.Checked`, MessagePack)."),
    ),
    key=(CLUSTER_ID,),
    partition_column="judged",
    offset_column="judged",
    properties={**TABLE_PROPERTIES, "delta.appendOnly": "false"},
)


def _names() -> tuple[str, ...]:
    return tuple(one.name for one in INVARIANTS)


class Checked(Struct):
    """How far a check has come. Marks and holes are by `topic-partition`."""

    marks: dict[str, int] = {}
    """The next offset to be judged."""
    holes: dict[str, list[tuple[int, int]]] = {}
    """What was missing below the marks when it was judged; both ends included."""
    judged: int = -1
    """The last command whose outcome was judged."""
    decisions: int = 0
    broker_events: int = 0
    unreadable: int = 0
    violations: dict[str, int] = {}
    """Invariant -> how often it is broken."""
    carried: bytes = b"{}"
    """What the invariants know (`invariants.carried_to_json`)."""
    reached: dict[str, int] = {}
    """Offset behind the last record that any check saw; it never falls. None by first releases:
    their marks stand for it.
    """
    invariants: tuple[str, ...] = msgspec.field(default_factory=_names)
    format: int = FORMAT

    @property
    def is_usable(self) -> bool:
        """Whether this release can go on from it: it asks the same invariants."""
        return self.format == FORMAT and self.invariants == _names()


def last_check(lake: Lake) -> Checked | None:
    """How far the last check came; None when there was none, or none that this release can go on
    from.
    """
    try:
        rows = read(lake, CHECKED, columns=["state"])
        [found] = [msgspec.msgpack.decode(state.as_py(), type=Checked) for state in rows["state"]]
        carried_from_json(found.carried)
    except (LakehouseError, msgspec.MsgspecError, ValueError):
        return None
    return found if found.is_usable else None


def reached(lake: Lake) -> dict[str, int]:
    """How far bronze went at any check, by `topic-partition`; also of a check that this release
    cannot go on from.
    """
    try:
        rows = read(lake, CHECKED, columns=["state"])
        states = rows["state"].drop_null().to_pylist()
        found = [msgspec.msgpack.decode(state, type=Checked) for state in states]
    except (LakehouseError, msgspec.MsgspecError):
        return {}
    return {name: end for one in found for name, end in (one.marks | one.reached).items()}


def alarms(lake: Lake) -> list[Alarm]:
    """Every alarm there was, standing or cleared, by the time it was first seen; none when no check
    has found any.
    """
    try:
        rows = read(lake, ALARMS)
    except NotLanded:
        return []
    times = {
        name: milliseconds(rows[column])
        for name, column in (("first_seen_ms", "first_seen_at"), ("cleared_ms", "cleared_at"))
    }
    plain = [name for name in Alarm.__struct_fields__ if name not in times]
    found = [
        Alarm(
            **(
                {name: row[name] for name in plain}
                | {name: column[place] for name, column in times.items()}
            )
        )
        for place, row in enumerate(rows.select(plain).to_pylist())
    ]
    return sorted(
        found,
        key=lambda alarm: (
            alarm.first_seen_ms,
            alarm.invariant,
            alarm.topic,
            alarm.partition,
            alarm.offset,
        ),
    )


def keep_alarms(lake: Lake, found: Sequence[Alarm]) -> None:
    """Put these in the place of the cluster's alarms. Raises `LakehouseError`."""
    rows = [
        {
            CLUSTER_ID: lake.cluster_id,
            "explanation": alarm.explanation,
            "first_seen_at": _moment(alarm.first_seen_ms),
            "cleared_at": _moment(alarm.cleared_ms),
            **{
                name: getattr(alarm, name)
                for name in Alarm.__struct_fields__
                if name in ALARMS.schema.names
            },
        }
        for alarm in found
    ]
    _replace(lake, ALARMS, rows)


def keep_check(lake: Lake, checked: Checked, now_ms: int) -> None:
    """Put it in the place of the cluster's last check. Raises `LakehouseError`."""
    state = msgspec.msgpack.encode(checked)
    _replace(
        lake,
        CHECKED,
        [
            {
                CLUSTER_ID: lake.cluster_id,
                "checked_at": _moment(now_ms),
                "judged": checked.judged,
                "state": state,
            }
        ],
    )


def _replace(lake: Lake, table: TableSpec, rows: list[dict[str, object]]) -> None:
    ensure_tables(lake, (ALARMS, CHECKED))  # Both: no alarm is an answer too.
    replace_rows(lake, table, rows)


def _moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)
