"""Where a lake is and whose history is meant."""

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables.delta import ensure_tables
from lakehouse.tables.lake import Lake, clusters, lake_at, open_lake
from lakehouse.tables.specs import BRONZE
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, land

RECORDS = command_records(with_master(1).records)


def test_a_folder_is_the_same_place_however_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "a lake"
    for text in (folder, str(folder), f"{folder}/", folder.as_uri(), f"{folder.as_uri()}/"):
        assert lake_at(text) == Lake(str(folder))
    assert lake_at(folder).folder == folder
    assert lake_at(folder).uri(BRONZE) == f"{folder}/bronze/records"


def test_an_object_store_is_no_folder_and_keeps_its_options() -> None:
    lake = lake_at("s3://bucket/lake/", "c1", {"aws_region": "eu-north-1"})
    assert (lake.root, lake.folder, lake.uri(BRONZE)) == (
        "s3://bucket/lake",
        None,
        "s3://bucket/lake/bronze/records",
    )
    assert lake.of("c2") == Lake("s3://bucket/lake", "c2", {"aws_region": "eu-north-1"})
    assert lake.spark_uri(BRONZE) == ("s3a://bucket/lake/bronze/records"), (
        "Hadoop's name for the same"
    )
    assert hash(lake) == hash(lake_at("s3://bucket/lake", "c1"))


def test_the_only_cluster_need_not_be_named(lake: Lake) -> None:
    land(lake, RECORDS)
    assert open_lake(lake.root) == open_lake(lake.root, lake.cluster_id) == lake


def test_of_several_clusters_one_is_named(lake: Lake) -> None:
    land(lake, RECORDS)
    land(lake.of("b"), RECORDS)
    assert clusters(lake) == ["b", lake.cluster_id]
    with pytest.raises(
        LakehouseError,
        match=(
            r"holds 2 clusters \(b, cluster-1\): name one with "
            r"--cluster"
        ),
    ):
        open_lake(lake.root)
    assert open_lake(lake.root, "b").cluster_id == "b"
    with pytest.raises(NotLanded, match="cluster c has not landed .* known clusters: b, cluster-1"):
        open_lake(lake.root, "c")


def test_before_anything_has_landed_there_is_no_cluster(lake: Lake) -> None:
    with pytest.raises(NotLanded, match="no table bronze/records"):
        open_lake(lake.root)
    ensure_tables(lake)
    assert open_lake(lake.root).cluster_id is None
    assert open_lake(lake.root, "soon").cluster_id == "soon"


def test_tables_that_do_not_keep_clusters_apart_are_refused(lake: Lake) -> None:
    fields = [field for field in BRONZE.schema if field.name != "cluster_id"]
    deltalake.DeltaTable.create(lake.uri(BRONZE), pa.schema(fields), partition_by=["topic"])
    with pytest.raises(LakehouseError, match="bronze/records .* land into a new folder"):
        open_lake(lake.root)


def test_a_table_that_cannot_be_opened_is_named(lake: Lake) -> None:
    ensure_tables(lake)
    first = Path(lake.uri(BRONZE)) / "_delta_log" / f"{0:020}.json"
    first.write_text("no commit\n")
    with pytest.raises(LakehouseError, match="table bronze/records cannot be read: commit 0"):
        open_lake(lake.root)
