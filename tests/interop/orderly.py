"""What an orderly consumer of the Java client was handed, judged from its file and the producer's.

Pure but for reading the file. Refuses to know who was killed and how.

Each message once and each queue in turn, but what a consumer was handed again: a broker that takes
over has the group's places as they were copied, and order locks are asked for anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infra.features.counts import Blow, Counts, before_blow
from tests.interop.ledger import LedgerRow, acknowledged_of, disorder, read_received, whole_lines


def judged_orderly(ledger: Sequence[LedgerRow], received: Path, blows: Sequence[Blow]) -> Counts:
    """`wrong`: breaches of a queue's order, in words. `late_ms`: from the answer to its producer
    until it was handed out.
    """
    counts, answered = Counts("orderly"), _answered_ms(ledger)
    counts.good = len(acknowledged_of(ledger))
    got = read_received(received)
    counts.lost = sorted(acknowledged_of(ledger) - {sequence for sequence, _, _ in got})
    counts.wrong = disorder(ledger, got)
    first: dict[tuple[int, int], int] = {}
    for sequence, queue, offset, at_ms in _handed_out(received):
        place = queue, offset
        if place not in first:
            first[place] = at_ms
            if sequence in answered:
                counts.late_ms.append(max(0, at_ms - answered[sequence]))
            continue
        gap_ms = before_blow(first[place], at_ms, blows)
        if gap_ms is None:
            counts.unhit.append(sequence)
        else:
            counts.twice_ms.append(gap_ms)
    counts.note = f"{len(counts.wrong)} out of order"
    return counts


def _answered_ms(ledger: Sequence[LedgerRow]) -> dict[int, int]:
    return {row.sequence: row.end_ms for row in ledger if row.outcome == "SEND_OK"}


def _handed_out(received: Path) -> list[tuple[int, int, int, int]]:
    """(sequence, queue, offset, when) in the order of the file."""
    rows = [line.split(",") for line in whole_lines(received) if line.count(",") == 3]
    return [(int(a), int(b), int(c), int(d)) for a, b, c, d in rows]
