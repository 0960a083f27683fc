"""One thing that is wrong with a lake: which table, which records, what is wrong and what to do.

Refuses to know how it was found.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """Offsets are those of the topic's partition, both included."""

    table: str
    topic: str
    partition: int
    first: int
    last: int
    said: str
    what_to_do: str

    def text(self) -> str:
        """One line for people."""
        which = offsets(self.first, self.last)
        return (
            f"{self.table}, {self.topic}-{self.partition} {which}: {self.said}; {self.what_to_do}"
        )

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def offsets(first: int, last: int) -> str:
    """`offset 7`, or `offsets 7 to 9`."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"
