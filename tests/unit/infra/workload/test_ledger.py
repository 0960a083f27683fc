from pathlib import Path

from infra.workload.ledger import Ledger, compare, read_ledger


def written(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path / "l")
    for sequence in range(4):
        ledger.call(sequence, 0)
    ledger.acknowledge(0, 0, 0)
    ledger.leave_open(1, "no answer\nat all")
    ledger.call(1, 0)
    ledger.acknowledge(1, 0, 2)
    ledger.acknowledge(2, 0, 3)
    ledger.close()
    return tmp_path / "l"


def test_what_was_written_is_read_back_without_a_torn_end(tmp_path: Path) -> None:
    path = written(tmp_path)
    with path.open("ab") as file:
        file.write(b"A 3 0 4")
    found = read_ledger(path)
    assert (found.calls, found.unknown_calls) == (5, 1)
    assert found.sequences == {0, 1, 2, 3} and found.acknowledged == {
        0: (0, 0),
        1: (0, 2),
        2: (0, 3),
    }


def test_only_what_was_acknowledged_can_be_lost(tmp_path: Path) -> None:
    ledger = read_ledger(written(tmp_path))
    found = compare(ledger, [(0, 0, 0), (0, 1, 1), (0, 2, 1)])
    assert (
        found.lost == (2,)
        and found.duplicated == 1
        and found.out_of_order == 0
        and found.misplaced == 0
    )


def test_a_message_that_is_not_where_its_answer_said_is_misplaced(tmp_path: Path) -> None:
    ledger = read_ledger(written(tmp_path))
    found = compare(ledger, [(0, 5, 0), (0, 2, 1), (0, 3, 2)])
    assert found.misplaced == 1 and not found.lost


def test_order_counts_first_arrivals_within_a_queue_only(tmp_path: Path) -> None:
    ledger = read_ledger(written(tmp_path))
    assert compare(ledger, [(0, 0, 2), (0, 1, 1), (1, 0, 0)]).out_of_order == 1
    assert compare(ledger, [(0, 0, 1), (0, 1, 2), (0, 2, 1)]).out_of_order == 0, (
        "a repeat is a duplicate"
    )
    assert compare(ledger, [(0, 0, 99)]).never_sent == 1
