from pathlib import Path

import pytest

from events.broker_events import BrokerEventHeader, HaLinkDown, HaLinkUp
from events.codec import encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC
from lakehouse.errors import LandingGap
from lakehouse.landing import batches
from lakehouse.tables.delta import read
from lakehouse.tables.high_water import HighWater
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, BY_NAME, DECISIONS, TABLES
from tests.support.control_history import CLUSTER_ID, seen, with_master
from tests.support.landed_log import (
    BEGAN,
    Record,
    batch_of,
    command_records,
    event_records,
    lake_in,
    land,
    new_rows,
    outcome_records,
)


def whole_log() -> list[Record]:
    history = with_master(1, 2, 3)
    history.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    history.append(b"garbage")
    events = [
        encode(kind(BrokerEventHeader(bytes([i] * 16), "c", "broker-a", 1, "i", i, i), 2, *rest))
        for i, (kind, *rest) in enumerate([(HaLinkUp, "out"), (HaLinkDown, "out", "eof")] * 4)
    ]
    return (
        command_records(history.records)
        + outcome_records(history.records)
        + event_records(events[:4], 0)
        + event_records(events[4:], 3)
    )


def place(lake: Lake, name: str) -> Lake:
    """A lake of the same cluster, in a folder of its own."""
    return lake_in(Path(lake.root) / name)


def content(lake: Lake) -> dict[str, list]:
    """Every table's rows; the batch number says only how they came."""
    found = {}
    for table in TABLES:
        rows = read(lake, table)
        names = [name for name in rows.schema.names if name != "batch"]
        found[table.name] = rows.select(names).to_pylist()
    return found


def test_every_record_becomes_a_row_of_bronze_and_of_silver(lake: Lake) -> None:
    log = whole_log()
    land(lake, log)
    found = content(lake)
    bronze = [(r["topic"], r["partition"], r["offset"], r["value"]) for r in found[BRONZE.name]]
    assert bronze == sorted(log, key=lambda record: record[:3])
    in_silver = sum(
        len(rows) for name, rows in found.items() if name not in (BRONZE.name, "silver/elections")
    )
    assert in_silver == len(log)
    assert len(found["silver/elections"]) == 2


def test_a_batch_that_comes_twice_changes_nothing(lake: Lake) -> None:
    log = whole_log()
    land(lake, log)
    before = content(lake)
    assert land(lake, log, batch_id=1) == {}
    assert content(lake) == before


@pytest.mark.parametrize("cut", [pytest.param(1, marks=pytest.mark.long), 3, 7])
def test_another_cut_into_batches_lands_the_same(lake: Lake, cut: int) -> None:
    log = whole_log()
    land(place(lake, "whole"), log)
    for at in range(0, len(log), cut):
        # Each batch repeats the one before it, as after a lost checkpoint.
        land(place(lake, "cut"), log[max(0, at - cut) : at + cut], batch_id=at)
    assert content(place(lake, "cut")) == content(place(lake, "whole"))


def test_a_crash_between_bronze_and_silver_loses_and_doubles_nothing(lake: Lake) -> None:
    import deltalake

    log = whole_log()
    land(place(lake, "whole"), log)
    land(place(lake, "torn"), log[:3])
    new = new_rows(place(lake, "torn"), log)
    for name in (BRONZE.name, "silver/register_broker"):
        deltalake.write_deltalake(place(lake, "torn").uri(BY_NAME[name]), new[name], mode="append")
    again = land(place(lake, "torn"), log)
    assert not {BRONZE.name, "silver/register_broker"} & set(again)
    assert content(place(lake, "torn")) == content(place(lake, "whole"))


def test_records_come_into_the_order_of_the_log() -> None:
    mixed = batch_of([("b", 0, 1, b"x"), ("a", 1, 0, b"x"), ("b", 0, 0, b"x"), ("a", 0, 5, b"x")])
    ordered = batches.in_log_order(mixed)
    assert batches.positions(ordered) == {("a", 0): [5], ("a", 1): [0], ("b", 0): [0, 1]}
    assert batches.last_positions(mixed) == {("a", 0): 5, ("a", 1): 0, ("b", 0): 1}


def test_a_hole_in_commands_is_refused() -> None:
    records = [(COMMANDS_TOPIC, 0, 0, b"x"), (COMMANDS_TOPIC, 0, 2, b"x")]
    with pytest.raises(LandingGap, match="records 1 to 1 are missing"):
        batches.bronze_rows(CLUSTER_ID, batch_of(records), HighWater(), 0, BEGAN)


def test_broker_events_may_begin_late_because_their_head_is_not_kept() -> None:
    records = [(BROKER_EVENTS_TOPIC, 2, 40, b"x")]
    assert batches.bronze_rows(CLUSTER_ID, batch_of(records), HighWater(), 0, BEGAN).num_rows == 1


def test_only_topics_of_the_asked_tables_are_read() -> None:
    log = batches.in_log_order(batch_of(whole_log()))
    marks = {DECISIONS.name: HighWater()}
    assert list(batches.silver_tables(CLUSTER_ID, log, batches.DECIDED, marks)) == [DECISIONS.name]


def test_rows_have_the_types_of_their_table() -> None:
    log = batches.in_log_order(batch_of(whole_log()))
    new = batches.silver_tables(
        CLUSTER_ID, log, batches.EVERYTHING, {t.name: HighWater() for t in TABLES}
    )
    for name, rows in new.items():
        assert rows.schema.equals(BY_NAME[name].schema)
        rows.validate(full=True)


def test_an_empty_batch_is_no_rows() -> None:
    """The first batch of a new cluster has none."""
    empty = batches.in_log_order(batch_of([]))
    marks = {table.name: HighWater() for table in TABLES}
    assert batches.bronze_rows(CLUSTER_ID, empty, HighWater(), 0, BEGAN).num_rows == 0
    assert batches.silver_tables(CLUSTER_ID, empty, batches.EVERYTHING, marks) == {}
    assert batches.last_positions(empty) == {}
