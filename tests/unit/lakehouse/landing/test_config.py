from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.landing.config import LandConfig, SparkConfig
from lakehouse.landing.log_losses import Gap
from lakehouse.tables.specs import BRONZE

FILE = """
tables = "t"
checkpoint_dir = "c"
jars_dir = "j"
[kafka]
"bootstrap.servers" = "h:1"
"enable.ssl.certificate.verification" = true
"""


def test_a_file_is_read_and_flags_win_over_it(tmp_path: Path) -> None:
    path = tmp_path / "land.toml"
    path.write_text(FILE)
    config = LandConfig.load(path, {"tables": "other", "java_home": None})
    assert (config.lake().root, config.java_home) == ("other", None)
    # Kafka clients know true, not True.
    assert config.kafka["enable.ssl.certificate.verification"] == "true"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tables = ", "is not TOML"),
        (FILE.replace('"bootstrap.servers" = "h:1"', ""), "bootstrap.servers"),
        (FILE.replace('jars_dir = "j"', ""), "jars_dir, or spark_packages"),
        (FILE.replace('"c"', '"s3a://bucket/checkpoints"'), "work_dir is needed"),
        ("tabels_dir = 't'" + FILE, "tabels_dir"),
        ("driver_memory = 'lots'" + FILE, "driver_memory"),
        ("without_controllers = true" + FILE, "needs a cluster_id"),
        ("without_controllers = true\ncluster_id = 'a/b'" + FILE, "needs a cluster_id"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "land.toml"
    path.write_text(text)
    with pytest.raises(LakehouseError, match=words) as caught:
        LandConfig.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LakehouseError, match="cannot be read"):
        LandConfig.load(tmp_path / "none.toml")


def test_the_landing_session_is_made_for_small_commits(tmp_path: Path) -> None:
    path = tmp_path / "land.toml"
    path.write_text(FILE)
    settings = LandConfig.load(path).spark_settings(tmp_path)
    assert settings.small_commits
    assert settings.jars_dir == Path("j")


CLUSTER_FILE = """
tables = "s3a://bucket/lake"
checkpoint_dir = "s3a://bucket/checkpoints"
work_dir = "w"
spark_master = "spark://master:7077"
spark_packages = ["org.apache.hadoop:hadoop-aws:3.4.1"]
[kafka]
"bootstrap.servers" = "h:1"
[storage_options]
aws_region = "eu-north-1"
[spark_conf]
"spark.executor.memory" = "2g"
"spark.executor.cores" = 2
"""


def test_a_cluster_and_an_object_store_are_configuration(tmp_path: Path) -> None:
    path = tmp_path / "land.toml"
    path.write_text(CLUSTER_FILE)
    config = LandConfig.load(path, environment={})
    assert config.lake("c").uri(BRONZE) == "s3a://bucket/lake/bronze/records"
    assert config.lake("c").storage_options == {"aws_region": "eu-north-1"}
    assert (config.local_dir, config.checkpoint_of("first")) == (
        Path("w"),
        "s3a://bucket/checkpoints/first",
    )
    settings = config.spark_settings(tmp_path)
    assert (settings.master, settings.packages) == (
        "spark://master:7077",
        ("org.apache.hadoop:hadoop-aws:3.4.1",),
    )
    assert settings.conf == {"spark.executor.memory": "2g", "spark.executor.cores": "2"}
    assert (
        settings.object_store
        and not LandConfig.load(path, {"tables": "t", "checkpoint_dir": "c"})
        .spark_settings(tmp_path)
        .object_store
    )


def test_the_environment_wins_over_the_file_and_flags_over_both(tmp_path: Path) -> None:
    path = tmp_path / "land.toml"
    path.write_text(CLUSTER_FILE)
    environment = {
        "REGENT_LAND_TABLES": "gs://other/lake",
        "REGENT_LAND_SPARK_CONF": ('{"spark.executor.cores": "4"}'),
        "REGENT_LAND_SPARK_PACKAGES": '["a:b:1"]',
        "REGENT_LAND_OFFSETS_PER_BATCH": "7",
        "OTHER": "x",
    }
    config = LandConfig.load(path, {"offsets_per_batch": 9}, environment)
    assert (config.tables, config.spark_packages, config.offsets_per_batch) == (
        "gs://other/lake",
        ["a:b:1"],
        9,
    )
    assert config.spark_conf == {"spark.executor.memory": "2g", "spark.executor.cores": "4"}


def test_a_local_place_is_named_so_that_no_cluster_looks_elsewhere(tmp_path: Path) -> None:
    config = LandConfig(
        kafka={"bootstrap.servers": "h:1"},
        tables="t",
        checkpoint_dir=tmp_path.as_uri(),
        jars_dir=Path("j"),
    )
    assert config.checkpoint_of("first") == f"file:{tmp_path}/first"
    assert config.lake().spark_uri(BRONZE) == f"file:{Path.cwd()}/t/bronze/records"
    assert config.local_dir == tmp_path


def test_what_the_environment_says_of_spark_is_known_to_every_verb() -> None:
    environment = {
        "REGENT_LAND_SPARK_MASTER": "spark://m:7077",
        "REGENT_LAND_SPARK_CONF": ('{"spark.executor.cores": 2, "spark.speculation": true}'),
        "REGENT_LAND_JARS_DIR": "j",
        "REGENT_LAND_TABLES": "s3a://of/the/job/alone",
    }
    told = SparkConfig.of_environment(environment)
    assert (told.spark_master, told.jars_dir) == ("spark://m:7077", Path("j"))
    assert told.spark_conf == {"spark.executor.cores": "2", "spark.speculation": "true"}
    assert SparkConfig.of_environment({}) == SparkConfig()


def test_a_wrong_variable_of_spark_is_named() -> None:
    with pytest.raises(LakehouseError, match=r"\(environment\): spark_cores"):
        SparkConfig.of_environment({"REGENT_LAND_SPARK_CORES": "many"})


def test_a_variable_is_not_blamed_on_the_file(tmp_path: Path) -> None:
    path = tmp_path / "land.toml"
    path.write_text(CLUSTER_FILE)
    environment = {"REGENT_LAND_SPARK_CORES": "many"}
    with pytest.raises(LakehouseError, match="REGENT_LAND_SPARK_CORES: Input should be"):
        LandConfig.load(path, {}, environment)
    with pytest.raises(LakehouseError, match=" spark_cores: Input should be"):
        LandConfig.load(path, {"spark_cores": "few"}, environment)


def test_a_gap_that_is_accepted_is_named_by_topic_partition_and_offsets(tmp_path: Path) -> None:
    plain = {"kafka": {"bootstrap.servers": "k:1"}, "tables": "t", "jars_dir": "j"}
    given = {**plain, "checkpoint_dir": str(tmp_path), "accept_loss": ["regent.commands/0:5-9"]}
    config = LandConfig.load(None, given)
    assert config.accepted_gaps == [Gap("regent.commands", 0, 5, 9)]
    assert config.java_log == tmp_path / "java.log"
    with pytest.raises(LakehouseError, match="accept_loss: .* names no gap: write TOPIC/PARTITION"):
        LandConfig.load(None, {**given, "accept_loss": ["regent.commands"]})
    environment = {"REGENT_LAND_ACCEPT_LOSS": '["regent.outcomes/0:1-1"]'}
    del given["accept_loss"]
    assert LandConfig.load(None, given, environment).accept_loss == ["regent.outcomes/0:1-1"]
