"""Fold: bytes of the log to state and digest, on one core, against decoding alone of the same
bytes.

In bulk, as every start does, and beside it one by one with an `Outcome` of each, as the log is
followed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from events.codec import decode
from processors.fold.folder import Folder
from processors.log.start import RECORDS_TOGETHER
from tests.bench.apart import apart
from tests.bench.control_log import ControlLog
from tests.bench.figure import Figure, at_least, share_at_least
from tests.bench.run_context import Bench

RECORDS = 20_000
SETS = 40
ROUNDS = 3


def fold_all(records: Sequence[bytes]) -> None:
    folder = Folder()
    for first in range(0, len(records), RECORDS_TOGETHER):
        folder.apply_many(first, records[first : first + RECORDS_TOGETHER])


def fold_one_by_one(records: Sequence[bytes]) -> None:
    folder = Folder()
    for offset, data in enumerate(records):
        folder.apply(offset, data)


def decode_all(records: Sequence[bytes]) -> None:
    for data in records:
        decode(data)


def _rate(work: Callable[[Sequence[bytes]], None], records: Sequence[bytes]) -> float:
    began = time.perf_counter()
    work(records)
    return len(records) / (time.perf_counter() - began)


def measure_both() -> tuple[list[float], list[float], list[float], float, float]:
    """(bulk, one by one, decoding alone: records/s; mean record bytes, share refused), in turns on
    the same machine.
    """
    log = ControlLog()
    log.grow(RECORDS, SETS)
    folds, followed, decodes = [], [], []
    for _ in range(ROUNDS):
        decodes.append(_rate(decode_all, log.records))
        folds.append(_rate(fold_all, log.records))
        followed.append(_rate(fold_one_by_one, log.records))
    return (
        folds,
        followed,
        decodes,
        sum(map(len, log.records)) / len(log.records),
        log.refused / len(log.records),
    )


def measure(bench: Bench) -> list[Figure]:
    bench.say(f"folding {RECORDS} records {ROUNDS} times")
    folds, followed, decodes, size, refused = apart(measure_both)
    note = (
        f"best of {ROUNDS} turns; {RECORDS} commands of {size:.0f} bytes for {SETS} sets of 3, "
        f"{refused:.0%} refused, each with what its outcome says and a chained digest, in bulk as "
        f"at a start; one by one {max(followed):.0f}/s; the goal is 60 % of decoding alone"
    )
    return [
        Figure(
            "fold",
            "fold, one core",
            "records/s",
            max(folds),
            "decoding alone",
            max(decodes),
            floor=at_least(40_000),
            goal=share_at_least(0.6),
            note=note,
            samples=[round(one) for one in folds],
            details={
                "decode_samples": [round(one) for one in decodes],
                "one_by_one_samples": [round(one) for one in followed],
            },
        )
    ]
