import os
from argparse import ArgumentParser
from pathlib import Path

import pytest

from infra.cluster.data_folder import DataFolder
from infra.demo import verb
from infra.problems import Problem


def test_the_folder_of_an_earlier_demo_makes_room(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "d")
    folder.create("demo", {}, "1")
    verb.make_room(folder)
    assert not folder.root.exists()
    verb.make_room(folder)


def test_somebodys_cluster_is_never_removed(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "d")
    folder.create("cluster", {}, "1")
    with pytest.raises(Problem, match="not a demo's"):
        verb.make_room(folder)
    assert folder.identity() is not None


def test_a_running_demo_is_not_disturbed(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "d")
    folder.create("demo", {}, "1")
    handle = folder.lock()
    with pytest.raises(Problem, match="in use by a running cluster"):
        verb.make_room(folder)
    os.close(handle)


def test_one_demo_shows_one_way_of_replicating(tmp_path: Path) -> None:
    words = ["--mode", "acting", "--replication", "majority", "--dir", str(tmp_path / "d")]
    parser = ArgumentParser()
    verb.add_arguments(parser, "demo")
    with pytest.raises(Problem, match="one way"):
        verb.run(parser.parse_args(words))
