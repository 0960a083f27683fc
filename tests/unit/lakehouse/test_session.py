from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.session import SparkSettings, build_session, options_of


def test_missing_jars_are_named_before_java_is_started(tmp_path: Path) -> None:
    (tmp_path / "delta-storage-4.4.0.jar").touch()
    settings = SparkSettings(jars_dir=tmp_path, scratch_dir=tmp_path / "s")
    with pytest.raises(LakehouseError, match=r"delta-spark_, spark-sql-kafka.*make setup"):
        build_session(settings, "test")


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    for name in ("delta-spark_1.jar", "delta-storage-1.jar", "spark-sql-kafka-1.jar"):
        (tmp_path / name).touch()
    settings = SparkSettings(jars_dir=tmp_path, scratch_dir=tmp_path / "s", java_home=tmp_path)
    with pytest.raises(LakehouseError, match="has no bin/java"):
        build_session(settings, "test")


@pytest.mark.spark
def test_a_session_binds_no_outer_address_and_leaves_no_checksum_files(
    spark: Any, tmp_path: Path
) -> None:
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    path = tmp_path / "table"
    spark.range(3).coalesce(1).write.format("delta").save(str(path))
    assert not list(path.rglob("*.crc"))


def test_a_cluster_gets_its_master_and_a_person_the_last_word(tmp_path: Path) -> None:
    settings = SparkSettings(
        tmp_path, tmp_path / "s", master="spark://m:7077", packages=("a:b:1", "c:d:2"), conf={"spark.log.level": "INFO"}
    )
    found = options_of(settings, ["x.jar"], "test")
    assert (found["spark.master"], found["spark.jars.packages"], found["spark.jars"]) == ("spark://m:7077", "a:b:1,c:d:2", "x.jar")
    assert found["spark.log.level"] == "INFO"
    # Executors on other machines must find the driver, and have no folder of ours.
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir"} & set(found)
    local = options_of(SparkSettings(tmp_path, tmp_path / "s", cores=3), [], "test")
    assert (local["spark.master"], local["spark.driver.host"], local["spark.local.dir"]) == ("local[3]", "127.0.0.1", str(tmp_path / "s"))
