"""The judge: what it says of a ledger and of what was read back, above all when the two do not
agree.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.workload.consumer import CORRUPT
from infra.workload.ledger import Ledger, LedgerContent, read_ledger
from tests.chaos.run import BROKERS, Report
from tests.chaos.verdict import HEAD, Row, Run, judge

STORED = [(0, 0, 0), (1, 0, 1), (0, 1, 2)]


def ledger_of(path: Path, *acknowledged: tuple[int, int, int]) -> LedgerContent:
    ledger = Ledger(path)
    for queue, queue_offset, sequence in acknowledged:
        ledger.call(sequence, queue)
        ledger.acknowledge(sequence, queue, queue_offset)
    ledger.close()
    return read_ledger(path)


def judged(
    ledger: LedgerContent,
    stored: list[tuple[int, int, int]] = STORED,
    *,
    calm: bool = False,
    promises: bool = True,
) -> Run:
    run = Run()
    judge(
        run,
        ledger,
        stored,
        [{"rto_ms": 250.0, "first_error": "code 1"}] if calm else [],
        calm=calm,
        promises=promises,
    )
    return run


def test_what_was_acknowledged_and_is_there_is_good(tmp_path: Path) -> None:
    run = judged(ledger_of(tmp_path / "ledger", *STORED))
    assert (run.problem, run.acknowledged, run.lost, run.rto_ms) == (None, 3, 0, None)


def test_a_ledger_that_says_more_than_was_stored_is_a_loss_and_ends_with_code_1(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger"
    ledger_of(path, *STORED)
    with path.open("ab") as ledger:
        ledger.write(b"S 7 1\nA 7 1 1\n")  # a message that no broker ever had
    run = judged(read_ledger(path))
    assert (run.lost, run.problem) == (1, "lost: 7")
    report = Report({BROKERS: [Row("falsified", runs=[run])]})
    assert not report.is_good and "4 messages acknowledged, 1 lost" in report.lines()[-2]
    assert report.lines()[-1] == "not as it should be: falsified"


def test_where_a_mode_may_lose_the_loss_is_counted_and_other_wrongs_still_count(
    tmp_path: Path,
) -> None:
    ledger = ledger_of(tmp_path / "ledger", *STORED)
    run = judged(ledger, STORED[:2], promises=False)
    assert (run.lost, run.problem) == (1, None)
    assert (
        Row("count mode", "a window", runs=[run]).is_good and not Row("all-ack", runs=[run]).is_good
    )
    assert judged(ledger, [*STORED[:2], (1, 1, CORRUPT)], promises=False).problem == (
        "1 bodies are not as they were sent"
    )


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        ([*STORED, (1, 1, 9)], "1 messages that nobody sent"),
        ([STORED[0], STORED[1], (0, 2, 2)], "1 messages are not where their answers said"),
        ([(0, 1, 2), (1, 0, 1), (0, 0, 0)], "1 out of order"),
        ([*STORED, (0, 2, CORRUPT)], "1 bodies are not as they were sent"),
    ],
)
def test_everything_else_that_is_wrong_is_told(
    tmp_path: Path, stored: list[tuple[int, int, int]], problem: str
) -> None:
    assert judged(ledger_of(tmp_path / "ledger", *STORED), stored).problem == problem


def test_a_run_without_a_single_acknowledgement_shows_nothing(tmp_path: Path) -> None:
    assert judged(ledger_of(tmp_path / "ledger"), []).problem == "nothing was acknowledged"


def test_where_no_send_may_fail_one_that_fails_is_a_problem(tmp_path: Path) -> None:
    run = judged(ledger_of(tmp_path / "ledger", *STORED), calm=True)
    assert (run.problem, run.rto_ms) == ("a send failed: code 1", 250.0)


def test_a_row_sums_its_runs() -> None:
    row = Row(
        "kill",
        runs=[
            Run("a", 1.0, 100.0, 150.0, 10, 0, 1),
            Run("b", 1.0, None, 20.0, 20, decision_s=0.5),
            Run("c", 1.0, 400.0, 410.0, 30, 0, 2),
        ],
    )
    assert row.cells() == (
        "kill",
        "3",
        "3 s",
        "0.25 s",
        "0.40 s",
        "0.41 s",
        "0.50 s",
        "60",
        "0",
        "3",
        "c",
    )
    assert (
        len(HEAD) == len(row.cells()) == len(Row("cut", skipped="needs root").cells())
        and row.is_good
    )
    row.runs[1].problem = "lost: 5"
    assert row.problem == "lost: 5" and not row.is_good
