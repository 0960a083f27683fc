from pathlib import Path

import pytest

from infra.cli.lake import spark
from infra.jars import store
from infra.problems import EXIT_USAGE, Problem


def test_missing_jars_are_told_before_java_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    empty = tmp_path_factory.mktemp("jars")
    monkeypatch.setattr(store, "check", lambda name: empty)
    with pytest.raises(Problem, match="jars for Spark are missing"), spark.spark_for("gold"):
        raise AssertionError("there is no session")


def test_tables_elsewhere_are_reached_by_the_variables_of_the_landing_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REGENT_LAND_JARS_DIR", "jars-of-mine")
    monkeypatch.setenv(
        "REGENT_LAND_SPARK_CONF", '{"spark.hadoop.fs.s3a.endpoint": "http://s3:9000"}'
    )
    settings = spark.settings_in(tmp_path, cores=7)
    assert (settings.jars_dir, settings.cores, settings.master) == (Path("jars-of-mine"), 7, None)
    assert settings.conf == {"spark.hadoop.fs.s3a.endpoint": "http://s3:9000"}
    monkeypatch.setenv("REGENT_LAND_SPARK_CORES", "3")
    assert spark.settings_in(tmp_path, cores=7).cores == 3
    assert not settings.object_store and spark.settings_in(tmp_path, object_store=True).object_store


def test_a_wrong_variable_is_wrong_usage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REGENT_LAND_DRIVER_MEMORY", "lots")
    with pytest.raises(Problem, match="driver_memory") as caught:
        spark.settings_in(tmp_path)
    assert caught.value.exit_code == EXIT_USAGE
