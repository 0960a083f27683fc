from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakehouse.gold.merge import Merge, merge_rows
from lakehouse.gold.merge_spark import merge_in
from lakehouse.gold.specs import CONTROLLER_TERMS
from lakehouse.tables.delta import dataset_of, ensure_tables, open_table, read
from lakehouse.tables.lake import Lake
from tests.support.landed_log import lake_in


def term(number: int, cluster_id: str, to_offset: int | None = None) -> dict[str, Any]:
    return {
        "cluster_id": cluster_id,
        "term": number,
        "from_offset": number,
        "from_ms": number,
        "to_offset": to_offset,
        "to_ms": to_offset,
        "controller_id": "n0",
        "controller_address": "n0:9878",
        "release": "1",
    }


@pytest.mark.parametrize("by", ["rust", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_has_the_key_is_replaced_and_the_rest_added(
    tmp_path: Path, by: str, request: pytest.FixtureRequest
) -> None:
    merge: Merge = merge_in(request.getfixturevalue("spark")) if by == "spark" else merge_rows
    lakes = [lake_in(tmp_path), lake_in(tmp_path, "o'brien")]
    ensure_tables(lakes[0], [CONTROLLER_TERMS])
    for lake in lakes:
        merge(lake, CONTROLLER_TERMS, [term(1, str(lake.cluster_id))])
    merge(lakes[1], CONTROLLER_TERMS, [term(1, "o'brien", 2), term(2, "o'brien")])
    merge(lakes[1], CONTROLLER_TERMS, [])
    assert read(lakes[0], CONTROLLER_TERMS).to_pylist() == [term(1, "cluster-1")]
    assert read(lakes[1], CONTROLLER_TERMS).to_pylist() == [
        term(1, "o'brien", 2),
        term(2, "o'brien"),
    ]


def test_rows_that_were_merged_are_found_by_their_texts(tmp_path: Path) -> None:
    """The library writes them of a type that Arrow compares with no text."""
    lake = lake_in(tmp_path)
    ensure_tables(lake, [CONTROLLER_TERMS])
    rows = [term(n, "cluster-1") | {"controller_id": f"n{n % 3}"} for n in range(9)]
    merge_rows(lake, CONTROLLER_TERMS, rows)
    merge_rows(lake, CONTROLLER_TERMS, [rows[4] | {"release": "2"}])

    for filters, expected in (
        ([("controller_id", "=", "n1")], 3),
        ([("controller_id", "in", ["n0", "n2", "n7"])], 6),
        ([("release", "=", "2"), ("controller_id", "=", "n1")], 1),
        ([("controller_id", ">", "n1")], 3),
        ([("controller_id", "=", "n1x")], 0),
    ):
        assert read(lake, CONTROLLER_TERMS, filters=filters).num_rows == expected
    [[terms]] = _database_answers(
        lake, "SELECT term FROM t WHERE controller_id IN ('n1', 'n9') OR release = '2' ORDER BY 1"
    )
    assert terms == [1, 4, 7]


def _database_answers(lake: Lake, query: str) -> list[list[list[Any]]]:
    found = dataset_of(open_table(lake, CONTROLLER_TERMS), CONTROLLER_TERMS)
    with duckdb.connect() as database:
        database.register("t", found)
        return [[[row[0] for row in database.execute(query).fetchall()]]]
