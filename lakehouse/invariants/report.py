"""What a check of all that has landed found, as data and in words.

Refuses to know how it was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import asdict

from lakehouse import wording
from lakehouse.invariants.alarms import AHEAD, DOUBLED, GAP, SHORT, VIOLATION, Alarm
from lakehouse.invariants.invariants import BY_NAME, INVARIANTS
from lakehouse.tables.losses import Loss
from lakehouse.tables.specs import BRONZE

ALARMS_SHOWN_MAX = 100
LABELS: Mapping[str, str] = {GAP: "gap", AHEAD: "gone", SHORT: "gone", DOUBLED: "twice"}
WHAT_TO_DO: Mapping[str, str] = {
    GAP: (
        "'regent status' says whether landing still goes on, 'regent verify' whether a file is "
        "damaged: put it back from a copy"
    ),
    AHEAD: "see whether the landing job runs ('regent status'): what Kafka has lands",
    SHORT: (
        "put files and commits back from a copy, or start the landing job without its checkpoint "
        "folder: what Kafka still has lands again"
    ),
    DOUBLED: (
        "see that one landing job writes these tables; 'regent verify' says what else is not what "
        "it was; put the files back from a copy"
    ),
    VIOLATION: "'regent verify' says whether these records are what was decided",
}
"""What to do about each kind of alarm."""


@dataclass(slots=True)
class Report:
    """What stands after a check; offsets are those of the topics."""

    decisions: int = 0
    """Judged in all."""
    broker_events: int = 0
    """Judged in all."""
    judged_now: int = 0
    """Decisions and broker events that this check has looked at; the others were judged by earlier
    ones.
    """
    unreadable: int = 0
    """Outcomes and broker events whose bytes this release cannot read; they are not judged."""
    violations: dict[str, int] = field(default_factory=dict)
    """Invariant -> how often it is broken; only those that are."""
    alarms: list[Alarm] = field(default_factory=list)
    """Those that stand, by the time they were first seen."""
    losses: list[Loss] = field(default_factory=list)
    """What was gone from the log before it landed, and is noted: no alarm, and missing for good."""
    ahead: int = 0
    """Commands that are missing behind the end though what they led to has landed: they are on
    their way, or were taken away.
    """
    not_kept: str | None = None
    """Why the next check must judge this again."""

    @property
    def exit_code(self) -> int:
        """1 while an alarm stands, else 0."""
        return 1 if self.alarms else 0

    @property
    def gaps(self) -> list[dict[str, Any]]:
        """`topic`, `partition`, `first`, `last`, both ends included."""
        return [
            {
                "topic": one.topic,
                "partition": one.partition,
                "first": one.offset,
                "last": one.last_offset,
            }
            for one in self.alarms
            if one.alarm == GAP
        ]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`; with the explanation of each invariant."""
        found: dict[str, Any] = {
            name: getattr(self, name) for name in self.__slots__ if name not in ("alarms", "losses")
        }
        shown = [one.as_dict() for one in self.alarms[:ALARMS_SHOWN_MAX]]
        invariants = {one.name: one.explanation for one in INVARIANTS}
        return {
            **found,
            "alarms_standing": len(self.alarms),
            "alarms": shown,
            "gaps": self.gaps,
            "losses": [asdict(one) for one in self.losses[:ALARMS_SHOWN_MAX]],
            "losses_noted": len(self.losses),
            "invariants": invariants,
            "exit_code": self.exit_code,
        }

    def text(self) -> str:
        """One line for each thing found, the verdict first."""
        counted = (
            f"{self.decisions} decisions and {self.broker_events} broker events, {len(INVARIANTS)} "
            "invariants"
        )
        lines = [f"{'NOT SOUND' if self.exit_code else 'sound'}: {counted}"]
        if self.judged_now < self.decisions + self.broker_events:
            lines.append(
                f"  {self.judged_now} of them are new since the last check; --from-start judges "
                "all of them again"
            )
        shown = self.alarms[:ALARMS_SHOWN_MAX]
        for one in shown:
            if one.alarm in LABELS:
                why = f": {one.explanation}" if one.alarm == AHEAD else ""
                place = f"{BRONZE.name}, {one.topic}-{one.partition}"
                lines.append(f"  {LABELS[one.alarm]}: {place} {one.said}{why}")
        for name, count in self.violations.items():
            lines.append(f"  {name} is broken {count} times: {BY_NAME[name].explanation}")
            lines += [
                f"    {_line(one)}"
                for one in shown
                if one.alarm == VIOLATION and one.invariant == name
            ]
        lines += [
            f"  what to do: {WHAT_TO_DO[kind]}"
            for kind in sorted({one.alarm for one in shown} & {*WHAT_TO_DO})
        ]
        if len(self.alarms) > len(shown):
            lines.append(f"  {len(self.alarms) - len(shown)} more alarms stand in gold/alarms")
        lines += [f"  noted loss: {one.said}" for one in self.losses[:ALARMS_SHOWN_MAX]]
        if len(self.losses) > ALARMS_SHOWN_MAX:
            lines.append(
                f"  {len(self.losses) - ALARMS_SHOWN_MAX} more losses are noted in bronze/losses"
            )
        if self.ahead and all(one.alarm != AHEAD for one in self.alarms):
            lines.append(
                f"  {self.ahead} commands are still on their way, what they led to has landed"
            )
        if self.unreadable:
            lines.append(
                f"  {self.unreadable} records cannot be read by this release and were not judged"
            )
        if self.not_kept:
            lines.append(
                f"  the next check must judge this again, it could not be kept: {self.not_kept}"
            )
        return "\n".join(lines)


def _line(alarm: Alarm) -> str:
    subject = f"{alarm.broker_name}: " if alarm.broker_name else ""
    seen = f" (first seen {wording.moment(alarm.first_seen_ms)} UTC)"
    return f"{alarm.topic}-{alarm.partition} offset {alarm.offset}: {subject}{alarm.said}{seen}"


def standing(alarms: Iterable[Alarm]) -> list[Alarm]:
    """Those that nobody has put right yet."""
    return [one for one in alarms if one.stands]
