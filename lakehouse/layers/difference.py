"""Rows that stand in a table beside rows that history gives for it.

Responsible for saying what differs, row by row and column by column. Refuses to know where either
comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakehouse.proof.finding import Finding

FINDINGS_MAX = 1_000
"""Of one comparison of a table; those above it are counted only."""
VALUE_CHARS_MAX = 60
COLUMNS_TOLD_MAX = 4

Row = Mapping[str, Any]


@dataclass(slots=True)
class Compared:
    """What comparing a table, or several, gave."""

    rows: int = 0
    """Rows that stand there and were compared."""
    findings: list[Finding] = field(default_factory=list)
    more: int = 0
    """Findings above `FINDINGS_MAX`."""
    problems: list[str] = field(default_factory=list)
    """Files that cannot be read, or are not what Delta's log says."""
    notices: list[str] = field(default_factory=list)

    def found(self, findings: Iterable[Finding]) -> None:
        """Add these."""
        for one in findings:
            if len(self.findings) < FINDINGS_MAX:
                self.findings.append(one)
            else:
                self.more += 1

    def take(self, other: Compared) -> None:
        """Add all that another one has."""
        self.rows += other.rows
        self.found(other.findings)
        self.more += other.more
        self.problems += other.problems
        self.notices += other.notices


def same(there: pa.Table, made: pa.Table, key: Sequence[str]) -> bool:
    """Whether they hold the same rows, in any order; a column that the table lacks is null in
    it.
    """
    if there.num_rows != made.num_rows:
        return False
    order = [(name, "ascending") for name in key]
    left, right = there.sort_by(order), made.sort_by(order)
    try:
        return all(
            left[name].cast(right[name].type).equals(right[name])
            if name in left.column_names
            else right[name].null_count == right.num_rows
            for name in made.column_names
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False


def differing(there: Row, made: Row) -> str:
    """In words, the columns in which two rows differ; empty when they do not."""
    told = [
        f"{name} is {_shown(there.get(name))}, history gives {_shown(made[name])}"
        for name in made
        if plain(there.get(name)) != plain(made[name])
    ]
    more = f" and {len(told) - COLUMNS_TOLD_MAX} columns more"
    return ", ".join(told[:COLUMNS_TOLD_MAX]) + (more if len(told) > COLUMNS_TOLD_MAX else "")


def plain(value: Any) -> Any:
    """A value in the one shape in which both sides are compared: what a struct lacks is null, maps
    have no order, times are UTC.
    """
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        items = [plain(one) for one in value]
        if items and all(isinstance(one, tuple) and len(one) == 2 for one in value):
            return dict(items)
        return items
    return value


def _shown(value: Any) -> str:
    text = value.isoformat() if isinstance(value, datetime) else repr(value)
    return text if len(text) <= VALUE_CHARS_MAX else f"{text[:VALUE_CHARS_MAX]}…"


def runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending offsets as ranges, both ends included."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and offset <= found[-1][1] + 1:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found
