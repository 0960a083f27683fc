"""What the popping client's file says, as pops are judged by."""

from pathlib import Path

from infra.features.counts import Blow
from tests.interop.java_pops import judged, read_popped, sent_of
from tests.interop.ledger import LedgerRow

FILE = """\
G,-1,0,900,10900,0,0
G,0,0,1000,11000,0,1
G,1,0,1000,11000,1,0
S,1,1000
A,1,1000,1050
U,2000,2600
G,0,1,12000,22000,0,0
S,0,12000
"""
LEDGER = [
    LedgerRow(0, 500, 510, "SEND_OK", 0, 1),
    LedgerRow(1, 500, 700, "RemotingTimeoutException"),
    LedgerRow(1, 710, 720, "SEND_OK", 1, 0),
]


def written(folder: Path, more: str = "") -> Path:
    path = folder / "popped.csv"
    path.write_text(FILE + more + "A,0,12000,1")  # torn: its writer was killed
    return path


def test_the_file_says_what_was_handed_out_acknowledged_and_never_answered(tmp_path: Path) -> None:
    given, unanswered = read_popped(written(tmp_path))
    assert sorted(given) == [0, 1] and [one.is_back for one in given[0]] == [False, True]
    assert given[1][0].is_done and given[0][1].is_asked and not given[0][1].is_done
    assert (unanswered[0].begun_ms, unanswered[0].ended_ms) == (2_000, 2_600)


def test_a_message_is_sent_by_as_many_calls_as_its_ledger_has(tmp_path: Path) -> None:
    sent = sent_of(LEDGER)
    assert (sent[0].calls, sent[1].calls) == (1, 2)
    assert (sent[1].begun_ms, sent[1].answered_ms) == (500, 720)


def test_a_run_is_good_when_nothing_is_lost_early_or_again_without_a_blow(tmp_path: Path) -> None:
    rows = judged(LEDGER, written(tmp_path), [Blow(2_000, 2_100)], "a kill")
    assert [row.ok for row in rows] == [True]
    early = written(tmp_path, "G,0,1,10500,20500,0,1\n")
    assert not all(row.ok for row in judged(LEDGER, early, [Blow(2_000, 2_100)], "a kill"))
