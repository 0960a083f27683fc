"""Whatever is otherwise in silver than bronze gives is named by table, offset and column."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import pytest
from msgspec.structs import replace

from events.codec import decode, encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.invariants.lengths import AHEAD_MAX_MS
from lakehouse.landing.kinds import Catalogue
from lakehouse.landing.silver_rows import LogRecord, typed_rows
from lakehouse.layers import silver
from lakehouse.layers.difference import Compared
from lakehouse.layers.silver import compare_silver
from lakehouse.tables import delta
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import Loss, loss_rows
from lakehouse.tables.specs import BRONZE, BY_NAME, DECISIONS, ELECTIONS, LOSSES, TABLES, UNREADABLE
from tests.support.examples import some
from tests.support.judged_history import sound_history, sound_voices
from tests.support.landed_log import (
    BEGAN_MS,
    append_to_bronze,
    command_records,
    event_records,
    land,
    outcome_records,
)

RECORDS = sound_history().records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)
EVENTS = event_records([encode(row.event) for row in sound_voices().rows], 2)
LATER_MS = BEGAN_MS + AHEAD_MAX_MS + 1
ROLES = BY_NAME["silver/role_changed"]


@pytest.fixture
def landed(lake: Lake) -> Lake:
    land(lake, [*COMMANDS, *OUTCOMES, *EVENTS, (BROKER_EVENTS_TOPIC, 0, 0, b"garbage")])
    return lake


def compared(lake: Lake, now_ms: int = LATER_MS) -> Compared:
    return compare_silver(lake, BronzeFiles(lake), Catalogue(), now_ms)


def told(lake: Lake) -> list[str]:
    return [one.text() for one in compared(lake).findings]


def altered(lake: Lake, table: Any, change: Callable[[list[Any]], list[Any]]) -> None:
    """The table's rows are other ones, as if they had landed so."""
    rows = change(delta.read(lake, table).to_pylist())
    shutil.rmtree(lake.uri(table))
    delta.ensure_table(lake, table)
    if rows:
        delta.append_rows(lake, table, rows)


@pytest.mark.parametrize("at_once", some([4, 1, 1_000]))
def test_nothing_is_found_where_nothing_was_altered(
    landed: Lake, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(silver, "RECORDS_AT_ONCE", at_once)
    found = compared(landed)
    rows = sum(delta.count_rows(landed, one) for one in TABLES if one.layer == "silver")
    assert (found.findings, found.problems, found.rows) == ([], [], rows)
    assert found.notices == [f"silver: {rows} rows are what bronze gives"]


def test_rows_of_records_that_the_log_dropped_before_bronze_had_them_are_told_and_no_finding(
    landed: Lake,
) -> None:
    """The details may be ahead of bronze when that happens."""
    garbage = (BROKER_EVENTS_TOPIC, 0, 0)
    lost = {(BROKER_EVENTS_TOPIC, 2, 1), (BROKER_EVENTS_TOPIC, 2, 2), garbage}
    land(landed, [(*garbage[:2], 1, EVENTS[0][3])])
    altered(
        landed,
        BRONZE,
        lambda rows: [
            row for row in rows if (row["topic"], row["partition"], row["offset"]) not in lost
        ],
    )
    said = told(landed)
    assert any("offsets 1 to 2: a row that no record of bronze gives" in one for one in said)
    assert any("a row that is not of the record of bronze" in one for one in said)
    noted = [Loss(BROKER_EVENTS_TOPIC, 2, 1, 2), Loss(*garbage, 0)]
    delta.OpenTables(landed).append(LOSSES, loss_rows(str(landed.cluster_id), noted))
    found = compared(landed)
    assert not found.findings
    assert "3 rows of silver are of records that are noted as lost before bronze had them" in (
        found.notices
    )


def with_other(at: int, **columns: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda rows: [*rows[:at], rows[at] | columns, *rows[at + 1 :]]


ALTERATIONS: dict[str, tuple[Any, Callable[[list[Any]], list[Any]], str]] = {
    "a digest": (
        DECISIONS,
        with_other(3, digest="0" * 64),
        "silver/decisions, regent.outcomes-0 offset 3: digest is '0000",
    ),
    "accepted": (
        DECISIONS,
        with_other(3, accepted=False),
        "regent.outcomes-0 offset 3: accepted is False, history gives True",
    ),
    "a phase": (
        DECISIONS,
        with_other(4, phases=[("applied", 1)]),
        "regent.outcomes-0 offset 4: phases is",
    ),
    "a time": (
        DECISIONS,
        with_other(4, log_timestamp=datetime(2020, 1, 1, tzinfo=UTC)),
        "offset 4: log_timestamp is 2020-01-01T00:00:00+00:00, history gives 2026-01-01",
    ),
    "a row gone": (
        DECISIONS,
        lambda rows: [*rows[:5], *rows[7:]],
        "silver/decisions, regent.outcomes-0 offsets 5 to 6: no row, although the record landed",
    ),
    "a row twice": (
        DECISIONS,
        lambda rows: [*rows, rows[6]],
        "silver/decisions, regent.outcomes-0 offset 6: a row stands twice",
    ),
    "a row of nothing": (
        ROLES,
        lambda rows: [*rows, rows[0] | {"log_offset": 999, "log_partition": 7}],
        "silver/role_changed, regent.broker-events-7 offset 999: rows that no record of bronze",
    ),
    "a row of another record": (
        ROLES,
        lambda rows: [*rows, rows[0] | {"log_offset": 0}],
        "silver/role_changed, regent.broker-events-2 offset 0: a row that no record of bronze",
    ),
    "all rows gone": (ELECTIONS, lambda rows: [], "silver/elections, regent.outcomes-0 offset"),
    "a nested value": (
        ELECTIONS,
        lambda rows: with_other(1, candidates=rows[0]["candidates"])(rows),
        "candidates is",
    ),
    "a quarantined record": (
        UNREADABLE,
        lambda rows: [row | {"value": b"other"} for row in rows],
        "silver/unreadable, regent.broker-events-0 offset 0: a row that is not of the record",
    ),
    "a quarantined record gone": (
        UNREADABLE,
        lambda rows: [],
        "silver/unreadable, regent.broker-events-0 offset 0: no row",
    ),
}


@pytest.mark.parametrize("what", some(ALTERATIONS))
def test_each_alteration_is_named_and_what_to_do(landed: Lake, what: str) -> None:
    table, change, expected = ALTERATIONS[what]
    altered(landed, table, change)
    found = told(landed)
    assert any(expected in one for one in found), found
    assert all("remove the table's folder" in one for one in found)


def test_a_table_that_is_gone_lacks_all_its_rows(landed: Lake) -> None:
    shutil.rmtree(landed.uri(DECISIONS))
    [one] = told(landed)
    assert f"silver/decisions, regent.outcomes-0 offsets 0 to {len(RECORDS) - 1}: no row" in one


@pytest.mark.parametrize("cut", [True, False])
def test_rows_of_a_damaged_file_are_named_beside_it(landed: Lake, cut: bool) -> None:
    [path] = Path(landed.uri(DECISIONS)).glob("**/*.parquet")
    if cut:
        path.write_bytes(path.read_bytes()[:-9])
    else:
        path.unlink()
    found = compared(landed)
    [problem] = found.problems
    assert path.name in problem and ("is gone" in problem) != cut
    assert [(one.first, one.last) for one in found.findings] == [(0, len(RECORDS) - 1)]


def test_what_lacks_in_front_of_a_row_is_not_on_its_way(landed: Lake) -> None:
    altered(landed, DECISIONS, lambda rows: [*rows[:1], *rows[2:]])
    [found] = compared(landed, BEGAN_MS + 1_000).findings
    assert "silver/decisions, regent.outcomes-0 offset 1: no row" in found.text()


def test_what_has_just_landed_may_not_be_in_silver_yet(landed: Lake) -> None:
    more = outcome_records(RECORDS)[-1][3]
    append_to_bronze(landed, [(OUTCOMES_TOPIC, 0, len(OUTCOMES), more)])
    found = compared(landed, BEGAN_MS + 1_000)
    assert not found.findings and "rows of silver are still on their way" in found.notices[-1]
    late = compared(landed)
    assert {one.first for one in late.findings} == {len(OUTCOMES)}
    assert "or landing is behind; 'regent status'" in late.findings[0].text()


def test_a_schema_that_nobody_knows_is_said_and_not_compared(lake: Lake) -> None:
    strange = b"\xc3\x01" + bytes(20)
    land(lake, [*COMMANDS, *OUTCOMES, (BROKER_EVENTS_TOPIC, 0, 0, strange)])
    found = compared(lake)
    assert not found.findings
    assert "1 records have a schema that this release does not know" in found.notices[-1]
    deltalake.write_deltalake(f"{lake.root}/silver/of_tomorrow", delta.read(lake, DECISIONS))
    assert (
        "silver/of_tomorrow is of a kind that this release does not know"
        in (compared(lake).notices[-1])
    )


def test_what_can_be_read_by_now_waits_in_quarantine(landed: Lake) -> None:
    [value] = [value for *_, offset, value in EVENTS if offset == 3]
    row = {
        "cluster_id": landed.cluster_id,
        "log_partition": 2,
        "log_offset": 3,
        "log_timestamp": None,
        "topic": BROKER_EVENTS_TOPIC,
        "reason": "unknown then",
        "value": value,
    }
    delta.append_rows(landed, UNREADABLE, [row])
    assert told(landed) == [], "it stands in its table too, as after it was read again"
    kind = type(decode(value or b"")).__name__
    table = next(one for one in TABLES if one.kind == kind)
    altered(landed, table, lambda rows: [one for one in rows if one["log_offset"] != 3])
    [one] = told(landed)
    assert "stands in silver/unreadable and can be read" in one and "reads what it could not" in one


def test_a_record_that_broke_a_check_stands_in_quarantine_or_where_it_landed_before(
    lake: Lake,
) -> None:
    outcome = encode(replace(decode(OUTCOMES[2][3] or b""), command_offset=-5))
    land(lake, [*COMMANDS, *OUTCOMES[:2], (*OUTCOMES[2][:3], outcome), *OUTCOMES[3:]])
    quarantined = delta.read(lake, UNREADABLE)["topic"].to_pylist()
    assert OUTCOMES_TOPIC in quarantined and told(lake) == []
    at = datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)
    record = LogRecord(str(lake.cluster_id), OUTCOMES_TOPIC, 0, 2, at, outcome)
    [row] = [row for name, row in typed_rows(record) if name == DECISIONS.name]
    altered(lake, UNREADABLE, lambda rows: [r for r in rows if r["topic"] != OUTCOMES_TOPIC])
    delta.append_rows(lake, DECISIONS, [row])
    assert told(lake) == []
    altered(lake, DECISIONS, lambda rows: [one | {"code": 7} for one in rows])
    assert any("offset 2: code is 7" in one for one in told(lake))


def test_other_commands_of_other_clusters_are_another_matter(landed: Lake) -> None:
    other = landed.of("another")
    land(other, COMMANDS)
    assert told(landed) == [] == told(other)
    assert COMMANDS_TOPIC in BronzeFiles(other).topics


@pytest.mark.parametrize("table", [ROLES, UNREADABLE], ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"log_offset": -3}, "no log has such an offset"),
        ({"log_partition": 77}, "nothing of that partition is there"),
    ],
)
def test_a_row_at_no_place_of_the_log_is_named(
    landed: Lake, table: Any, place: dict[str, Any], said: str
) -> None:
    altered(landed, table, lambda rows: [*rows, rows[0] | place])
    [found] = told(landed)
    assert f"{table.name}, " in found and said in found
