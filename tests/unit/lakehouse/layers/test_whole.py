"""A verdict with the layers beside it."""

from pathlib import Path

import deltalake
import pyarrow as pa

from lakehouse.gold import specs
from lakehouse.landing.late_schemas import OWN_FOLDER
from lakehouse.layers.difference import Compared
from lakehouse.layers.whole import with_found, with_statistics, with_tables
from lakehouse.proof.finding import Finding
from lakehouse.proof.verdict import Verdict
from lakehouse.proof.verify import verify_here
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, BY_NAME
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, event_records, land, new_rows, outcome_records
from tests.support.made_gold import bring_up, job_of

GOOD = Verdict(verified_up_to=9, digest="ab", commands=10, compared=10, unproven=0)
RECORDS = with_master(1, 2, 3).records


def landed(lake: Lake) -> Lake:
    land(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    bring_up(job_of(lake))
    return lake


def test_layers_that_agree_are_said_and_change_no_verdict(lake: Lake) -> None:
    found = with_tables(GOOD, landed(lake), [OWN_FOLDER])
    assert found.exit_code == 0
    assert "rows are what bronze gives" in found.text()
    assert "rows are what history gives" in found.text()


def test_a_difference_makes_it_a_failure(lake: Lake) -> None:
    delta.open_table(landed(lake), specs.BROKER_SETS).update({"master_epoch": "7"})
    found = with_tables(GOOD, lake)
    assert found.exit_code == 1
    assert "gold/broker_sets, regent.commands-0" in found.text()


def test_layers_are_compared_as_far_as_bronze_can_be_read(lake: Lake) -> None:
    for path in Path(landed(lake).root).glob("bronze/records/*/topic=regent.outcomes/*.parquet"):
        path.write_bytes(path.read_bytes()[:-5])
    found = with_tables(GOOD, lake)
    assert any(one.table == "silver/decisions" for one in found.findings)


def test_what_was_found_is_added_to_what_the_proof_found() -> None:
    one = Finding("t", "topic", 0, 1, 1, "said", "do")
    found = with_found(GOOD, Compared(findings=[one], more=3, problems=["p"], notices=["n"]))
    assert (found.findings, found.problems) == ([one], ["p"])
    assert found.notices == ["3 more differences were not listed", "n"]


def test_a_column_of_another_tool_is_told_by_name_and_is_in_nobodys_way(lake: Lake) -> None:
    landed(lake)
    assert verify_here(lake).exit_code == 0
    for table in (BRONZE, specs.FAILOVERS):
        delta.open_table(lake, table).alter.add_columns([deltalake.Field("note", "string")])
    for name, rows in new_rows(lake, event_records([b"x"]), 1).items():
        has_note = name == BRONZE.name
        rows = rows.append_column("note", pa.array(["seen"])) if has_note else rows
        delta.OpenTables(lake).append(BY_NAME[name], rows)
    for name, rows in new_rows(lake, event_records([b"x", b"y"]), 2).items():
        delta.OpenTables(lake).append(BY_NAME[name], rows)
    proven = verify_here(lake)
    found = with_tables(with_statistics(proven, lake), lake)
    assert (proven.exit_code, found.exit_code, found.findings) == (0, 0, [])
    told = [one for one in found.notices if "which this release does not know" in one]
    assert [one.partition(", ")[0] for one in told] == [
        "gold/failovers has the column note",
        "bronze/records has the column note",
    ]
