"""What counts as lost, out of order and handed out again of what an orderly consumer was handed."""

from pathlib import Path

from infra.features.counts import Blow, Counts
from tests.interop.ledger import LedgerRow
from tests.interop.orderly import judged_orderly

LEDGER = [LedgerRow(n, 1_000 + 10 * n, 1_005 + 10 * n, "SEND_OK", 0, n) for n in range(3)]
BLOW = Blow(2_000, 2_050)


def judged(folder: Path, *lines: str) -> Counts:
    received = folder / "received.csv"
    received.write_text("".join(f"{line}\n" for line in lines))
    return judged_orderly(LEDGER, received, [BLOW])


def test_each_once_and_in_turn_is_as_promised(tmp_path: Path) -> None:
    counts = judged(tmp_path, "0,0,0,1010", "1,0,1,1020", "2,0,2,1040")
    assert counts.problem is None and counts.good == 3
    assert counts.late_ms == [5, 5, 15] and not counts.twice_ms and not counts.unhit


def test_what_was_acknowledged_and_not_handed_out_is_lost(tmp_path: Path) -> None:
    assert judged(tmp_path, "0,0,0,1010", "1,0,1,1020").lost == [2]


def test_a_queue_out_of_turn_is_wrong(tmp_path: Path) -> None:
    counts = judged(tmp_path, "1,0,1,1010", "0,0,0,1020", "2,0,2,1040")
    assert counts.problem is not None and len(counts.wrong) == 1 and "1 out of order" in counts.note


def test_what_is_handed_out_again_behind_a_blow_is_counted_by_its_distance(tmp_path: Path) -> None:
    again = judged(tmp_path, "0,0,0,1010", "1,0,1,1020", "0,0,0,2100", "1,0,1,2101", "2,0,2,2102")
    assert again.problem is None and again.twice_ms == [1_040, 1_030] and not again.unhit


def test_what_is_handed_out_again_and_nobody_was_hit_is_told(tmp_path: Path) -> None:
    counts = judged(tmp_path, "0,0,0,1010", "0,0,0,1015", "1,0,1,1020", "2,0,2,1040")
    assert counts.unhit == [0] and not counts.twice_ms
