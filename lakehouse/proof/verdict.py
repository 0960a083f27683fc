"""What a proof of history found, as data and in words.

Responsible for the verdict and its text. Refuses to know how it came about.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from events.topics import COMMANDS_TOPIC
from lakehouse.proof.finding import Finding, offsets
from lakehouse.tables.specs import BRONZE

FINDINGS_SHOWN_MAX = 20
WHAT_TO_DO = (
    "'regent verify --kafka' says which records of bronze/records are not those of the log; put "
    "its files back from a copy, or land into a new folder; nothing behind that offset is proven "
    "meanwhile"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the comparison found; offsets are those of `regent.commands` unless said otherwise.

    `verified_up_to` is the last offset whose folded digest equals a published one: digests are
    chained, so this proves every command up to it. -1 proves nothing.
    """

    verified_up_to: int
    digest: str | None
    commands: int
    """Commands that were folded."""
    compared: int
    unproven: int
    """Folded commands above `verified_up_to` whose outcome has not landed yet."""
    from_offset: int = 0
    """Where this proof begins; what lies below was proven by an earlier one and was not looked
    at.
    """
    same_as_proven: int = 0
    """ Commands that were not folded again: they and what was published of them have, byte for
    byte, the names that were kept when they were proven.
    """
    ranges: int = 1
    """Stretches of history that were folded beside one another."""
    first_mismatch: int | None = None
    mismatches: int = 0
    publishers: list[str] = field(default_factory=list)
    unreadable: int = 0
    """Commands that the fold refused unread; they are part of history."""
    missing: list[list[int]] = field(default_factory=list)
    """Ranges of offsets, both ends included, that are not in bronze."""
    problems: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """What is not what it was, or not what another witness says."""
    notices: list[str] = field(default_factory=list)
    """What a reader should know, and is not wrong."""
    spark: bool = False
    """Whether Spark folded."""
    source: str = BRONZE.name
    """Where the commands are from."""
    what_to_do: str = WHAT_TO_DO
    """About commands and outcomes that are not what was decided."""
    not_kept: str | None = None
    """Why this proof could not be kept for the next one."""

    @property
    def exit_code(self) -> int:
        """0 when all that was published is proven, else 1."""
        wrong = self.first_mismatch is not None or self.problems or self.missing or self.findings
        return 1 if wrong or self.verified_up_to < 0 else 0

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**dataclasses.asdict(self), "exit_code": self.exit_code}

    def text(self) -> str:
        """For people; the first line is the verdict."""
        lines = [self._headline()]
        lines += [f"  {one.text()}" for one in self.findings[:FINDINGS_SHOWN_MAX]]
        if len(self.findings) > FINDINGS_SHOWN_MAX:
            lines.append(
                f"  {len(self.findings) - FINDINGS_SHOWN_MAX} more findings: --json has all"
            )
        lines += [
            f"  missing in {self.source}: {COMMANDS_TOPIC}-0 {offsets(first, last)}"
            for first, last in self.missing
        ]
        lines += [f"  {problem}" for problem in self.problems]
        if self.first_mismatch is not None or self.missing:
            lines.append(f"  what to do: {self.what_to_do}")
        lines += [f"  {notice}" for notice in self.notices]
        if self.from_offset:
            lines.append(
                f"  commands below offset {self.from_offset} were proven earlier and not looked at"
            )
        if self.same_as_proven:
            lines.append(
                f"  {self.same_as_proven} commands are byte for byte what was proven earlier; "
                "--from-start folds them again"
            )
        if self.unreadable and self.first_mismatch is None:
            lines.append(f"  {self.unreadable} commands were refused unread, as published")
        if self.unproven:
            lines.append(f"  {self.unproven} commands are folded, their outcomes have not landed")
        if self.not_kept:
            lines.append(
                f"  the next proof must fold this again, it could not be kept: {self.not_kept}"
            )
        return "\n".join(lines)

    def _headline(self) -> str:
        if self.first_mismatch is not None:
            return (
                f"NOT VERIFIED: history differs from what was published at offset "
                f"{self.first_mismatch}; equal up to {self.verified_up_to}"
            )
        if self.exit_code:
            return f"NOT VERIFIED: equal up to offset {self.verified_up_to}"
        publishers = f" by {', '.join(self.publishers)}" if self.publishers else ""
        beside = f" in {self.ranges} ranges" if self.ranges > 1 else ""
        where = " in Spark" if self.spark else ""
        return (
            f"verified up to offset {self.verified_up_to}: {self.commands} commands folded"
            f"{where}{beside}, {self.compared} digests published{publishers} are equal, last "
            f"{str(self.digest)[:16]}…"
        )
