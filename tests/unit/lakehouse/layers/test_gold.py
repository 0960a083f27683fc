"""Whatever is otherwise in gold than history gives is named by table, row and column."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.gold import progress, specs
from lakehouse.gold.progress import GOLD_PROGRESS
from lakehouse.gold.specs import GOLD_TABLES
from lakehouse.layers import gold
from lakehouse.layers.difference import Compared
from lakehouse.layers.gold import compare_gold
from lakehouse.tables import delta, file_locks
from lakehouse.tables.lake import Lake
from tests.support.examples import some
from tests.support.generated_history import CLUSTER_ID, generate
from tests.support.generated_lake import land_generated
from tests.support.made_gold import bring_up, job_of

HISTORY = generate(60, 2, 5)
LAST = 59


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Some failovers of two sets, with gold."""
    lake = land_generated(tmp_path_factory.mktemp("made"), HISTORY)
    bring_up(job_of(lake))
    assert all(
        delta.count_rows(lake, one)
        for one in (specs.FAILOVERS, specs.ELECTIONS, specs.BROKER_SET_HISTORY, specs.AVAILABILITY)
    )
    return lake


@pytest.fixture
def lake(made: Lake, tmp_path: Path) -> Iterator[Lake]:
    """A copy."""
    shutil.copytree(made.root, tmp_path / "lake")
    yield Lake(str(tmp_path / "lake"), CLUSTER_ID)


def told(lake: Lake) -> list[str]:
    return [one.text() for one in compare_gold(lake).findings]


@pytest.mark.parametrize("at_once", some([7, 1, 1_000]))
def test_nothing_is_found_where_nothing_was_altered(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(gold, "PIECE_COMMANDS", at_once)
    found = compare_gold(lake)
    rows = sum(delta.count_rows(lake, one) for one in GOLD_TABLES)
    assert (found.findings, found.problems, found.rows) == ([], [], rows)
    assert found.notices == [f"gold: {rows} rows are what history gives, up to command {LAST}"]


def test_a_copy_on_a_share_is_compared_although_locks_do_not_hold_there(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("22 1 0:40 / / rw - nfs4 host:/share rw\n")
    monkeypatch.setattr(file_locks, "MOUNTS", mounts)
    assert compare_gold(lake).notices


def updated(table: Any, where: str, **columns: str) -> Callable[[Lake], None]:
    """As by a Delta UPDATE."""
    return lambda lake: _done(delta.open_table(lake, table).update(columns, predicate=where))


def deleted(table: Any, where: str) -> Callable[[Lake], None]:
    """As by a Delta DELETE."""
    return lambda lake: _done(delta.open_table(lake, table).delete(where))


def _done(found: dict[str, Any]) -> None:
    count = found.get("num_updated_rows", found.get("num_deleted_rows"))
    assert count


def twice(lake: Lake) -> None:
    delta.append_rows(lake, specs.ELECTIONS, delta.read(lake, specs.ELECTIONS).to_pylist()[:1])


def invented(lake: Lake) -> None:
    row = delta.read(lake, specs.REFUSED_COMMANDS).to_pylist()[0]
    delta.append_rows(lake, specs.REFUSED_COMMANDS, [row | {"offset": LAST + 40}])


ALTERATIONS: dict[str, tuple[Callable[[Lake], None], str]] = {
    "time without messages": (
        updated(specs.FAILOVERS, "true", unavailable_ms="1"),
        "unavailable_ms is 1, history gives",
    ),
    "digest agrees": (
        updated(specs.BROKER_SET_HISTORY, "from_offset > 10", digest_agrees="false"),
        "digest_agrees is False, history gives True",
    ),
    "an open row": (
        updated(specs.BROKER_SET_HISTORY, "to_offset is null", from_ms="1"),
        "from_ms is 1, history gives",
    ),
    "the winner": (
        updated(specs.ELECTIONS, "accepted", winner="9"),
        "gold/elections, regent.commands-0 offset",
    ),
    "availability": (
        updated(specs.AVAILABILITY, "true", failovers="0"),
        f"gold/availability, regent.commands-0 offsets 0 to {LAST}: ",
    ),
    "the master now": (
        updated(specs.BROKER_SETS, "true", master_epoch="99"),
        "gold/broker_sets, regent.commands-0 offset",
    ),
    "a term": (updated(specs.CONTROLLER_TERMS, "true", from_ms="5"), "gold/controller_terms"),
    "failovers gone": (
        deleted(specs.FAILOVERS, "true"),
        "gold/failovers, regent.commands-0 offset",
    ),
    "an election gone": (
        deleted(specs.ELECTIONS, "offset > 20"),
        "the row that history gives is gone",
    ),
    "an election twice": (twice, "gold/elections, regent.commands-0 offset"),
    "a refusal to come": (invented, f"offset {LAST + 40}: history gives no such row"),
}


@pytest.mark.parametrize("what", some(ALTERATIONS))
def test_each_alteration_is_named_and_gold_made_anew_heals_it(lake: Lake, what: str) -> None:
    alter, expected = ALTERATIONS[what]
    alter(lake)
    found = told(lake)
    assert any(expected in one for one in found), found
    assert all("'regent lake gold --from-start'" in one for one in found)
    job = job_of(lake)
    job.forget()
    bring_up(job)
    assert told(lake) == []


def kept(lake: Lake, **other: Any) -> None:
    [row] = delta.read(lake, GOLD_PROGRESS).to_pylist()
    delta.replace_rows(lake, GOLD_PROGRESS, [row | other])


def test_what_the_next_run_goes_on_from_is_compared_too(lake: Lake) -> None:
    found = progress.read_progress(lake)
    assert found is not None
    kept(lake, carry=found.carry.replace(b'"master_epoch":', b'"master_epoch": '))
    [one] = told(lake)
    assert f"gold/progress, regent.commands-0 offset {LAST}: what the next run goes on" in one


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"builders": 1}, "made by another release"),
        ({"event_rows": 1}, "other broker events are there"),
        ({"taken": {"rows": 1, "commands": 1, "places": 1}}, "other outcomes count now"),
        ({"tables": [("gold/failovers", "x")]}, "a table was made anew"),
    ],
)
def test_gold_that_is_behind_is_not_compared_and_says_what_to_do(
    lake: Lake, other: dict[str, Any], why: str
) -> None:
    kept(lake, **other)
    [one] = told(lake)
    assert why in one and "run 'regent lake gold' and verify again" in one


def test_a_mark_behind_history_is_a_finding(lake: Lake) -> None:
    for name in ("bronze/records", "silver/decisions"):
        commit = sorted((Path(lake.root) / name / "_delta_log").glob("*.json"))[-1]
        commit.unlink()
    found = told(lake)
    assert found and all("gold/progress" in one for one in found)


def test_rows_of_a_damaged_file_are_named_beside_it(lake: Lake) -> None:
    for path in Path(lake.uri(specs.FAILOVERS)).glob("**/*.parquet"):
        path.unlink()
    found = compare_gold(lake)
    assert all("is gone" in one for one in found.problems) and found.problems
    assert {one.table for one in found.findings} == {"gold/failovers"}


def test_a_table_that_is_gone_is_named(lake: Lake) -> None:
    shutil.rmtree(lake.uri(specs.FAILOVERS))
    [one] = told(lake)
    assert "gold/failovers" in one and "the table is gone" in one


def test_without_gold_there_is_nothing_to_compare(lake: Lake) -> None:
    shutil.rmtree(Path(lake.root) / "gold")
    assert compare_gold(lake) == Compared(
        notices=["no gold was made of this cluster: answers are folded from silver"]
    )


@pytest.mark.parametrize("table", [specs.FAILOVERS, specs.ELECTIONS], ids=lambda one: one.name)
def test_a_row_of_no_command_is_named(lake: Lake, table: Any) -> None:
    row = delta.read(lake, table).to_pylist()[0]
    delta.append_rows(lake, table, [row | {"offset": -3}])
    said = told(lake)
    assert said and all(one.startswith(f"{table.name}, regent.commands-0") for one in said)
    assert any("offset -3" in one and "history gives" in one for one in said)
