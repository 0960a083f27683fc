from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse.errors import NotLanded
from lakehouse.sql.named_tables import KNOWN, listed, mentioned, open_named, spec_named
from lakehouse.tables.lake import Lake, lake_at
from tests.support.control_history import CLUSTER_ID
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import OTHER_CLUSTER_ID, failed_over, other_cluster

PAST, _ = failed_over()


@pytest.fixture(scope="module")
def two_clusters(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two clusters in one lake; nothing writes to it."""
    root = tmp_path_factory.mktemp("lake")
    land(lake_in(root), [*command_records(PAST.records), *outcome_records(PAST.records)])
    other = other_cluster().records
    land(lake_in(root, OTHER_CLUSTER_ID), [*command_records(other), *outcome_records(other)])
    return lake_in(root)


def put(root: Path, name: str, cluster_ids: list[str]) -> None:
    rows = pa.table({"cluster_id": cluster_ids, "n": range(len(cluster_ids))})
    deltalake.write_deltalake(
        str(root / name), rows, partition_by=["cluster_id"], description="of another job"
    )


def test_a_query_mentions_tables_however_they_are_quoted() -> None:
    query = (
        'SELECT * FROM Gold.Failovers f JOIN "silver"."decisions" USING (x), bronze . records, '
        "`gold`.`elections`, goldx.y, f.gold"
    )
    assert mentioned(query) == [
        "gold.failovers",
        "silver.decisions",
        "bronze.records",
        "gold.elections",
    ]
    assert mentioned("select 1") == []


def test_every_table_of_this_release_has_its_name(two_clusters: Lake) -> None:
    assert {"bronze.records", "silver.decisions", "silver.elect_master", "gold.failovers"} <= set(
        KNOWN
    )
    assert list(listed(two_clusters))[0].startswith("gold.")
    assert set(listed(two_clusters)) == set(KNOWN)


def test_whoever_asks_sees_one_cluster_in_every_layer(two_clusters: Lake) -> None:
    for lake in (two_clusters, two_clusters.of(OTHER_CLUSTER_ID)):
        opened = open_named(lake, ["bronze.records", "silver.decisions", "gold.elections"])
        for rows in opened.tables.values():
            assert set(rows.to_table()["cluster_id"].to_pylist()) == {lake.cluster_id}
    assert open_named(two_clusters, ["silver.decisions"]).gold is None


def test_gold_is_the_same_folded_and_from_tables_that_hold_all(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*command_records(PAST.records), *outcome_records(PAST.records)])
    folded = open_named(lake, ["gold.broker_set_history"])
    bring_up(job_of(lake))
    kept = open_named(lake, ["gold.broker_set_history"])
    assert folded.gold is not None and kept.gold is not None
    assert (folded.gold.folded, kept.gold.folded, dict(kept.gold.tables)) == (
        len(PAST.records),
        0,
        {},
    )
    rows = [
        one.tables["gold.broker_set_history"].to_table().sort_by("from_offset").to_pylist()
        for one in (folded, kept)
    ]
    assert rows[0] == rows[1] != []


def test_a_table_of_another_job_is_found_by_its_place(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [])
    put(tmp_path, "gold/of_another_job", [CLUSTER_ID, OTHER_CLUSTER_ID])
    assert spec_named(lake, "gold.of_another_job").meaning == "of another job"
    assert listed(lake)["gold.of_another_job"].schema.names == ["cluster_id", "n"]
    assert open_named(lake, ["gold.of_another_job"]).tables["gold.of_another_job"].to_table()[
        "n"
    ].to_pylist() == [0]


def test_a_name_that_is_none_is_told_with_the_nearest(two_clusters: Lake) -> None:
    with pytest.raises(
        NotLanded, match=("there is no table gold.failover; did you mean gold.failovers")
    ):
        open_named(two_clusters, ["gold.failover"])
    with pytest.raises(NotLanded, match="lists the tables"):
        spec_named(two_clusters, "gold.x")
    with pytest.raises(NotLanded, match="no table bronze/records"):
        open_named(lake_at("nowhere", "c"), ["bronze.records"])
