from pathlib import Path
from typing import Any

import pytest

from lakehouse.gold.merge import Merge, merge_rows
from lakehouse.gold.merge_spark import merge_in
from lakehouse.gold.specs import CONTROLLER_TERMS
from lakehouse.tables.delta import ensure_tables, read
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
