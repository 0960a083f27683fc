"""Made by column, the tables are what one record after the other makes of the same log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from events.broker_events import BrokerEventHeader, HaLinkUp, RoleChanged
from events.codec import decode, encode
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.landing import batches
from lakehouse.landing.batches import DECIDED, DETAILED, EVERYTHING, Share
from lakehouse.landing.kinds import Catalogue
from lakehouse.landing.late_schemas import LateSchemas
from lakehouse.landing.silver_columns import typed_batch
from lakehouse.landing.silver_rows import LogRecord, Row, silver_rows
from lakehouse.tables.columns import wider
from lakehouse.tables.high_water import HighWater
from lakehouse.tables.specs import CLOCK_MS_MAX, DECISIONS, TABLES, UNREADABLE
from tests.support import later_release
from tests.support.control_history import CLUSTER_ID, seen, with_master
from tests.support.generated_history import generate
from tests.support.landed_log import (
    Record,
    batch_of,
    command_records,
    event_records,
    outcome_records,
)

SHARES = pytest.mark.parametrize("share", [EVERYTHING, DECIDED, DETAILED])


def _odd_log() -> list[Record]:
    """What is readable, and between it whatever may go wrong with a record."""
    history = with_master(1, 2, 3)
    history.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    history.elect(-1, seen(1), seen(2), seen(3), master_epoch=9)
    history.append(b"garbage")
    outcomes = [value or b"" for *_, value in outcome_records(history.records)]
    told = decode(outcomes[-3])
    header = BrokerEventHeader(bytes(16), "c", "broker-a", 1, "i", 5, 0)
    role = encode(RoleChanged(header, "SLAVE", 1, 1, "notified"))
    late = later_release.event_bytes(
        later_release.link_up(), peer_broker_id=2, direction="out", rtt_us=7, hops=[{"address": ""}]
    )
    events = [
        encode(HaLinkUp(header, 2, "out")),
        late,
        encode(HaLinkUp(replace(header, at_ms=CLOCK_MS_MAX + 1), 2, "out")),
        encode(HaLinkUp(replace(header, sequence=-1), 2, "ein ü")),
        role,
        later_release.event_bytes(later_release.disk_warm(), celsius=61.5),
        encode(HaLinkUp(replace(header, broker_id=-2), 2, "out")),
        role[:-2],
        history.records[0],
        encode(HaLinkUp(replace(header, at_ms=-1), 2, "")),
    ]
    decided = [
        *outcomes,
        encode(replace(told, digest=b"short")),
        encode(replace(told, labels=("AT_RISK", "NOBODY_KNOWS"))),
        encode(replace(told, published_at_ms=2**62)),
        encode(replace(told, phases={"applied": 5, "detected": 2**62})),
        encode(replace(told, phases={"detected": 6, "applied": -1}, labels=("UNCLEAN",))),
        encode(replace(told, command_offset=-1)),
        later_release.retold(outcomes[-3], later_release.outcome()),
        outcomes[-3] + b"x",
        events[0],
    ]
    return [
        *command_records([*history.records, b"", history.records[0][:-3], role]),
        (COMMANDS_TOPIC, 0, len(history.records) + 3, None),
        *[(OUTCOMES_TOPIC, 0, offset, value) for offset, value in enumerate(decided)],
        *event_records(events[:5], 0),
        *event_records(events[5:], 3),
    ]


ODD = _odd_log()
GENERATED: list[Record] = [
    (topic, partition, offset, value)
    for topic, partition, offset, _, value in generate(120, 4).records()
]


def by_row(
    batch: pa.Table, share: Share, marks: Mapping[str, HighWater], catalogue: Catalogue
) -> dict[str, pa.Table]:
    """The same of one record after the other."""
    found: dict[str, list[Row]] = {}
    columns = ("topic", "partition", "offset", "timestamp", "value")
    for values in zip(*(batch[name].to_pylist() for name in columns), strict=True):
        record = LogRecord(CLUSTER_ID, *values)
        for name, row in silver_rows(record, catalogue):
            place = (record.topic, record.partition)
            if share.takes(record.topic, name) and marks[name].is_new(place, record.offset):
                found.setdefault(name, []).append(row)
    return {
        name: pa.Table.from_pylist(rows, schema=catalogue.tables[name].schema)
        for name, rows in found.items()
    }


def require_same(
    log: list[Record], share: Share, catalogue: Catalogue, marks: Mapping[str, HighWater]
) -> dict[str, pa.Table]:
    batch = batches.in_log_order(batch_of(log))
    made = batches.silver_tables(CLUSTER_ID, batch, share, marks, catalogue)
    wanted = by_row(batch, share, marks, catalogue)
    assert set(made) == set(wanted)
    assert UNREADABLE.name not in made or next(iter(made)) == UNREADABLE.name
    for name, rows in made.items():
        assert rows.schema.equals(wanted[name].schema, check_metadata=True), name
        assert rows.equals(wanted[name]), name
        rows.validate(full=True)
    return made


def unmarked() -> dict[str, HighWater]:
    return {name: HighWater() for name in (*(t.name for t in TABLES), "silver/disk_warm")}


def late(folder: Path) -> Catalogue:
    later_release.put_all(folder)
    return Catalogue(LateSchemas([folder]).of)


@SHARES
def test_odd_records_and_those_between_them_become_the_same_rows(share: Share) -> None:
    made = require_same(ODD, share, Catalogue(), unmarked())
    assert (
        made[UNREADABLE.name].num_rows == 20
        if share is EVERYTHING
        else 8
        if share is DECIDED
        else 12
    )


@SHARES
def test_records_of_a_later_release_stand_between_those_of_this_one(
    share: Share, tmp_path: Path
) -> None:
    made = require_same(ODD, share, late(tmp_path), unmarked())
    if share is not DECIDED:
        assert made["silver/ha_link_up"]["rtt_us"].to_pylist() == [None, 7, None]
    else:
        assert "zone" in str(made[DECISIONS.name].schema.field("candidates").type)


@SHARES
def test_a_table_of_a_later_release_has_more_columns_and_wider_ones(share: Share) -> None:
    catalogue = Catalogue()
    more = pa.list_(pa.struct([pa.field("zone", pa.string())]))
    kept = DECISIONS.schema.field("candidates")
    catalogue.fit(
        DECISIONS.name,
        pa.schema(
            [kept.with_type(wider(kept.type, more)), pa.field("of_another_release", pa.int64())]
        ),
    )
    made = require_same(GENERATED, share, catalogue, unmarked())
    if share is not DETAILED:
        assert made[DECISIONS.name]["of_another_release"].null_count > 0


@SHARES
@pytest.mark.parametrize("mark", [2, 9])
def test_what_a_table_has_already_is_left_out(share: Share, mark: int) -> None:
    marks = unmarked()
    for topic, partition, *_ in ODD:
        for number, one in enumerate(marks.values()):
            one.raise_to([((topic, partition), mark - number % 4)])
    require_same(ODD, share, Catalogue(), marks)


@SHARES
def test_a_long_history_becomes_the_same_rows(share: Share) -> None:
    require_same(GENERATED, share, Catalogue(), unmarked())


def test_what_is_not_wanted_is_not_made() -> None:
    batch = batches.in_log_order(batch_of(GENERATED))
    assert set(typed_batch(batch, ["silver/elections"]).tables) == {"silver/elections"}
    assert typed_batch(batch, []) == ({}, [])
