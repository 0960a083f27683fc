"""What must be true of the rows of a table.

Responsible for the kinds of check and for saying which rows break them. The landing job runs
them before it appends; a row that breaks one goes to `silver/unreadable`, never to the floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Present:
    """The column is not null."""

    column: str

    def broken_by(self, row: Row) -> bool:
        return row[self.column] is None

    def __str__(self) -> str:
        return f"{self.column} is missing"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The column is null or not below a least value."""

    column: str
    least: int

    def broken_by(self, row: Row) -> bool:
        value = row[self.column]
        return value is not None and value < self.least

    def __str__(self) -> str:
        return f"{self.column} is below {self.least}"


@dataclass(frozen=True, slots=True)
class Between:
    """The column is null or within these bounds, both included; of a map, each of its values."""

    column: str
    least: int
    most: int

    def broken_by(self, row: Row) -> bool:
        value = row[self.column]
        if value is None:
            return False
        values = (value,) if isinstance(value, int) else dict(value).values()
        return not all(self.least <= one <= self.most for one in values)

    def __str__(self) -> str:
        return f"{self.column} is not between {self.least} and {self.most}"


@dataclass(frozen=True, slots=True)
class TextLength:
    """The column is null or a text of one of these lengths."""

    column: str
    lengths: tuple[int, ...]

    def broken_by(self, row: Row) -> bool:
        value = row[self.column]
        return value is not None and len(value) not in self.lengths

    def __str__(self) -> str:
        return f"{self.column} is not {' or '.join(map(str, self.lengths))} characters long"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Every item of the list column is one of these."""

    column: str
    values: tuple[str, ...]

    def broken_by(self, row: Row) -> bool:
        return any(item not in self.values for item in row[self.column] or ())

    def __str__(self) -> str:
        return f"{self.column} holds something else than {', '.join(self.values)}"


Check = Present | AtLeast | Between | TextLength | OneOf


def first_broken(row: Row, checks: Sequence[Check]) -> Check | None:
    """The first check that the row breaks, None if it keeps them all."""
    return next((check for check in checks if check.broken_by(row)), None)
