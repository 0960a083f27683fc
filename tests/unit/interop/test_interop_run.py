"""What a run of scenarios says at the end: exit code, one line per scenario, the table with the
Java settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.problems import Problem
from tests.interop.run import SCENARIOS, chosen, run
from tests.interop.stage import NO_COMPILER, Row, Scenario, Stage


@dataclass(frozen=True, slots=True)
class Scripted(Scenario):
    """A scenario that is only its function."""

    play: Callable[[Stage], list[Row]] = lambda stage: []

    def load(self) -> Callable[[Stage], list[Row]]:
        return self.play


def scripted(name: str, play: Callable[[Stage], list[Row]]) -> Scenario:
    return Scripted(name, "", f"what {name} is about", play)


def good(stage: Stage) -> list[Row]:
    stage.configured("Java 5.3.3 brokers: allAckInSyncStateSet=true")
    return [Row("acknowledged lost", "0 of 10")]


def lossy(stage: Stage) -> list[Row]:
    return [Row("acknowledged lost", "1 of 10", ok=False)]


def in_vain(stage: Stage) -> list[Row]:
    raise Problem("waited in vain for 60 s until another master", "last words")


def torn(stage: Stage) -> list[Row]:
    raise KeyError("masterEpoch")


def no_compiler(stage: Stage) -> list[Row]:
    raise Problem("no Java compiler", "install a JDK", NO_COMPILER)


def test_all_as_it_should_be_ends_with_0_and_the_java_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([scripted("one", good), scripted("two", good)], Stage(tmp_path), as_json=False) == 0
    told = capsys.readouterr()
    assert (
        "0 of 10" in told.out
        and told.out.count("allAckInSyncStateSet=true") == 1
        and ("all as it should be") in told.out
    )
    assert [line for line in told.err.splitlines() if line.startswith(("one", "two"))] == [
        "one: what one is about",
        "two: what two is about",
    ]
    assert "one: ok after" in told.err and "two: ok after" in told.err


@pytest.mark.parametrize("breaks", [lossy, in_vain, torn])
def test_a_loss_or_a_broken_scenario_ends_with_1_and_the_others_still_run(
    breaks: Callable[[Stage], list[Row]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([scripted("one", breaks), scripted("two", good)], Stage(tmp_path), as_json=True) == 1
    told = capsys.readouterr()
    document = json.loads(told.out)
    assert document["ok"] is False and not all(row["ok"] for row in document["scenarios"]["one"])
    assert all(row["ok"] for row in document["scenarios"]["two"])
    assert "one: NOT OK after" in told.err


def test_what_will_not_end_is_told_and_does_not_keep_the_others_from_running(
    tmp_path: Path,
) -> None:
    def shares(stage: Stage) -> list[Row]:
        def refuses() -> None:
            raise AssertionError("regent down: still there")

        stage.shared("a cluster", lambda stack: stack.callback(refuses))
        raise Problem("the step", "")

    assert run([scripted("one", shares), scripted("two", good)], Stage(tmp_path), as_json=True) == 1


def test_without_a_compiler_nothing_is_judged(tmp_path: Path) -> None:
    with pytest.raises(Problem):
        run([scripted("one", no_compiler)], Stage(tmp_path), as_json=False)


def test_names_choose_by_their_beginning_in_the_order_of_the_table() -> None:
    assert chosen([]) == list(SCENARIOS)
    assert [one.name for one in chosen(["mixed", "controller"])] == [
        "controller-one",
        "controller-all",
        "mixed",
    ]
    with pytest.raises(Problem) as refused:
        chosen(["nothing"])
    assert refused.value.exit_code == NO_COMPILER


def test_every_scenario_can_be_loaded() -> None:
    assert all(callable(one.load()) for one in SCENARIOS)
