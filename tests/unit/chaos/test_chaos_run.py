"""Which lines are played, and what the report says of them."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos import run
from tests.chaos.broker_lines import LINES
from tests.chaos.control_run import BLOWS
from tests.chaos.landing_lines import LINES as LANDINGS
from tests.chaos.run import BROKERS, CONTROL, LANDING, Report, chosen
from tests.chaos.verdict import Row, Run


def test_names_pick_by_their_beginning_and_groups_by_their_name() -> None:
    assert chosen([]) == (list(LINES), list(BLOWS), list(LANDINGS))
    assert chosen([BROKERS]) == (list(LINES), [], []) and chosen([CONTROL]) == ([], list(BLOWS), [])
    assert chosen([LANDING]) == ([], [], list(LANDINGS))
    lines, blows, landings = chosen(["kafka", "sets", "slave-p"])
    assert {one.name for one in blows} == {
        "kafka-restarted",
        "kafka-paused",
        "kafka-killed",
        "sets",
    }
    assert [one.name for one in lines] == ["slave-paused"] and not landings
    assert chosen(["nothing like it"]) == ([], [], [])
    names = [one.name for one in (*LINES, *BLOWS, *LANDINGS)]
    assert len(set(names)) == len(names)


def report(change: Callable[[Report], object] = lambda report: None) -> Report:
    made = Report(
        {
            BROKERS: [Row("a", runs=[Run(acknowledged=5)])],
            CONTROL: [Row("b", runs=[Run(acknowledged=7, decision_s=0.5)])],
        }
    )
    change(made)
    return made


def test_the_report_is_good_only_when_every_row_is_and_something_was_played() -> None:
    assert (
        report().is_good
        and ("12 messages acknowledged, 0 lost; history proven") in report().lines()
    )
    assert not Report().is_good
    assert not report(
        lambda one: one.rows[BROKERS][0].runs.append(Run(acknowledged=5, lost=1))
    ).is_good
    assert not report(lambda one: one.rows[BROKERS].append(Row("never run"))).is_good
    assert not report(lambda one: setattr(one.rows[CONTROL][0].runs[0], "problem", "no")).is_good
    assert not report(lambda one: one.problems.append("outcome 3 is missing")).is_good


def test_a_skipped_line_is_named_and_is_not_counted_as_shown() -> None:
    skipped = Row("cut-all", skipped="needs root")
    assert report(lambda one: one.rows[BROKERS].append(skipped)).lines()[-1] == (
        "skipped, so not shown: cut-all"
    )
    assert not Report({BROKERS: [skipped]}).is_good


def test_what_a_mode_may_lose_is_told_and_is_no_failure() -> None:
    one = report(
        lambda one: one.rows[BROKERS].append(
            Row("count", "what the master alone had", runs=[Run(acknowledged=9, lost=4)])
        )
    )
    assert one.is_good and "21 messages acknowledged, 0 lost; history proven" in one.lines()
    assert any(
        ("may lose: what the master alone had") in line and " 4 " in line for line in one.lines()
    )
    assert one.document()[BROKERS]["lines"][1]["runs"][0]["lost"] == 4


def test_an_interrupted_run_tells_what_it_saw_and_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(*parts: object) -> None:
        (tmp_path / "regent-chaos-1" / "data").write_bytes(b"x")
        parts[-1].rows[CONTROL].append(Row("seen", runs=[Run(acknowledged=3)]))  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    def folder(prefix: str) -> str:
        (tmp_path / f"{prefix}1").mkdir()
        return str(tmp_path / f"{prefix}1")

    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    monkeypatch.setattr(run, "play", interrupted)
    monkeypatch.setattr(tempfile, "mkdtemp", folder)
    try:
        assert run.main(["sets"]) == 130
        os.kill(os.getpid(), signal.SIGINT)  # once is enough: what is being ended goes on to end
    finally:
        for one, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(one, handler)
    assert "seen" in capsys.readouterr().out and not list(tmp_path.iterdir())
