"""A rolling restart: slaves first, the master last, each only while the set is whole."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.cli import main
from infra.cli.restart import next_of, restart, restart_acting, restart_majority
from infra.cluster.data_folder import DataFolder
from infra.cluster.running import SetView
from infra.problems import EXIT_FAILED, EXIT_USAGE, Problem


class Cluster:
    """Three brokers; whoever is asked to end comes back with another pid, a master after having
    handed over.
    """

    def __init__(self, *, comes_back: bool = True) -> None:
        self.found = [
            {"name": f"b-{n}", "address": f"h:{n}", "pid": n, "state": "ready"} for n in (1, 2, 3)
        ]
        self.master, self.epoch = 1, 1
        self.ended: list[str] = []
        self.comes_back = comes_back
        self.behind = self.behind_after = ""
        self.folder = DataFolder(Path("nowhere"))

    def end(self, process: dict[str, Any]) -> None:
        one = next(each for each in self.found if each["pid"] == process["pid"])
        self.ended.append(str(one["name"]))
        if one["address"] == f"h:{self.master}":
            self.master, self.epoch = self.master % 3 + 1, self.epoch + 1
        self.behind = self.behind_after
        if self.comes_back:
            one |= {"pid": process["pid"] + 100, "leaving": False}

    def processes(self, kind: str) -> list[dict[str, Any]]:
        assert kind == "broker"
        return self.found

    def process_at(self, address: str) -> dict[str, Any]:
        return next(one for one in self.found if one["address"] == address)

    def wait(self, what: str, condition: Callable[[], bool], _limit_s: float) -> float:
        if not condition():
            raise Problem(f"{what} did not happen", "")
        return 0.0

    def broker_status(self, address: str) -> dict[str, Any]:
        behind = self.behind == address
        return {
            "role": "SLAVE",
            "ready": True,
            "master_epoch": self.epoch,
            "confirm_offset": 90,
            "log_end": 80 if behind else 100,
        }

    def view(self) -> SetView:
        return SetView(
            self.master, f"h:{self.master}", self.epoch, (1, 2, 3), 1, (1, 2, 3), 1, "c", "c:1"
        )

    def wait_for_view(
        self, what: str, condition: Callable[[SetView], bool], limit_s: float
    ) -> SetView:
        view = self.view()
        self.wait(what, lambda: condition(view), limit_s)
        return view


def test_who_is_leaving_already_comes_first_and_is_waited_for() -> None:
    """A restart that was interrupted left one on its way out: no other goes beside it."""
    assert next_of(["a", "b", "c"], "a", ["c"]) == "c"
    cluster = Cluster()
    cluster.found[2] |= {"leaving": True}
    restart(cluster, ["b-2"], cluster.end, print)  # type: ignore[arg-type]
    assert cluster.ended == ["b-3", "b-2"]


def test_one_that_is_behind_from_before_stops_it_before_anybody_is_ended() -> None:
    cluster = Cluster()
    cluster.behind = "h:3"
    with pytest.raises(Problem, match="copying to b-3"):
        restart(cluster, ["b-1", "b-2", "b-3"], cluster.end, print)  # type: ignore[arg-type]
    assert cluster.ended == []


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[DataFolder]:
    """Of a cluster that runs, without brokers."""
    found = DataFolder(tmp_path / "d")
    found.create("cluster", {}, "1")
    found.write_cluster({"processes": []})
    lock = found.lock()
    yield found
    os.close(lock)


def test_without_brokers_here_it_says_so_at_once(
    folder: DataFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["restart", "--rolling", "--dir", str(folder.root)]) == EXIT_USAGE
    assert "others run them" in capsys.readouterr().err


def test_two_restarts_at_once_are_not_begun(
    folder: DataFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write_cluster({"processes": [{"name": "b-1", "kind": "broker"}]})
    with folder.only_one("restart.lock", "it"):
        assert main.main(["restart", "--rolling", "--dir", str(folder.root)]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert f"under way in {folder.root} already (pid {os.getpid()})" in said and "Wait" in said


@pytest.mark.parametrize(
    ("left", "master", "next_one"),
    [(["a", "b"], "a", "b"), (["a"], "a", "a"), (["b", "c"], "a", "b")],
)
def test_slaves_come_first_and_the_master_last(left: list[str], master: str, next_one: str) -> None:
    assert next_of(left, master) == next_one


def test_every_broker_is_restarted_once_and_each_is_told() -> None:
    cluster, said = Cluster(), []
    restart(cluster, ["b-1", "b-2", "b-3"], cluster.end, said.append)  # type: ignore[arg-type]
    assert (
        cluster.ended == ["b-2", "b-3", "b-1"]
        and [line.split(":")[0] for line in said] == cluster.ended
    )
    assert said[-1].endswith("replica 2 is master, epoch 2")


def test_a_broker_that_does_not_come_back_leaves_the_others_alone() -> None:
    cluster = Cluster(comes_back=False)
    with pytest.raises(Problem, match="the restart of b-2"):
        restart(cluster, ["b-1", "b-2", "b-3"], cluster.end, print)  # type: ignore[arg-type]
    assert cluster.ended == ["b-2"]


@pytest.mark.parametrize(("replicas", "said_first"), [(1, "nobody takes over"), (2, "sends wait")])
def test_a_set_that_is_too_small_for_the_promise_is_told_so(replicas: int, said_first: str) -> None:
    cluster, said = Cluster(), []
    cluster.found = cluster.found[:replicas]
    with contextlib.suppress(StopIteration):  # who would take over is not among these
        restart(cluster, ["b-1"], cluster.end, said.append)  # type: ignore[arg-type]
    assert said_first in said[0]


def test_a_new_process_that_does_not_come_up_is_told_before_the_wait_is_over() -> None:
    """A full disk, a setting that cannot be: the supervisor starts it again and again."""
    cluster, said = Cluster(comes_back=False), []
    cluster.found[1] |= {"restarts": 4}
    again = {"restarts": 6, "pid": None, "state": "restarting", "last_exit": 2}
    end = lambda process: cluster.found.__setitem__(1, cluster.found[1] | again)
    with pytest.raises(Problem, match="the restart of b-2"):
        restart(cluster, ["b-2"], end, said.append)  # type: ignore[arg-type]
    assert len(said) == 1 and "ended with exit code 2" in said[0] and "b-2.log" in said[0]


def test_the_next_one_waits_until_the_last_has_what_was_acknowledged() -> None:
    cluster = Cluster()
    cluster.behind_after = "h:2"
    with pytest.raises(Problem, match="copying to b-2"):
        restart(cluster, ["b-1", "b-2", "b-3"], cluster.end, print)  # type: ignore[arg-type]
    assert cluster.ended == ["b-2"]


def test_what_to_restart_must_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["restart", "--dir", str(tmp_path)]) == EXIT_USAGE
    assert "--rolling --broker" in capsys.readouterr().err


class ActingSets(Cluster):
    """Two sets of fixed ids; `led`: by which controllers lead since, with whoever is master."""

    def __init__(self, masters: dict[str, str], led: str = "") -> None:
        super().__init__()
        names = ["broker-a-0", "broker-a-1", "broker-b-0", "broker-b-1", "broker-a-2"]
        self.found = [
            {"name": name, "address": f"h:{n}", "pid": n, "state": "ready"}
            for n, name in enumerate(names, 1)
        ]
        self.names, self.masters, self.led = names, masters, led
        self.not_whole_after = ""

    def is_whole(self, broker_set: str) -> bool:
        ended = [name for name in self.ended if name.startswith(broker_set)]
        return not self.not_whole_after or self.not_whole_after not in ended

    def is_led(self, broker_set: str) -> bool:
        return broker_set == self.led

    def master_of(self, broker_set: str) -> str | None:
        return self.masters[broker_set]


def test_where_nobody_elects_the_master_of_each_set_is_last() -> None:
    cluster, said = ActingSets({"broker-a": "broker-a-0", "broker-b": "broker-b-0"}), []
    restart_acting(cluster, cluster.names, cluster.end, said.append)  # type: ignore[arg-type]
    assert cluster.ended == [
        *("broker-a-1", "broker-a-2", "broker-a-0"),
        *("broker-b-1", "broker-b-0"),
    ]
    assert len([line for line in said if "a slave is read from" in line]) == 2


def test_of_an_adopted_set_whoever_was_elected_is_last_and_nobody_acts() -> None:
    masters = {"broker-a": "broker-a-2", "broker-b": "broker-b-0"}
    cluster, said = ActingSets(masters, led="broker-a"), []
    names = [name for name in cluster.names if name.startswith("broker-a")]
    restart_acting(cluster, names, cluster.end, said.append)  # type: ignore[arg-type]
    assert cluster.ended == ["broker-a-0", "broker-a-1", "broker-a-2"]
    assert all("in sync after" in line for line in said)


def test_of_an_adopted_set_the_next_one_waits_until_the_set_is_whole() -> None:
    masters = {"broker-a": "broker-a-0", "broker-b": "broker-b-0"}
    cluster = ActingSets(masters, led="broker-a")
    cluster.not_whole_after = "broker-a-1"
    with pytest.raises(Problem, match="broker-a with its master and every slave"):
        restart_acting(cluster, cluster.names, cluster.end, print)  # type: ignore[arg-type]
    assert cluster.ended == ["broker-a-1"]


class MajoritySet(Cluster):
    """A group whose leader hands over when it is asked to end."""

    def look(self) -> dict[str, Any]:
        return {"leader": f"b-{self.master}", "term": self.epoch}

    def is_whole(self) -> bool:
        return self.comes_back


def test_the_leader_of_a_majority_group_is_last() -> None:
    cluster, said = MajoritySet(), []
    restart_majority(cluster, ["b-1", "b-2", "b-3"], cluster.end, said.append)  # type: ignore[arg-type]
    assert cluster.ended == ["b-2", "b-3", "b-1"]
    assert len(said) == 3 and "has everything" in said[0] and "b-2 leads term 2" in said[2]
