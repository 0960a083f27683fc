"""Reading the file of calls while it is written."""

from __future__ import annotations

from pathlib import Path

from infra.workload.ledger import read_ledger
from tests.bench.calls import Call
from tests.bench.sender import CallLog

LINES = (
    b"S 0 0 100\nS 1 1 110\nA 0 0 7 150\nU 1 160 127.0.0.1:1: no answer within 500 ms\nS 1 1 170\n"
)


def test_calls_are_paired_by_sequence(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    path.write_bytes(LINES)
    assert CallLog(path).calls() == [
        Call(100, 150, True),
        Call(110, 160, False, "127.0.0.1:1: no answer within 500 ms"),
    ]


def test_a_torn_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    path.write_bytes(LINES + b"A 1 1 3 2")
    log = CallLog(path)
    assert len(log.calls()) == 2
    with path.open("ab") as end:
        end.write(b"00\n")
    assert log.calls()[2] == Call(170, 200, True)


def test_a_file_that_is_not_there_yet_holds_no_calls(tmp_path: Path) -> None:
    assert CallLog(tmp_path / "calls").calls() == []


def test_the_file_is_a_ledger_too(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    path.write_bytes(LINES)
    ledger = read_ledger(path)
    assert (ledger.calls, dict(ledger.acknowledged), ledger.unknown_calls) == (3, {0: (0, 7)}, 1)
