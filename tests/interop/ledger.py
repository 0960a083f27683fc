"""What the stock client's files say: calls with their outcome and place, messages handed out, and
breaches of the queues' order.

Responsible for: reading both files, torn last lines aside; the order per queue, judged from them
alone.
Refuses to know: who wrote the files, who was killed meanwhile, and what was lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class LedgerRow(NamedTuple):
    """One call. `queue` and `offset`: the place that its answer named, -1 without one."""

    sequence: int
    start_ms: int
    end_ms: int
    outcome: str
    queue: int = -1
    offset: int = -1


Received = tuple[int, int, int]
"""(sequence, queue, offset) of a message in the order it was handed to the consumer."""


def read_ledger(path: Path) -> list[LedgerRow]:
    """The complete lines; a torn last one is left out."""
    rows = []
    for line in whole_lines(path):
        parts = line.split(",")
        if len(parts) == 7:
            rows.append(
                LedgerRow(
                    int(parts[0]),
                    int(parts[2]),
                    int(parts[3]),
                    parts[4],
                    int(parts[5]),
                    int(parts[6]),
                )
            )
    return rows


def acknowledged_of(rows: Sequence[LedgerRow]) -> set[int]:
    return {row[0] for row in rows if row[3] == "SEND_OK"}


def read_received(path: Path) -> list[Received]:
    """(sequence, queue, offset) of each complete line."""
    return [
        tuple(int(part) for part in line.split(",")[:3])
        for line in whole_lines(path)
        if line.count(",") == 3
    ]


def read_arrivals(path: Path) -> dict[tuple[int, int], int]:
    """(queue, offset) of each message to when it was handed out first, ms of the wall clock."""
    found: dict[tuple[int, int], int] = {}
    for line in whole_lines(path):
        parts = line.split(",")
        if len(parts) == 4:
            found.setdefault((int(parts[1]), int(parts[2])), int(parts[3]))
    return found


def read_refused(path: Path) -> list[tuple[int, int, int, str]]:
    """(start, end, queue, what) of each pull that came to nothing; times in ms of the wall
    clock.
    """
    rows = [line.split(",") for line in whole_lines(path) if line.count(",") == 3]
    return [(int(start), int(end), int(queue), what) for start, end, queue, what in rows]


def longest_wait_ms(rows: Sequence[LedgerRow], arrivals: Mapping[tuple[int, int], int]) -> int:
    """From an acknowledgement until a consumer that ran through all of it was handed the
    message.
    """
    waits = [
        arrivals[row.queue, row.offset] - row.end_ms
        for row in rows
        if row.outcome == "SEND_OK" and (row.queue, row.offset) in arrivals
    ]
    return max(waits, default=0)


def whole_lines(path: Path) -> list[str]:
    """Without what follows the last line end: the writer may be in the middle of it. None before
    the file is there.
    """
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


def places_of(rows: Sequence[LedgerRow]) -> set[Received]:
    """Where each acknowledged message must stand."""
    return {(row.sequence, row.queue, row.offset) for row in rows if row.outcome == "SEND_OK"}


def disorder(rows: Sequence[LedgerRow], got: Sequence[Received]) -> list[str]:
    """Breaches of the order per queue: a reader was handed an older message for the first time
    behind a newer one; what was acknowledged stands at another place than the answer said; a call
    stands in front of one that had ended before it began.
    """
    return [*_handed_out_of_turn(got), *_misplaced(rows, got), *_stored_out_of_turn(rows)]


def _handed_out_of_turn(got: Sequence[Received]) -> list[str]:
    found, seen, highest = [], set(), dict[int, int]()
    for sequence, queue, offset in got:
        if (queue, offset) in seen:
            continue  # at least once: what was handed out may be handed out again
        seen.add((queue, offset))
        if offset < highest.get(queue, -1):
            found.append(
                f"queue {queue}: {offset} (message {sequence}) handed out behind {highest[queue]}"
            )
        highest[queue] = max(offset, highest.get(queue, -1))
    return found


def _misplaced(rows: Sequence[LedgerRow], got: Sequence[Received]) -> list[str]:
    places = {(queue, offset): sequence for sequence, queue, offset in got}
    read = {row[0] for row in got}
    return [
        (
            f"message {row.sequence} was acknowledged at queue {row.queue} offset {row.offset}, "
            f"where {places.get((row.queue, row.offset))} is"
        )
        for row in rows
        if row.outcome == "SEND_OK"
        and row.sequence in read
        and places.get((row.queue, row.offset)) != row.sequence
    ]


def _stored_out_of_turn(rows: Sequence[LedgerRow]) -> list[str]:
    found, highest = [], dict[int, int]()
    good = [row for row in rows if row.outcome == "SEND_OK"]
    ended = iter(sorted(good, key=lambda row: row.end_ms))
    next_ended = next(ended, None)
    for row in sorted(good, key=lambda row: row.start_ms):
        while next_ended is not None and next_ended.end_ms < row.start_ms:
            highest[next_ended.queue] = max(next_ended.offset, highest.get(next_ended.queue, -1))
            next_ended = next(ended, None)
        if row.offset < highest.get(row.queue, -1):
            found.append(
                f"message {row.sequence} at queue {row.queue} offset {row.offset}, although "
                f"{highest[row.queue]} was answered before it was sent"
            )
    return found
