import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakehouse import spark_session
from lakehouse.errors import LakehouseError
from lakehouse.spark_session import (
    CLASS_ARCHIVE,
    SparkSettings,
    build_session,
    java_errors,
    options_of,
    wait_for_executors,
)


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
        tmp_path,
        tmp_path / "s",
        master="spark://m:7077",
        packages=("a:b:1", "c:d:2"),
        conf={"spark.log.level": "INFO"},
    )
    found = options_of(settings, ["x.jar"], "test")
    assert (found["spark.master"], found["spark.jars.packages"], found["spark.jars"]) == (
        "spark://m:7077",
        "a:b:1,c:d:2",
        "x.jar",
    )
    assert found["spark.log.level"] == "INFO"
    # Executors on other machines must find the driver, and have no folder of ours.
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.local.dir"} & set(found)
    local = options_of(SparkSettings(tmp_path, tmp_path / "s", cores=3), [], "test")
    # Standalone Spark gives all its cores to who comes first: the next cluster's job would wait for
    # ever.
    assert found["spark.cores.max"] == "2" and "spark.cores.max" not in local
    assert (local["spark.master"], local["spark.driver.host"], local["spark.local.dir"]) == (
        "local[3]",
        "127.0.0.1",
        str(tmp_path / "s"),
    )


def test_jars_are_on_the_own_class_path_and_sent_to_executors_elsewhere(tmp_path: Path) -> None:
    here = options_of(SparkSettings(tmp_path, tmp_path / "s"), ["x.jar", "y.jar"], "test")
    assert here["spark.driver.extraClassPath"] == os.pathsep.join(("x.jar", "y.jar"))
    assert "spark.jars" not in here
    none = options_of(SparkSettings(None, tmp_path / "s"), [], "test")
    assert not {"spark.driver.extraClassPath", "spark.jars"} & set(none)


def test_java_starts_with_the_classes_that_are_laid_out(tmp_path: Path) -> None:
    given = options_of(SparkSettings(tmp_path, tmp_path / "s"), [], "test")
    assert f"-XX:SharedArchiveFile={CLASS_ARCHIVE}" in given["spark.driver.extraJavaOptions"]
    other = SparkSettings(tmp_path, tmp_path / "s", java_options=("-Xint",))
    words = options_of(other, [], "test")["spark.driver.extraJavaOptions"].split()
    assert "-Xint" in words and not any("SharedArchiveFile" in one for one in words)


def test_a_store_that_buffers_in_local_files_gets_the_local_file_system_it_knows(
    tmp_path: Path,
) -> None:
    assert ("spark.hadoop.fs.file.impl") in options_of(
        SparkSettings(tmp_path, tmp_path / "s"), [], "test"
    )
    assert not [
        name
        for name in options_of(
            SparkSettings(tmp_path, tmp_path / "s", object_store=True), [], "test"
        )
        if ".file.impl" in name
    ]


class _Cluster:
    """A session of a cluster in which a task runs when there is an executor."""

    def __init__(self, trouble: Exception | None = None) -> None:
        self.sparkContext = SimpleNamespace(master="spark://m:7077")
        self.executor, self._trouble = threading.Event(), trouble

    def range(self, _: int) -> Any:
        return SimpleNamespace(count=self._task)

    def _task(self) -> int:
        self.executor.wait()
        if self._trouble is not None:
            raise self._trouble
        return 1


def test_a_cluster_with_room_is_not_spoken_of() -> None:
    spark, told = _Cluster(), list[str]()
    spark.executor.set()
    assert wait_for_executors(spark, lambda: False, told.append) and not told


def test_a_cluster_without_room_is_told_until_there_is_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_session, "PATIENCE_S", 0.01)
    spark, told = _Cluster(), list[str]()

    def tell(text: str) -> None:
        told.append(text)
        spark.executor.set()

    assert wait_for_executors(spark, lambda: False, tell)
    assert len(told) == 1 and "executor of spark://m:7077" in told[0]


def test_who_is_told_to_stop_waits_for_no_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "PATIENCE_S", 0.01)
    spark = _Cluster()
    assert not wait_for_executors(spark, lambda: True, lambda text: None)
    spark.executor.set()


def test_what_ends_the_first_task_is_raised() -> None:
    spark = _Cluster(ConnectionError("Java has ended"))
    spark.executor.set()
    with pytest.raises(ConnectionError, match="Java has ended"):
        wait_for_executors(spark, lambda: False, lambda text: None)


def test_what_java_words_is_known_and_what_python_words_is_not() -> None:
    from py4j.protocol import Py4JJavaError, Py4JNetworkError
    from pyspark.errors import StreamingQueryException

    assert issubclass(StreamingQueryException, java_errors()) and issubclass(
        Py4JJavaError, java_errors()
    )
    # That one says that Java has ended, see `troubles.error_text`.
    assert not issubclass(Py4JNetworkError, java_errors())


class _Java:
    """A Java process as a session knows it."""

    proc = None

    def __init__(self) -> None:
        self.ended = False

    def shutdown(self) -> None:
        self.ended = True


class _Context:
    """One that stopped while it waited for its master, as Spark does after a minute."""

    stopped = False

    def __init__(self, **_: object) -> None:
        pass

    def stop(self) -> None:
        _Context.stopped = True


def test_a_master_that_is_away_is_named_and_java_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import pyspark
    import pyspark.sql

    def stopped(context: object) -> None:
        raise RuntimeError("Cannot call methods on a stopped SparkContext.")

    monkeypatch.setattr(pyspark, "SparkContext", _Context)
    monkeypatch.setattr(pyspark.sql, "SparkSession", stopped)
    java = _Java()
    with pytest.raises(LakehouseError, match="no Spark at spark://m:7077.*stopped SparkContext"):
        spark_session._session(java, None, SparkSettings(None, tmp_path, master="spark://m:7077"))
    assert java.ended and _Context.stopped
