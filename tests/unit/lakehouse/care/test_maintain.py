import json
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakehouse.care import maintain as care
from lakehouse.care.maintain import MS_PER_DAY, TableCare, lake_locks, maintain
from lakehouse.gold.aggregate_tables import FAILOVER_RATES, REPLICA_LAG
from lakehouse.gold.progress import read_mark
from lakehouse.gold.specs import GOLD_TABLES
from lakehouse.tables.bronze_log import BronzeLog
from lakehouse.tables.delta import ensure_tables, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, BY_NAME, DECISIONS, TABLES
from tests.support.judged_history import sound_history
from tests.support.landed_log import (
    command_records,
    empty_tables,
    lake_in,
    land,
    new_rows,
    outcome_records,
)
from tests.support.made_gold import bring_up, job_of, rows_of

RECORDS = sound_history().records
DAY_S = 86_400


@pytest.fixture(scope="module")
def landed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a commit for each record, as a quiet cluster makes them."""
    folder = tmp_path_factory.mktemp("lake")
    lake = lake_in(folder)
    empty_tables(lake)
    new = new_rows(lake, [*command_records(RECORDS), *outcome_records(RECORDS)])
    for table, offset in ((BRONZE, "offset"), (DECISIONS, "command_offset")):
        rows = new.pop(table.name)
        for i in range(len(RECORDS)):
            one = rows.filter(pc.equal(rows[offset], i))
            deltalake.write_deltalake(lake.uri(table), one, mode="append")
    for name, rows in new.items():
        deltalake.write_deltalake(lake.uri(BY_NAME[name]), rows, mode="append")
    return folder


@pytest.fixture
def landed(landed_once: Path, tmp_path: Path) -> Lake:
    """One's own copy of it."""
    shutil.copytree(landed_once, tmp_path / "lake")
    return lake_in(tmp_path / "lake")


def cared(lake: Lake, **options: object) -> dict[str, TableCare]:
    locks = lake_locks(lake)
    try:
        return {
            one.table: one
            for one in maintain(lake, locks, **{"tables": (BRONZE, DECISIONS), **options})
        }  # type: ignore[arg-type]
    finally:
        locks.close()


def content(lake: Lake) -> dict[str, pa.Table]:
    return {table.name: read(lake, table) for table in TABLES}


def age(lake: Lake, days: float, up_to: int, *, keep_checkpoints: bool = False) -> None:
    """Make the commits of decisions up to that version, and what they removed, that much older;
    checkpoints hold the times as they were.
    """
    log = Path(lake.uri(DECISIONS)) / "_delta_log"
    for path in log.glob("*.json"):
        if int(path.stem) > up_to:
            continue
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            stamped = action.get("remove") or action.get("commitInfo") or {}
            for name in {"deletionTimestamp", "timestamp"} & stamped.keys():
                stamped[name] -= round(days * DAY_S * 1000)
        path.write_text("\n".join(map(json.dumps, actions)))
    for path in log.iterdir():
        if "checkpoint" in path.name and not keep_checkpoints:
            path.unlink()
        elif path.name[:1].isdigit() and int(path.name.split(".")[0]) <= up_to:
            then = path.stat().st_mtime - days * DAY_S
            os.utime(path, (then, then))


def test_files_become_few_rows_stay_and_a_second_round_finds_nothing_to_do(landed: Lake) -> None:
    lake = landed
    before = content(lake)
    first = cared(lake, tables=care.CARED_FOR)
    assert not [one.problem for one in first.values() if one.problem]
    assert (
        first[DECISIONS.name].files_before == len(RECORDS)
        and first[DECISIONS.name].files_after == 1
    )
    assert (
        first[BRONZE.name].files_before == 2 * len(RECORDS) and first[BRONZE.name].files_after == 2
    )
    assert content(lake) == before
    again = cared(lake, tables=care.CARED_FOR)
    assert {name: one.version for name, one in again.items()} == {
        name: one.version for name, one in first.items()
    }
    assert not any(one.longest_hold_ms for one in again.values())
    assert len(RECORDS) == BronzeLog(lake, "regent.commands").end


def test_files_hold_ranges_of_offsets_after_merging(landed: Lake) -> None:
    cared(landed)
    statistics = pa.table(
        deltalake.DeltaTable(landed.uri(BRONZE)).get_add_actions(flatten=True)
    ).to_pylist()
    assert {(row["min.offset"], row["max.offset"]) for row in statistics} == {(0, len(RECORDS) - 1)}


def test_readers_can_take_a_part_of_a_merged_file(
    landed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(care, "ROWS_TOGETHER", 5)
    cared(landed)
    [file] = deltalake.DeltaTable(landed.uri(DECISIONS)).file_uris()
    groups = [
        pq.ParquetFile(file).metadata.row_group(at)
        for at in range(pq.ParquetFile(file).num_row_groups)
    ]
    assert (
        sum(group.num_rows for group in groups) == len(RECORDS) > 10
        and max(group.num_rows for group in groups) <= 5
    )
    assert {group.column(0).compression for group in groups} == {"ZSTD"}


def test_a_table_of_a_kind_that_came_later_is_cared_for_as_well(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    late = str(tmp_path / "silver" / "kind_of_tomorrow")
    for i in range(20):
        row = pa.table({"cluster_id": ["c"], "log_offset": [i]})
        deltalake.write_deltalake(late, row, mode="append", partition_by=["cluster_id"])
    assert cared(lake, tables=None)["silver/kind_of_tomorrow"].files_after == 1


def test_a_gold_table_is_ordered_by_what_its_specification_names(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    table = next(one for one in GOLD_TABLES if one.cluster_by == ("cluster_id", "broker_name"))
    ensure_tables(lake, [table])
    names = [f"set-{i % 5}" for i in range(20)]
    for name in names:
        row = {field.name: _some(field) for field in table.schema} | {
            "cluster_id": "c",
            "broker_name": name,
        }
        deltalake.write_deltalake(
            lake.uri(table), pa.Table.from_pylist([row], schema=table.schema), mode="append"
        )
    done = cared(lake, tables=[table])[table.name]
    assert (done.problem, done.files_before, done.files_after) == (None, len(names), 1)
    assert deltalake.DeltaTable(lake.uri(table)).to_pyarrow_table()[
        "broker_name"
    ].to_pylist() == sorted(names)


def test_rows_go_when_the_specification_says_so_and_never_otherwise(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    forever, kept = FAILOVER_RATES, replace(REPLICA_LAG, retention_days=30)
    ensure_tables(lake, [forever, kept])
    for table in (forever, kept):
        rows = [
            {field.name: _some(field) for field in table.schema}
            | {"cluster_id": "c", "window_start_ms": day * MS_PER_DAY}
            for day in range(40)
        ]
        deltalake.write_deltalake(
            lake.uri(table), pa.Table.from_pylist(rows, schema=table.schema), mode="append"
        )
    for dropped in (10, 0):
        done = cared(lake, tables=[forever, kept], now_ms=40 * MS_PER_DAY)
        assert [(one.problem, one.rows_dropped) for one in done.values()] == [
            (None, 0),
            (None, dropped),
        ]
    left = deltalake.DeltaTable(lake.uri(kept)).to_pyarrow_table()["window_start_ms"].to_pylist()
    assert sorted(left) == [day * MS_PER_DAY for day in range(10, 40)]
    assert deltalake.DeltaTable(lake.uri(forever)).to_pyarrow_table().num_rows == 40


def _some(field: pa.Field) -> object:
    kinds = {
        pa.types.is_integer: 1,
        pa.types.is_string: "x",
        pa.types.is_boolean: True,
        pa.types.is_list: [],
        pa.types.is_map: [],
    }
    return next((value for is_kind, value in kinds.items() if is_kind(field.type)), None)


def test_versions_of_gold_are_kept_for_a_day_and_gold_made_again_and_again_stays_small(
    tmp_path: Path,
) -> None:
    assert (care.window_of(DECISIONS, 30), care.window_of(GOLD_TABLES[0], 30)) == (30, 1)
    lake, runs = lake_in(tmp_path), 3
    outcomes, commands = outcome_records(RECORDS), command_records(RECORDS)
    job = job_of(lake)
    for run in range(1, runs + 1):
        land(lake, [*commands[: run * 4], *outcomes[: run * 4]])
        bring_up(job)
    made, mark = rows_of(lake), read_mark(lake)
    done = cared(lake, tables=care.CARED_FOR)
    assert not [one.problem for one in done.values() if one.problem]
    assert "gold/progress" in done
    assert (rows_of(lake), read_mark(lake)) == (made, mark)
    assert bring_up(job) == 0


def test_time_travel_inside_the_window_stays_possible_and_older_files_go(landed: Lake) -> None:
    lake = landed
    young, old = 29, 31
    merged = cared(lake)[DECISIONS.name].version
    travelled = len(RECORDS) // 2
    for days, files_gone in ((young, 0), (old - young, len(RECORDS))):
        age(lake, days, merged)
        done = cared(lake, window_days=30)[DECISIONS.name]
        assert (done.problem, done.files_vacuumed) == (None, files_gone)
        if not files_gone:
            past = deltalake.DeltaTable(lake.uri(DECISIONS), version=travelled).to_pyarrow_table()
            assert sorted(past["command_offset"].to_pylist()) == list(range(travelled))
    assert read(lake, DECISIONS).num_rows == len(RECORDS)


def test_commits_that_no_version_of_the_window_needs_are_forgotten(
    landed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(care, "COMMITS_PER_CHECKPOINT", 10)
    lake = landed
    cared(lake)
    newest = deltalake.DeltaTable(lake.uri(DECISIONS)).version()
    age(lake, 31, newest, keep_checkpoints=True)
    row = read(lake, DECISIONS).slice(0, 1)
    for _ in range(care.COMMITS_PER_CHECKPOINT):
        deltalake.write_deltalake(lake.uri(DECISIONS), row, mode="append")
    cared(lake)
    left = sorted(
        int(path.stem) for path in (Path(lake.uri(DECISIONS)) / "_delta_log").glob("*.json")
    )
    assert left[0] == newest
    assert deltalake.DeltaTable(
        lake.uri(DECISIONS), version=newest
    ).to_pyarrow_table().num_rows == len(RECORDS)


def test_what_a_writer_left_before_its_commit_is_removed_only_when_it_is_old(landed: Lake) -> None:
    lake = landed
    fresh, stale = (
        Path(lake.uri(BRONZE)) / "cluster_id=c" / ("topic=regent.commands") / f"part-{name}.parquet"
        for name in ("a", "b")
    )
    for path in (fresh, stale):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"left behind")
    os.utime(stale, (1, 1))
    assert cared(lake)[BRONZE.name].files_vacuumed == 1
    assert fresh.exists() and not stale.exists()


def test_appends_go_on_while_tables_are_cared_for(landed: Lake) -> None:
    lake = landed
    more, ended = 20, threading.Event()
    locks = lake_locks(lake)
    row = read(lake, DECISIONS).slice(0, 1)

    def append() -> None:
        for _ in range(more):
            with locks.held(DECISIONS.name):
                deltalake.write_deltalake(lake.uri(DECISIONS), row, mode="append")
        ended.set()

    writer = threading.Thread(target=append)
    writer.start()
    rounds = []
    theirs = lake_locks(lake)
    while not ended.is_set():
        rounds += list(maintain(lake, theirs, tables=[DECISIONS]))
    writer.join()
    rounds += list(maintain(lake, theirs, tables=[DECISIONS]))
    locks.close()
    theirs.close()
    assert not [one.problem for one in rounds if one.problem]
    assert read(lake, DECISIONS).num_rows == len(RECORDS) + more
    assert rounds[-1].files_after <= care.plan.FILES_PER_TIER_MAX


def test_a_table_in_trouble_is_named_and_the_others_are_cared_for(landed: Lake) -> None:
    lake = landed
    for path in (Path(lake.uri(BRONZE)) / "_delta_log").glob("*.json"):
        path.write_text("{")
    done = cared(lake)
    assert "bronze/records" in (done[BRONZE.name].problem or "")
    assert done[DECISIONS.name].files_after == 1


def test_it_ends_between_two_tables_when_told(landed: Lake) -> None:
    locks = lake_locks(landed)
    asked = iter([False, True])
    assert len(list(maintain(landed, locks, stopped=lambda: next(asked)))) == 1
    locks.close()
