from pathlib import Path

import pytest

from lakehouse.errors import NotLanded
from lakehouse.gold.reader import gold_standing, read_gold
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import failed_over

HISTORY, OFFSET = failed_over()
COMMANDS, OUTCOMES = command_records(HISTORY.records), outcome_records(HISTORY.records)


def test_the_answer_says_what_it_leaves_out(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*COMMANDS[:OFFSET], *OUTCOMES[:OFFSET]])
    with pytest.raises(NotLanded, match="regent lake gold"):
        gold_standing(lake)
    job = job_of(lake)
    bring_up(job)
    found = read_gold(lake, "gold/failovers", columns=["new_epoch"])
    assert (found.rows.num_rows, found.standing.is_fresh) == (0, True)
    assert "nothing more has landed" in found.standing.text()
    land(lake, [*COMMANDS, *OUTCOMES[:OFFSET]])
    standing = read_gold(lake, "gold/failovers").standing
    behind = len(COMMANDS) - OFFSET
    assert (standing.is_fresh, standing.commands_behind, standing.unpublished) == (
        False,
        behind,
        behind,
    )
    assert f"{behind} commands ({behind} of them without an outcome yet)" in standing.text()
    land(lake, [*COMMANDS, *OUTCOMES])
    assert (gold_standing(lake).commands_behind, gold_standing(lake).unpublished) == (behind, 0)
    bring_up(job)
    found = read_gold(lake, "gold/failovers", filters=[("new_master", "=", 3)])
    assert found.rows["new_epoch"].to_pylist() == [2]
    assert found.standing.as_dict()["offset"] == len(COMMANDS) - 1
    assert found.standing.is_fresh


def test_gold_that_is_empty_is_told_as_such(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [])
    job = job_of(lake)
    assert bring_up(job) == 0
    with pytest.raises(NotLanded, match="no gold tables"):
        read_gold(lake, "gold/elections")
