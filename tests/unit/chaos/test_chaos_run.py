"""Which lines are played, and what the report says of them."""

from collections.abc import Callable

from tests.chaos.broker_lines import LINES
from tests.chaos.control_run import BLOWS
from tests.chaos.run import BROKERS, CONTROL, Report, chosen
from tests.chaos.stage import HEAD, Row
from tests.chaos.verdict import Row as BrokerRow
from tests.chaos.verdict import Run


def test_names_pick_by_their_beginning_and_groups_by_their_name() -> None:
    assert chosen([]) == (list(LINES), list(BLOWS))
    assert chosen([BROKERS]) == (list(LINES), []) and chosen([CONTROL]) == ([], list(BLOWS))
    lines, blows = chosen(["kafka", "sets", "slave-p"])
    assert {one.name for one in blows} == {"kafka-restarted", "kafka-paused", "kafka-killed", "sets"}
    assert [one.name for one in lines] == ["slave-paused"]
    assert chosen(["nothing like it"]) == ([], [])
    names = [one.name for one in (*LINES, *BLOWS)]
    assert len(set(names)) == len(names)


def test_a_row_has_a_cell_for_every_column_and_a_problem_hides_the_note() -> None:
    row = Row("kafka-killed", "kill -9", 12.3, 0.51, 240.0, 100, 0, 2)
    assert row.cells() == ("kafka-killed", "12 s", "0.5 s", "0.24 s", "100", "0", "2", "kill -9")
    row.problem, row.decision_s = "lost: 7", None
    assert row.cells()[-1] == "lost: 7" and row.cells()[2] == "-" and len(row.cells()) == len(HEAD)


def report(change: Callable[[Report], object] = lambda report: None) -> Report:
    made = Report([BrokerRow("a", runs=[Run(acknowledged=5)])], [Row("b", acknowledged=7)])
    change(made)
    return made


def test_the_report_is_good_only_when_every_row_is_and_something_was_played() -> None:
    assert report().is_good and "12 messages acknowledged, 0 lost; history proven" in report().lines()
    assert not Report().is_good
    assert not report(lambda one: one.brokers[0].runs.append(Run(acknowledged=5, lost=1))).is_good
    assert not report(lambda one: one.brokers.append(BrokerRow("never run"))).is_good
    assert not report(lambda one: setattr(one.control[0], "problem", "no")).is_good
    assert not report(lambda one: one.problems.append("outcome 3 is missing")).is_good


def test_a_skipped_line_is_named_and_is_not_counted_as_shown() -> None:
    skipped = BrokerRow("cut-all", skipped="needs root")
    assert report(lambda one: one.brokers.append(skipped)).lines()[-1] == "skipped, so not shown: cut-all"
    assert not Report([skipped]).is_good


def test_what_a_mode_may_lose_is_told_and_is_no_failure() -> None:
    one = report(lambda one: one.brokers.append(BrokerRow("count", "what the master alone had", runs=[Run(acknowledged=9, lost=4)])))
    assert one.is_good and "21 messages acknowledged, 0 lost; history proven" in one.lines()
    assert any("may lose: what the master alone had" in line and " 4 " in line for line in one.lines())
    assert one.document()["brokers"]["lines"][1]["runs"][0]["lost"] == 4
