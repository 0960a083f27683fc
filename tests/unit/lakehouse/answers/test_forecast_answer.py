"""A forecast from tables, against what is known of a generated history."""

from pathlib import Path
from statistics import median

import pytest

from lakehouse.answers.forecast_answer import LIMITS, forecast_of, forecast_text
from lakehouse.errors import NotLanded
from lakehouse.tables.lake import Lake
from processors.fold.folder import Folder
from tests.support.generated_history import generate
from tests.support.generated_lake import land_generated
from tests.support.landed_log import Files, lake_in, land
from tests.support.made_gold import bring_up, job_of

HISTORY = generate(1_200, 3, seed=6)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return land_generated(tmp_path_factory.mktemp("forecast"), HISTORY)


@pytest.mark.parametrize("name", HISTORY.sets)
def test_the_state_is_that_of_the_fold_and_a_living_member_follows(lake: Lake, name: str) -> None:
    folder = Folder()
    folder.apply_many(0, HISTORY.commands)
    now, model = folder.state.sets[name], forecast_of(lake, name)
    assert (model["master"], model["master_epoch"], tuple(model["sync_state_set"])) == (
        now.master_broker_id,
        now.master_epoch,
        now.sync_state_set,
    )
    assert (model["offset"], model["at_ms"]) == (len(HISTORY.commands) - 1, HISTORY.commands_ms[-1])
    for step in model["succession"]:
        assert step["winner"] is None or (
            step["winner"] in now.sync_state_set and step["winner"] not in step["died"]
        )


def test_recovery_is_that_of_the_blows(lake: Lake) -> None:
    name = HISTORY.sets[0]
    silent = [blow for blow in HISTORY.blows if blow.kind == "silent"]
    [found] = [one for one in forecast_of(lake, name)["recovery"] if one["kind"] == "silent"]
    own = [blow for blow in silent if blow.broker_name == name]
    assert found["n"] in (len(silent), len(own))
    times = [HISTORY.commands_ms[blow.election_offset] - blow.began_ms for blow in silent]
    assert abs(found["median_ms"] - median(times)) < 1_500


def test_gold_shortens_the_way_and_changes_nothing(lake: Lake, tmp_path: Path) -> None:
    before = forecast_of(lake, HISTORY.sets[1])
    with_gold = lake_in(tmp_path, HISTORY.cluster_id)
    Files.of(lake).put(with_gold)
    bring_up(job_of(with_gold))
    assert forecast_of(with_gold, HISTORY.sets[1]) == before


def test_in_words(lake: Lake) -> None:
    text = forecast_text(forecast_of(lake, HISTORY.sets[2]))
    assert (
        "would lead" in text
        and ("nobody could be elected (MASTER_NOT_AVAILABLE)") in text
        and "killed" in text
    )
    assert all(limit in text for limit in LIMITS)


def test_an_unknown_set_and_an_empty_lake(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NotLanded, match="broker-000"):
        forecast_of(lake, "broker-x")
    empty = lake_in(tmp_path)
    land(empty, [])
    with pytest.raises(NotLanded):
        forecast_of(empty, "broker-a")
