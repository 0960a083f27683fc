"""What was sent and what became of it, on disk before anyone relies on it.

Lines: `S seq queue` before a call, `A seq queue queue_offset` when the answer had code 0, `U seq
reason` for everything else: the message may be stored or not. Refuses to know how messages travel.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


class Ledger:
    """Append-only writer; every line is with the operating system before the call that it is
    about.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.sent = 0
        self.acknowledged = 0
        self.unknown = 0

    def call(self, sequence: int, queue: int) -> None:
        os.write(self._file, b"S %d %d\n" % (sequence, queue))
        self.sent += 1

    def acknowledge(self, sequence: int, queue: int, queue_offset: int) -> None:
        os.write(self._file, b"A %d %d %d\n" % (sequence, queue, queue_offset))
        self.acknowledged += 1

    def leave_open(self, sequence: int, reason: str) -> None:
        os.write(self._file, f"U {sequence} {' '.join(reason.split())[:160]}\n".encode())
        self.unknown += 1

    def close(self) -> None:
        os.fsync(self._file)
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class LedgerContent:
    """A ledger read back. `acknowledged` maps sequence to (queue, queue offset); a sequence may be
    called again.
    """

    calls: int
    sequences: frozenset[int]
    acknowledged: Mapping[int, tuple[int, int]]
    unknown_calls: int


def read_ledger(path: Path) -> LedgerContent:
    """The content; a torn last line (the writer was killed) is left out."""
    calls, unknown = 0, 0
    sequences: set[int] = set()
    acknowledged: dict[int, tuple[int, int]] = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        words = line.split(b" ")
        if words[0] == b"S":
            calls += 1
            sequences.add(int(words[1]))
        elif words[0] == b"A":
            acknowledged[int(words[1])] = (int(words[2]), int(words[3]))
        elif words[0] == b"U":
            unknown += 1
    return LedgerContent(calls, frozenset(sequences), acknowledged, unknown)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was read back against what was acknowledged. `misplaced`: not where the answer said it
    is.
    """

    lost: tuple[int, ...]
    misplaced: int
    duplicated: int
    out_of_order: int
    never_sent: int


def compare(ledger: LedgerContent, stored: Iterable[tuple[int, int, int]]) -> Comparison:
    """`stored` are (queue, queue offset, sequence) in the order of each queue."""
    places: dict[int, set[tuple[int, int]]] = {}
    newest: dict[int, int] = {}
    out_of_order = duplicated = never_sent = 0
    for queue, queue_offset, sequence in stored:
        never_sent += sequence not in ledger.sequences
        if sequence in places:
            duplicated += 1
        else:
            out_of_order += sequence < newest.get(queue, -1)
            newest[queue] = max(sequence, newest.get(queue, -1))
        places.setdefault(sequence, set()).add((queue, queue_offset))
    lost = tuple(sorted(sequence for sequence in ledger.acknowledged if sequence not in places))
    misplaced = sum(
        place not in places[sequence]
        for sequence, place in ledger.acknowledged.items()
        if sequence in places
    )
    return Comparison(lost, misplaced, duplicated, out_of_order, never_sent)
