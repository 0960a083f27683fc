"""What must be true of the rows of a table.

Responsible for the kinds of check and for saying which rows break them, one by one or by column.
The landing job runs them before it appends; a row that breaks one goes to `silver/unreadable`,
never to the floor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Present:
    """The column is not null."""

    column: str

    def broken_by(self, row: Row) -> bool:
        return row[self.column] is None

    def kept_by_all(self, values: pa.Array) -> bool:
        return values.null_count == 0

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

    def kept_by_all(self, values: pa.Array) -> bool:
        return _is_within(values, self.least, None)

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

    def kept_by_all(self, values: pa.Array) -> bool:
        within = values.items if pa.types.is_map(values.type) else values
        return _is_within(within, self.least, self.most)

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

    def kept_by_all(self, values: pa.Array) -> bool:
        lengths = pa.array(self.lengths, pa.int32())
        return _is_true(pc.is_in(pc.utf8_length(values.drop_null()), value_set=lengths))

    def __str__(self) -> str:
        return f"{self.column} is not {' or '.join(map(str, self.lengths))} characters long"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Every item of the list column is one of these."""

    column: str
    values: tuple[str, ...]

    def broken_by(self, row: Row) -> bool:
        return any(item not in self.values for item in row[self.column] or ())

    def kept_by_all(self, values: pa.Array) -> bool:
        return _is_true(pc.is_in(values.flatten(), value_set=pa.array(self.values, pa.string())))

    def __str__(self) -> str:
        return f"{self.column} holds something else than {', '.join(self.values)}"


Check = Present | AtLeast | Between | TextLength | OneOf


def first_broken(row: Row, checks: Sequence[Check]) -> Check | None:
    """The first check that the row breaks, None if it keeps them all."""
    return next((check for check in checks if check.broken_by(row)), None)


def broken_rows(check: Check, values: pa.Array) -> list[int]:
    """Places in its column of the rows that break the check. What all of them keep, as nearly
    always, costs no look at a single one.
    """
    if check.kept_by_all(values):
        return []
    column = check.column
    return [at for at, one in enumerate(values.to_pylist()) if check.broken_by({column: one})]


def _is_within(values: pa.Array, least: int, most: int | None) -> bool:
    found = pc.min_max(values).as_py()
    if found["min"] is None:
        return True
    return bool(found["min"] >= least and (most is None or found["max"] <= most))


def _is_true(mask: pa.Array) -> bool:
    # Of no values it is null.
    return pc.all(mask).as_py() is not False
