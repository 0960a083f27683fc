"""The flags that name a lake, and what is said when they name none."""

import argparse
from pathlib import Path

import pytest

from infra.cli.lake.arguments import add_lake_arguments, lake_of
from infra.problems import Problem
from lakehouse.tables.delta import ensure_tables
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, lake_in, land

RECORDS = command_records(with_master(1).records)


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_lake_arguments(parser)
    return parser.parse_args(words)


def test_tables_and_cluster_name_a_lake(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, RECORDS)
    assert lake_of(parsed("--tables", str(tmp_path))) == lake
    assert lake_of(parsed("--tables", tmp_path.as_uri(), "--cluster", "cluster-1")) == lake
    land(lake.of("b"), RECORDS)
    assert lake_of(parsed("--tables", str(tmp_path), "--cluster", "b")) == lake.of("b")
    with pytest.raises(Problem, match="name one with --cluster"):
        lake_of(parsed("--tables", str(tmp_path)))


def test_without_tables_the_way_out_is_told(tmp_path: Path) -> None:
    for words in (["--tables", str(tmp_path / "none")], ["--tables", str(tmp_path)]):
        with pytest.raises(Problem, match="Start the landing job") as told:
            lake_of(parsed(*words))
        assert "\n" not in told.value.line()
    with pytest.raises(Problem):
        lake_of(parsed("--dir", str(tmp_path / "none")))


def test_an_option_for_the_store_is_a_key_and_a_value(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    ensure_tables(lake)
    land(lake, RECORDS)
    found = lake_of(parsed("--tables", str(tmp_path), "--storage-option", "aws_region=eu-north-1"))
    assert found.storage_options == {"aws_region": "eu-north-1"}
    with pytest.raises(Problem, match="not KEY=VALUE"):
        lake_of(parsed("--tables", str(tmp_path), "--storage-option", "x"))
