"""The same question asked of Spark, of the Spark-free reader and of a fold of the log itself: one answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakehouse import forecast_answer, sql, sql_spark, state_at
from lakehouse.lake import Lake
from tests.support.generated_history import generate
from tests.support.generated_lake import land_generated
from tests.support.lake_questions import QUESTIONS, folded, rows_of, truths
from tests.support.made_gold import bring_up, job_of
from tests.support.spark_session import shared_session, stop_shared_session

pytestmark = pytest.mark.spark
COMMANDS, SETS = 2_000, 8
HISTORY = generate(COMMANDS, SETS, seed=11)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """All of the history, and gold up to nothing yet."""
    return land_generated(tmp_path_factory.mktemp("answers"), HISTORY)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    yield shared_session()
    stop_shared_session()


def test_one_answer_whoever_is_asked_before_gold_is_made_and_after(lake: Lake, spark: Any) -> None:
    known = truths(HISTORY)
    assert len(HISTORY.blows) > 100
    before = {one.name: rows_of(sql.ask(lake, one.query)) for one in QUESTIONS}
    assert bring_up(job_of(lake)) == COMMANDS
    for one in QUESTIONS:
        without_spark, by_spark = rows_of(sql.ask(lake, one.query)), rows_of(sql_spark.ask(spark, lake, one.query))
        assert before[one.name] == without_spark == by_spark, one.name
        assert known.get(one.name, by_spark) == by_spark, one.name
        assert by_spark, one.name


def test_the_state_at_any_offset_is_that_of_the_fold(lake: Lake) -> None:
    folder = folded(HISTORY)
    found, at_ms = state_at.folder_at(lake)
    assert (found.state, found.digest, at_ms) == (folder.state, folder.digest, HISTORY.commands_ms[-1])
    for name in HISTORY.sets:
        now = folder.state.sets[name]
        assert forecast_answer.forecast_of(lake, name)["master"] == now.master_broker_id
