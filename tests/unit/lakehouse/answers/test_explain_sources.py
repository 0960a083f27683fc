from pathlib import Path

import pytest

from lakehouse.answers import explain_sources
from lakehouse.answers.explain import explain
from lakehouse.answers.explain_sources import sources_of
from lakehouse.errors import NotLanded
from lakehouse.tables.lake import Lake
from tests.support.control_history import NAME, History
from tests.support.examples import some, spread
from tests.support.generated_history import generate
from tests.support.generated_lake import land_generated
from tests.support.landed_log import command_records, lake_in, land, outcome_records

HISTORY = generate(400, 4, seed=3)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return land_generated(tmp_path_factory.mktemp("lake"), HISTORY)


@pytest.fixture(params=some(HISTORY.sets))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("soon", [0, explain_sources.SOON])
def test_one_election_is_explained_as_it_is_among_all_of_its_set(
    lake: Lake, name: str, soon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain_sources, "SOON", soon)
    won = [one for one in explain(lake, name)["elections"] if one["result"]]
    assert len(won) > 5
    for one in spread(won):
        assert explain(lake, name, one["result"]["master_epoch"])["elections"] == [one]


def test_only_what_lies_between_its_neighbours_is_read(lake: Lake, name: str) -> None:
    every = sources_of(lake, name, None)
    offsets = [row["command_offset"] for row in every.elections if row["master_epoch"] is not None]
    for at, epoch in spread([*enumerate(every.epochs)][1:-1]):
        found = sources_of(lake, name, epoch)
        assert {row["command_offset"] for row in found.decisions.rows} == {
            row["command_offset"]
            for row in every.decisions.rows
            if offsets[at - 1] <= row["command_offset"] <= offsets[at + 1]
        }
        assert list(found.commands) == [offsets[at]]
        assert all(
            len(found.events.rows[table]) <= len(rows) for table, rows in every.events.rows.items()
        )
        assert {row["master_epoch"] for row in found.events.rows["role_changed"]} <= {epoch}


def test_of_an_unknown_epoch_only_the_known_ones_are_told(lake: Lake, name: str) -> None:
    every = sources_of(lake, name, None).epochs
    found = sources_of(lake, name, max(every) + 1)
    assert (found.epochs, found.elections) == (every, [])


def test_an_unknown_set_is_told_the_known_ones(lake: Lake) -> None:
    with pytest.raises(NotLanded, match=HISTORY.sets[0]):
        sources_of(lake, "nobody", None)


def test_a_set_without_elections_has_nothing_to_explain(tmp_path: Path) -> None:
    past = History()
    past.apply_id(1)
    landed = lake_in(tmp_path)
    land(landed, command_records(past.records) + outcome_records(past.records))
    for epoch in (None, 1):
        found = sources_of(landed, NAME, epoch)
        assert (found.epochs, found.elections) == ([], [])
