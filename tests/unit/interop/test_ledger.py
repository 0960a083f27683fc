"""Order per queue, judged from the files of a stock client: a right history passes, each planted
breach is found.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.ledger import (
    LedgerRow,
    Received,
    acknowledged_of,
    disorder,
    longest_wait_ms,
    places_of,
    read_arrivals,
    read_ledger,
    read_received,
    read_refused,
)

# two queues, two calls at a time; message 4 timed out and was sent again
LEDGER = [
    LedgerRow(0, 10, 12, "SEND_OK", 0, 0),
    LedgerRow(1, 10, 13, "SEND_OK", 1, 0),
    LedgerRow(2, 14, 16, "SEND_OK", 0, 2),
    LedgerRow(3, 14, 15, "SEND_OK", 0, 1),
    LedgerRow(4, 20, 30, "RemotingTimeoutException"),
    LedgerRow(4, 31, 33, "SEND_OK", 1, 2),
    LedgerRow(5, 34, 36, "SEND_OK", 0, 3),
]
READ: list[Received] = [(0, 0, 0), (1, 1, 0), (3, 0, 1), (4, 1, 1), (2, 0, 2), (4, 1, 2), (5, 0, 3)]


def changed(**by_sequence: tuple[int, int]) -> list[LedgerRow]:
    return [
        row._replace(queue=place[0], offset=place[1])
        if (place := by_sequence.get(f"s{row.sequence}")) and row.queue >= 0
        else row
        for row in LEDGER
    ]


def test_a_right_history_has_no_breach() -> None:
    assert disorder(LEDGER, READ) == []
    assert acknowledged_of(LEDGER) == {0, 1, 2, 3, 4, 5}
    assert places_of(LEDGER) <= set(READ)


def test_what_was_handed_out_may_be_handed_out_again() -> None:
    assert disorder(LEDGER, [*READ[:5], *READ[:2], *READ[2:]]) == []


def test_an_older_message_handed_out_late_is_found() -> None:
    first, third = READ.index((3, 0, 1)), READ.index((2, 0, 2))
    planted = list(READ)
    planted[first], planted[third] = planted[third], planted[first]
    assert disorder(LEDGER, planted) == ["queue 0: 1 (message 3) handed out behind 2"]


def test_other_bytes_at_an_acknowledged_place_are_found() -> None:
    planted = [
        (2, 0, 1) if row == (3, 0, 1) else (3, 0, 2) if row == (2, 0, 2) else row for row in READ
    ]
    assert len(disorder(LEDGER, planted)) == 2
    assert "message 3 was acknowledged at queue 0 offset 1, where 2 is" in disorder(LEDGER, planted)


def test_a_message_that_moved_is_found_although_it_was_read() -> None:
    planted = [row for row in READ if row != (5, 0, 3)] + [(5, 0, 4)]
    assert disorder(LEDGER, planted) == [
        "message 5 was acknowledged at queue 0 offset 3, where None is"
    ]


def test_a_lost_message_is_no_breach_of_order() -> None:
    assert disorder(LEDGER, READ[:-1]) == []


@pytest.mark.parametrize("swapped", [("s0", "s5"), ("s3", "s5")])
def test_a_call_stored_in_front_of_one_that_had_ended_is_found(swapped: tuple[str, str]) -> None:
    places = {f"s{row.sequence}": (row.queue, row.offset) for row in LEDGER if row.queue >= 0}
    rows = changed(**{swapped[0]: places[swapped[1]], swapped[1]: places[swapped[0]]})
    read = [row for row in READ if row[0] not in {int(name[1:]) for name in swapped}]
    read += sorted(places_of(rows) - set(read), key=lambda row: row[2])
    read.sort(key=lambda row: row[2])
    assert any("was answered before it was sent" in line for line in disorder(rows, read))


def test_calls_under_way_at_once_may_be_stored_in_either_order() -> None:
    rows = changed(s2=(0, 1), s3=(0, 2))
    assert (
        disorder(
            rows,
            [
                (2, 0, 1) if row == (3, 0, 1) else (3, 0, 2) if row == (2, 0, 2) else row
                for row in READ
            ],
        )
        == []
    )


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    ledger, received = tmp_path / "ledger.csv", tmp_path / "received.csv"
    ledger.write_text(
        "0,1,10,12,SEND_OK,0,0\n4,1,20,30,RemotingTimeoutException,-1,-1\n5,1,31,33,SEND_OK,0,3"
    )
    received.write_text("0,0,0,11\n1,1,0,12")
    assert read_ledger(ledger) == [LEDGER[0], LedgerRow(4, 20, 30, "RemotingTimeoutException")]
    assert read_received(received) == [(0, 0, 0)]


def test_the_longest_wait_is_from_the_answer_to_the_first_time_it_was_handed_out(
    tmp_path: Path,
) -> None:
    received = tmp_path / "received.csv"
    received.write_text("0,0,0,20\n0,0,0,900\n2,0,2,46\n5,0,3,40\n3,0,1,15\n1,1,0,7777")
    arrivals = read_arrivals(received)
    assert arrivals == {(0, 0): 20, (0, 2): 46, (0, 3): 40, (0, 1): 15}
    assert longest_wait_ms(LEDGER, arrivals) == 30, "message 2, answered at 16"
    assert longest_wait_ms(LEDGER, {}) == 0


def test_pulls_that_came_to_nothing_are_read(tmp_path: Path) -> None:
    refused = tmp_path / "refused.csv"
    assert read_refused(refused) == []
    refused.write_text("10,12,3,CODE: 24\n13,14,0,timeout\n15,1")
    assert read_refused(refused) == [(10, 12, 3, "CODE: 24"), (13, 14, 0, "timeout")]
