import inspect
import sys
from pathlib import Path
from typing import Any

import polars
import pyarrow.compute as pc
import pytest

import lakehouse
from infra.cluster.data_folder import DataFolder
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.sql.frames import LakeTables
from lakehouse.sql.named_tables import KNOWN
from lakehouse.tables.lake import IN_DATA_FOLDER
from tests.support.control_history import CLUSTER_ID
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import OTHER_CLUSTER_ID, failed_over, other_cluster

PAST, OFFSET = failed_over()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clusters, without gold tables."""
    root: Path = tmp_path_factory.mktemp("lake")
    for cluster_id, records in (
        (CLUSTER_ID, PAST.records),
        (OTHER_CLUSTER_ID, other_cluster().records),
    ):
        land(lake_in(root, cluster_id), [*command_records(records), *outcome_records(records)])
    return root


@pytest.fixture
def opened(root: Path) -> LakeTables:
    return lakehouse.open(root, CLUSTER_ID)


def test_every_table_is_a_method_whose_help_names_each_column(opened: LakeTables) -> None:
    for name, spec in KNOWN.items():
        layer, _, noun = name.partition(".")
        method = getattr(getattr(opened, layer), noun)
        assert method().name == name
        assert all(
            f"{column.name} (" in (inspect.getdoc(method) or "") for column in spec.columns
        ), name
        assert getattr(opened, noun)().spec.name.endswith(noun)
    assert (opened.elections().name, opened.decisions().name, opened.records().name) == (
        "gold.elections",
        "silver.decisions",
        "bronze.records",
    )
    assert opened.failovers().columns["new_epoch"] == "Master epoch that began."
    assert set(KNOWN) <= set(opened.tables())


def test_rows_of_one_cluster_come_as_arrow_and_as_pandas(opened: LakeTables) -> None:
    assert opened.elections().to_arrow()["winner"].to_pylist() == [1, 3]
    frame = opened.silver.decisions().to_pandas()
    assert len(frame) == len(PAST.records) and set(frame["cluster_id"]) == {CLUSTER_ID}
    some = opened.records().to_arrow(["offset"], pc.field("offset") >= OFFSET)
    assert some.column_names == ["offset"] and set(some["offset"].to_pylist()) == {OFFSET}
    assert opened.sql("SELECT winner FROM gold.elections ORDER BY 1").to_pandas()[
        "winner"
    ].tolist() == [1, 3]
    assert opened.table("gold.elections").to_arrow().equals(opened.elections().to_arrow())


def test_rows_of_every_table_come_as_polars_too(opened: LakeTables) -> None:
    for name in opened.tables():
        rows = opened.table(name)
        frame = rows.to_polars()
        assert isinstance(frame, polars.DataFrame)
        assert (
            frame.columns == rows.to_arrow().column_names
            and frame.height == rows.to_arrow().num_rows
        ), name
    assert (
        opened.elections().to_polars()["winner"].to_list()
        == opened.elections().to_arrow()["winner"].to_pylist()
    )
    assert opened.sql("SELECT 1 AS a").to_polars()["a"].to_list() == [1]


def test_polars_is_named_where_it_is_not_installed(
    opened: LakeTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(LakehouseError, match="Polars is not installed"):
        opened.failovers().to_polars()


def test_a_data_folder_stands_for_its_tables(root: Path, tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / ".regent")
    assert folder.tables == folder.root / IN_DATA_FOLDER
    folder.tables.parent.mkdir(parents=True)
    folder.tables.symlink_to(root)
    opened = lakehouse.open(folder.root, CLUSTER_ID)
    assert opened.elections().to_arrow().num_rows == 2
    assert repr(opened) == f"<lake of cluster {CLUSTER_ID} in {folder.tables}>"


def test_moments_are_timestamps_too(opened: LakeTables) -> None:
    rows = opened.failovers().to_arrow(["at_time", "new_epoch", "at_ms"])
    assert rows.column_names == ["at_time", "new_epoch", "at_ms"]
    assert [one.timestamp() * 1000 for one in rows["at_time"].to_pylist()] == rows[
        "at_ms"
    ].to_pylist()
    assert opened.failovers().to_arrow()["command_offset"].to_pylist() == [OFFSET]
    assert "timestamp" in opened.failovers().columns["at_time"]


def test_several_clusters_want_a_name_and_missing_tables_are_told(
    root: Path, tmp_path: Path, opened: LakeTables
) -> None:
    with pytest.raises(LakehouseError, match=f"{CLUSTER_ID}, {OTHER_CLUSTER_ID}"):
        lakehouse.open(root)
    with pytest.raises(NotLanded):
        lakehouse.open(tmp_path)
    with pytest.raises(NotLanded, match="did you mean gold.failovers"):
        opened.table("gold.failover")
    assert opened.cluster_id == CLUSTER_ID


@pytest.mark.spark
def test_spark_reads_the_same_rows_with_gold_tables_and_without(
    spark: Any, root: Path, opened: LakeTables
) -> None:
    wanted = opened.elections().to_arrow()["offset"].to_pylist()
    for _ in range(2):
        for relation in (opened.elections(), opened.sql("SELECT * FROM gold.elections")):
            assert sorted(row["offset"] for row in relation.spark(spark).collect()) == wanted
        bring_up(job_of(lake_in(root)))
    assert opened.decisions().spark(spark).count() == len(PAST.records)
