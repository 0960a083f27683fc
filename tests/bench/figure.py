"""One figure of the benchmark: what was measured, beside a peer of the same run, a floor and a
goal.

Pure. Refuses to know how anything is measured and how it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit for a figure's value or for its ratio to the peer. `at_most`: smaller is better."""

    limit: float
    at_most: bool
    of_ratio: bool = False

    def holds(self, value: float | None, ratio: float | None) -> bool | None:
        """Whether the figure keeps the bound, None when what it speaks of was not measured."""
        measured = ratio if self.of_ratio else value
        if measured is None:
            return None
        return measured <= self.limit if self.at_most else measured >= self.limit

    def text(self, unit: str) -> str:
        """For the table, e.g. `<= 1.5 s`, `>= 40 %`."""
        sign = "<=" if self.at_most else ">="
        return (
            (f"{sign} {self.limit * 100:.0f} %")
            if self.of_ratio
            else f"{sign} {self.limit:g} {unit}"
        )


def at_most(limit: float) -> Bound:
    return Bound(limit, at_most=True)


def at_least(limit: float) -> Bound:
    return Bound(limit, at_most=False)


def share_at_least(share: float) -> Bound:
    """At least this share of the peer."""
    return Bound(share, at_most=False, of_ratio=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report. `value` None: not measured, `note` says why.

    `required`: a broken floor fails the benchmark. `samples` are in `unit`, in the order they were
    taken.
    """

    row: str
    what: str
    unit: str
    value: float | None
    peer: str = ""
    peer_value: float | None = None
    floor: Bound | None = None
    goal: Bound | None = None
    required: bool = False
    note: str = ""
    samples: Sequence[float] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Value over peer's value."""
        if self.value is None or not self.peer_value:
            return None
        return self.value / self.peer_value

    @property
    def holds(self) -> bool | None:
        """Whether the floor holds; None without a floor or without a measurement."""
        return None if self.floor is None else self.floor.holds(self.value, self.ratio)

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached."""
        return None if self.goal is None else self.goal.holds(self.value, self.ratio)

    def document(self) -> dict[str, Any]:
        """The figure for the JSON report."""
        found = asdict(self)
        found["floor"] = self.floor.text(self.unit) if self.floor else None
        found["goal"] = self.goal.text(self.unit) if self.goal else None
        found |= {"ratio": self.ratio, "holds": self.holds, "reached": self.reached}
        found["samples"], found["details"] = list(self.samples), dict(self.details)
        return found


def not_measured(
    row: str, what: str, unit: str, why: str, *, required: bool = False, floor: Bound | None = None
) -> Figure:
    """A figure that this machine or this run could not give."""
    return Figure(
        row, what, unit, None, floor=floor, required=required, note=(f"not measured: {why}")
    )


def exit_code(figures: Sequence[Figure]) -> int:
    """0; 1 when a required floor is broken; 2 when none is, but a required figure could not be
    measured.
    """
    required = [figure for figure in figures if figure.required]
    if any(figure.holds is False for figure in required):
        return 1
    return 2 if any(figure.holds is None for figure in required) else 0
