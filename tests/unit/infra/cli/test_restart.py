"""A rolling restart: slaves first, the master last, each only while the set is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.cli import main
from infra.cli.restart import next_of, restart
from infra.cluster.running import SetView
from infra.problems import EXIT_USAGE, Problem


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
        self.behind = ""

    def end(self, pid: int) -> None:
        one = next(each for each in self.found if each["pid"] == pid)
        self.ended.append(str(one["name"]))
        if one["address"] == f"h:{self.master}":
            self.master, self.epoch = self.master % 3 + 1, self.epoch + 1
        if self.comes_back:
            one["pid"] = pid + 100

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


def test_the_next_one_waits_until_the_last_has_what_was_acknowledged() -> None:
    cluster = Cluster()
    cluster.behind = "h:2"
    with pytest.raises(Problem, match="copying to b-2"):
        restart(cluster, ["b-1", "b-2", "b-3"], cluster.end, print)  # type: ignore[arg-type]
    assert cluster.ended == ["b-2"]


def test_what_to_restart_must_be_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["restart", "--dir", str(tmp_path)]) == EXIT_USAGE
    assert "--rolling --broker" in capsys.readouterr().err
