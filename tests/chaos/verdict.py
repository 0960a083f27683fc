"""What one run under a fault showed, what several runs of one fault come to, and whether that is as
promised.

Pure: takes what the producer's ledger holds and what was read back. Refuses to know how either was
got, and what was hit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from infra.workload.consumer import CORRUPT
from infra.workload.ledger import LedgerContent, compare

HEAD = (
    "FAULT",
    "RUNS",
    "TOOK",
    "RTO MEDIAN",
    "RTO MAX",
    "LONGEST GAP",
    "NEXT DECISION",
    "ACKNOWLEDGED",
    "LOST",
    "TWICE",
    "NOTE",
)
SHOWN = 10
MS_PER_S = 1000


@dataclass(slots=True)
class Run:
    """One run. `rto_ms` is None when no call failed, `decision_s` where no decision was asked for;
    `problem` is one line; `feature`: the counts of what was used beside sends.
    """

    note: str = ""
    seconds: float = 0.0
    rto_ms: float | None = None
    gap_ms: float = 0.0
    acknowledged: int = 0
    lost: int = 0
    duplicated: int = 0
    decision_s: float | None = None
    problem: str | None = None
    feature: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Row:
    """All runs of one fault. `may_lose` is the window of a mode that promises less, '' where
    nothing may be lost.
    """

    name: str
    may_lose: str = ""
    skipped: str = ""
    runs: list[Run] = field(default_factory=list)

    @property
    def problem(self) -> str | None:
        return next((one.problem for one in self.runs if one.problem), None)

    @property
    def acknowledged(self) -> int:
        return sum(one.acknowledged for one in self.runs)

    @property
    def lost(self) -> int:
        return sum(one.lost for one in self.runs)

    @property
    def is_good(self) -> bool:
        """It ran, nothing is wrong, and nothing is lost that was promised. A skipped line is
        neither good nor bad.
        """
        return bool(self.runs) and self.problem is None and (not self.lost or bool(self.may_lose))

    def cells(self) -> tuple[str, ...]:
        if self.skipped:
            return (self.name, "0", *["-"] * (len(HEAD) - 3), f"skipped: {self.skipped}")
        times = [one.rto_ms for one in self.runs if one.rto_ms is not None]
        decisions = [one.decision_s * MS_PER_S for one in self.runs if one.decision_s is not None]
        window = f"may lose: {self.may_lose}" if self.may_lose else ""
        notes = [self.problem or "", window, self.runs[-1].note if self.runs else "no run"]
        return (
            self.name,
            str(len(self.runs)),
            f"{sum(one.seconds for one in self.runs):.0f} s",
            _seconds(median(times) if times else None),
            _seconds(max(times, default=None)),
            _seconds(max((one.gap_ms for one in self.runs), default=None)),
            _seconds(max(decisions, default=None)),
            str(self.acknowledged),
            str(self.lost),
            str(sum(one.duplicated for one in self.runs)),
            "; ".join(note for note in notes if note),
        )

    def document(self) -> dict[str, Any]:
        return {
            "fault": self.name,
            "may_lose": self.may_lose,
            "skipped": self.skipped,
            "runs": [asdict(one) for one in self.runs],
        }


def _seconds(ms: float | None) -> str:
    return "-" if ms is None else f"{ms / MS_PER_S:.2f} s"


def judge(
    run: Run,
    ledger: LedgerContent,
    stored: Iterable[tuple[int, int, int]],
    outages: Sequence[Mapping[str, Any]],
    *,
    calm: bool,
    promises: bool,
) -> None:
    """Add to the run what one producer's ledger decides. `stored` are (queue, queue offset,
    sequence), each queue in order; with `calm` no call may fail.
    """
    everything = list(stored)
    corrupt = sum(one[2] == CORRUPT for one in everything)
    found = compare(ledger, (one for one in everything if one[2] != CORRUPT))
    run.acknowledged += len(ledger.acknowledged)
    run.lost += len(found.lost)
    run.duplicated += found.duplicated
    times = [float(one["rto_ms"]) for one in outages] + ([] if run.rto_ms is None else [run.rto_ms])
    run.rto_ms = max(times, default=None)
    wrong = [
        (found.lost and promises, f"lost: {', '.join(map(str, found.lost[:SHOWN]))}"),
        (corrupt, f"{corrupt} bodies are not as they were sent"),
        (
            found.misplaced and promises,
            f"{found.misplaced} messages are not where their answers said",
        ),
        (found.out_of_order and promises, f"{found.out_of_order} out of order"),
        (found.never_sent, f"{found.never_sent} messages that nobody sent"),
        (not ledger.acknowledged, "nothing was acknowledged"),
        (calm and outages, f"a send failed: {outages[0]['first_error']}" if outages else ""),
    ]
    run.problem = run.problem or next((text for bad, text in wrong if bad), None)
