import argparse
import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from infra.cli import main, up
from infra.cluster.data_folder import DataFolder
from infra.cluster.options import ClusterOptions
from infra.problems import EXIT_FAILED, EXIT_USAGE, Problem
from infra.processes import children


def parsed(*words: str) -> argparse.Namespace:
    return main.parser_of("up").parse_args(list(words))


def test_flags_make_the_options_and_the_rest_is_default() -> None:
    options = up.options_of(parsed("--replicas", "2", "--kafka-nodes", "3", "--no-land"), None)
    assert options == ClusterOptions(replicas=2, kafka_nodes=3, land=False)


def test_a_folder_keeps_what_it_was_made_with() -> None:
    stored = asdict(ClusterOptions(replicas=2, base_port=20_000))
    assert up.options_of(parsed(), stored) == ClusterOptions(replicas=2, base_port=20_000)
    with pytest.raises(Problem, match="made with replicas 2, not 3"):
        up.options_of(parsed("--replicas", "3"), stored)


def test_a_kafka_without_an_address_is_wrong_usage() -> None:
    with pytest.raises(Problem, match="bootstrap.servers"):
        up.options_of(parsed("--kafka", "security.protocol=SSL"), None)


def test_the_child_of_detach_gets_the_same_flags() -> None:
    words = [
        "--replicas",
        "2",
        "--base-port",
        "20000",
        "--kafka",
        "bootstrap.servers=k:1",
        "--no-land",
        "--watchdog-ms",
        "0",
    ]
    again = up._words(parsed(*words, "--detach"))
    assert up.options_of(parsed(*again), None) == up.options_of(parsed(*words), None)
    assert "--detach" not in again


def test_every_option_of_a_cluster_reaches_the_child_of_detach() -> None:
    arguments = parsed()
    for name in ClusterOptions.__dataclass_fields__:
        if name not in ("kafka", "land"):
            setattr(arguments, name, "17")
    words = up._words(arguments)
    for name in set(ClusterOptions.__dataclass_fields__) - {"kafka", "land"}:
        assert words[words.index(f"--{name.replace('_', '-')}") + 1] == "17"


@pytest.mark.parametrize("wrong", [999, 600_001, -1])
def test_a_watchdog_that_cannot_be_is_wrong_usage(wrong: int) -> None:
    with pytest.raises(Problem, match="--watchdog-ms"):
        ClusterOptions(watchdog_ms=wrong).check()


@pytest.mark.parametrize("name", ["host", "advertise_host"])
@pytest.mark.parametrize("wrong", ["::1", "[::1]", "fe80::1%eth0", "127.0.0.1:80", ""])
def test_a_host_that_no_client_could_use_is_wrong_usage(name: str, wrong: str) -> None:
    with pytest.raises(Problem, match=f"--{name.replace('_', '-')} .* is no IPv4 address"):
        ClusterOptions(**{name: wrong}).check()


def test_a_folder_may_get_another_watchdog() -> None:
    stored = asdict(ClusterOptions(watchdog_ms=2_000))
    assert up.options_of(parsed("--watchdog-ms", "0"), stored).watchdog_ms == 0


def test_leftovers_of_a_crash_are_named_with_the_way_out(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "d")
    folder.create("cluster", {}, "1")
    one = {"name": "broker-a-1", "pid": os.getpid(), "stamp": children.start_stamp(os.getpid())}
    folder.write_cluster({"processes": [one]})
    with pytest.raises(
        Problem, match=(f"leftover of a crash: broker-a-1 \\(pid {os.getpid()}\\).*regent down")
    ):
        up.refuse_leftovers(folder)


def test_a_folder_of_another_version_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "regent.json").write_text(json.dumps({"format": 0}))
    for words in ([], ["--detach"]):
        assert main.main(["up", "--dir", str(tmp_path), *words]) == EXIT_FAILED
        assert "another version" in capsys.readouterr().err


def test_a_folder_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = DataFolder(tmp_path / "d")
    folder.create("cluster", asdict(ClusterOptions()), "1")
    handle = folder.lock()
    for words in ([], ["--detach"]):
        assert main.main(["up", "--dir", str(folder.root), *words]) == EXIT_FAILED
        assert "in use by a running cluster" in capsys.readouterr().err
    os.close(handle)


def test_no_usable_java_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("infra.jars.java.packaged_home", lambda prefix: tmp_path)
    assert main.main(["up", "--dir", str(tmp_path / "d")]) == EXIT_FAILED
    assert "no usable Java" in capsys.readouterr().err and not (tmp_path / "d").exists()


def test_a_wrong_number_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main.main(["up", "--dir", str(tmp_path / "d"), "--kafka-nodes", "2", "--detach"])
        == EXIT_USAGE
    )
    assert "Use 1 or 3" in capsys.readouterr().err


def test_a_cluster_of_one_replica_says_that_it_may_lose() -> None:
    assert [up.risks_of(ClusterOptions(replicas=count)) for count in (0, 2, 3)] == [[], [], []]
    [said] = up.risks_of(ClusterOptions(replicas=1))
    assert "MAY LOSE" in said and "--replicas 3" in said


def test_a_mode_without_controllers_is_chosen_once_for_a_folder() -> None:
    options = up.options_of(parsed("--mode", "acting"), None)
    assert options.acts and not options.has_log and options.controllers == 0
    stored = asdict(options)
    assert up.options_of(parsed(), stored) == options
    with pytest.raises(Problem, match="made with mode acting, not controllers"):
        up.options_of(parsed("--mode", "controllers"), stored)
    with pytest.raises(Problem, match="made without Kafka"):
        up.options_of(parsed("--land"), stored)


def test_a_folder_of_an_earlier_release_is_one_with_controllers() -> None:
    stored = {name: value for name, value in asdict(ClusterOptions()).items() if name != "mode"}
    assert up.options_of(parsed("--mode", "controllers"), stored) == ClusterOptions()


def test_who_waits_for_a_name_server_is_told_why() -> None:
    acting = up.options_of(parsed("--mode", "acting"), None)
    assert up.waits_of(acting, True) == [] == up.waits_of(ClusterOptions(), False)
    assert "35 s" in up.waits_of(acting, False)[0]
