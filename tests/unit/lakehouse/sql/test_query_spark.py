from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import NotLanded
from lakehouse.sql import query as sql
from lakehouse.sql import query_spark
from lakehouse.sql.query import WrongQuery
from lakehouse.sql.text import json_rows
from lakehouse.tables.lake import Lake
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import OTHER_CLUSTER_ID, failed_over, other_cluster

pytestmark = pytest.mark.spark

PAST, OFFSET = failed_over()
QUERIES = (
    "SELECT * FROM gold.failovers ORDER BY new_epoch",
    (
        "SELECT f.broker_name, d.kind, b.topic FROM gold.failovers f JOIN silver.decisions d ON "
        "d.command_offset = f.offset JOIN bronze.records b ON b.offset = f.offset ORDER BY b.topic"
    ),
    "SELECT kind, count(*) AS n FROM silver.decisions GROUP BY kind ORDER BY kind",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two clusters, without gold tables at first."""
    root: Path = tmp_path_factory.mktemp("lake")
    other = other_cluster().records
    for one, records in ((lake_in(root), PAST.records), (lake_in(root, OTHER_CLUSTER_ID), other)):
        land(one, [*command_records(records), *outcome_records(records)])
    return lake_in(root)


def test_spark_gives_the_same_answers_with_gold_tables_and_without(spark: Any, lake: Lake) -> None:
    wanted = [json_rows(sql.ask(lake, query).rows) for query in QUERIES]
    assert all(wanted)
    assert [json_rows(query_spark.ask(spark, lake, query).rows) for query in QUERIES] == wanted
    bring_up(job_of(lake))
    assert [json_rows(query_spark.ask(spark, lake, query).rows) for query in QUERIES] == wanted
    other = lake.of(OTHER_CLUSTER_ID)
    assert json_rows(query_spark.ask(spark, other, QUERIES[2]).rows) == json_rows(
        sql.ask(other, QUERIES[2]).rows
    )


def test_rows_stop_where_asked(spark: Any, lake: Lake) -> None:
    answer = query_spark.ask(
        spark, lake, "SELECT command_offset FROM silver.decisions ORDER BY 1 DESC", 2
    )
    assert (answer.rows.column(0).to_pylist(), answer.more) == (
        [len(PAST.records) - 1, len(PAST.records) - 2],
        True,
    )


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM silver.decisions",
        "DROP VIEW gold.failovers",
        "INSERT INTO gold.failovers SELECT 1",
        "SELEC 1",
        "SELECT nope FROM gold.failovers",
        "SELECT 1; SELECT 2",
        "SET x=1",
        "CREATE TABLE x AS SELECT 1",
        "",
    ],
)
def test_what_is_no_question_is_refused_in_one_line(spark: Any, lake: Lake, query: str) -> None:
    with pytest.raises(WrongQuery) as caught:
        query_spark.ask(spark, lake, query)
    assert "\n" not in str(caught.value)


def test_a_table_that_is_none_is_told(spark: Any, lake: Lake) -> None:
    with pytest.raises(NotLanded, match="did you mean gold.failovers"):
        query_spark.ask(spark, lake, "SELECT * FROM gold.failover")
