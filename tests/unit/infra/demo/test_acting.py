"""What the demo of sets without controllers takes for a change of who delivers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.cluster.data_folder import DataFolder
from infra.demo.acting import ASKED_SOON, QUESTIONS, ActingDemo, changes
from infra.demo.acting_load import ActingLoad
from infra.demo.console import Console
from infra.features.counts import Blow


def test_a_kill_lasts_until_it_is_done_and_a_return_takes_a_while() -> None:
    """A supervisor is asked for the kill: what is done before it acts is done before the kill."""
    away = {"killed": "a-0", "at_ms": 10, "killed_ms": 12}
    back = {"started": "a-0", "at_ms": 50, "ended_ms": 60}
    anew = {"killed": "b-0", "at_ms": 80, "ended_ms": 95}
    assert changes(away, back, anew) == [Blow(10, 12), Blow(50, 50, 60), Blow(80, 80, 95)]


def test_all_that_leaves_a_set_is_under_way_besides_orders() -> None:
    load = ActingLoad(["h:1"])
    assert [use.what for use in load.uses] == [
        *("orders", "delayed", "timed", "transactions", "pops")
    ]
    assert load.progress() == dict.fromkeys((use.what for use in load.uses), 0)
    assert not load.has_grown(load.progress(), 1)


def test_the_tables_explain_the_set_and_are_asked_whether_they_are_sound() -> None:
    assert {("explain", "broker-a"), ("lake", "check")} <= set(QUESTIONS)


def test_whoever_kills_the_demo_at_its_start_finds_all_of_it_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DataFolder(tmp_path / "d")
    demo = ActingDemo(folder, Console(), keep=False)
    given: list[Path] = []

    def start_cluster(*words: str) -> None:
        given.append(Path(words[words.index("--places") + 1]))
        assert json.loads(given[0].read_text()) == {"broker": {"config": ASKED_SOON}}
        assert given[0].is_relative_to(folder.root) and folder.identity() is None

    monkeypatch.setattr(demo, "start_cluster", start_cluster)
    demo._start()
    assert given and list(folder.root.iterdir()) == []
