import pytest

from infra import jar_store, lake_spark
from infra.problems import Problem


def test_missing_jars_are_told_before_java_starts(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("jars")
    monkeypatch.setattr(jar_store, "check", lambda name: empty)
    with pytest.raises(Problem, match="jars for Spark are missing"), lake_spark.spark_for("gold"):
        raise AssertionError("there is no session")
