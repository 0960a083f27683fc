"""
The check of all that has landed: no hole in offsets, no broken invariant. Without Spark.

Responsible for giving bronze as rows to the invariants and for the report. Judges by what controllers published;
whether that is what the commands give is `verify`'s question. Refuses to know an invariant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow.compute as pc

from events import codec
from events.broker_events import BROKER_EVENTS
from events.commands import COMMANDS
from events.outcomes import Outcome
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.bronze_log import BronzeLog, LandedRecord
from lakehouse.delta_tables import read
from lakehouse.invariant_rows import CounterExample, Decided, Reported, Row
from lakehouse.invariants import BY_NAME, INVARIANTS, Watch
from lakehouse.lake import Lake
from lakehouse.landing import KEPT_FOR_EVER
from lakehouse.tables import BRONZE

COUNTER_EXAMPLES_SHOWN_MAX = 100


@dataclass(slots=True)
class Report:
    """What was found; offsets are those of the topics."""

    decisions: int = 0
    broker_events: int = 0
    unreadable: int = 0
    """Outcomes and broker events whose bytes this release cannot read; they are not judged."""
    gaps: list[dict[str, Any]] = field(default_factory=list)
    """`topic`, `partition`, `first`, `last`, both ends included."""
    violations: dict[str, int] = field(default_factory=dict)
    """Invariant -> how often it is broken; only those that are."""
    counter_examples: list[CounterExample] = field(default_factory=list)
    """The first of them, at most COUNTER_EXAMPLES_SHOWN_MAX."""
    ahead: int = 0
    """Outcomes that landed before their commands: the landing job is behind, or commands were taken away at the end."""

    @property
    def exit_code(self) -> int:
        """1 when something is missing or broken, else 0."""
        return 1 if self.gaps or self.violations else 0

    def as_dict(self) -> dict[str, Any]:
        """For `--json`; with the explanation of each invariant."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        found["counter_examples"] = msgspec.to_builtins(self.counter_examples)
        found["invariants"] = {one.name: one.explanation for one in INVARIANTS}
        return {**found, "exit_code": self.exit_code}

    def text(self) -> str:
        """One line for each thing found, the verdict first."""
        counted = f"{self.decisions} decisions and {self.broker_events} broker events, {len(INVARIANTS)} invariants"
        lines = [f"{'NOT SOUND' if self.exit_code else 'sound'}: {counted}"]
        lines += [f"  gap: {gap['topic']}-{gap['partition']} offsets {gap['first']} to {gap['last']} never landed" for gap in self.gaps]
        for name, count in self.violations.items():
            lines.append(f"  {name} is broken {count} times: {BY_NAME[name].explanation}")
            lines += [f"    {_line(one)}" for one in self.counter_examples if one.invariant == name]
        if self.ahead:
            lines.append(f"  {self.ahead} outcomes landed before their commands")
        if self.unreadable:
            lines.append(f"  {self.unreadable} records cannot be read by this release and were not judged")
        return "\n".join(lines)


def check(lake: Lake) -> Report:
    """Read all that has landed and judge it. Raises `NotLanded`, `LakehouseError` when bronze cannot be read."""
    report, watch = Report(), Watch()
    commands, outcomes = BronzeLog(lake, COMMANDS_TOPIC), BronzeLog(lake, OUTCOMES_TOPIC)
    events = {number: BronzeLog(lake, BROKER_EVENTS_TOPIC, number) for number in _partitions(lake)}
    _add_gaps(report, COMMANDS_TOPIC, 0, commands)
    _add_gaps(report, OUTCOMES_TOPIC, 0, outcomes)
    for row in decided_rows(commands, outcomes, report):
        _note(report, watch, row)
    for number, log in events.items():
        _add_gaps(report, BROKER_EVENTS_TOPIC, number, log)
        for row in reported_rows(number, log, report):
            _note(report, watch, row)
    return report


def decided_rows(commands: BronzeLog, outcomes: BronzeLog, report: Report) -> Iterator[Decided]:
    """Commands with what was first published of them, ascending; counts into the report."""
    landed = commands.landed()
    command: LandedRecord | None = next(landed, None)
    judged = -1
    for record in outcomes.landed():
        outcome = _decoded(record.value)
        if not isinstance(outcome, Outcome):
            report.unreadable += 1
            continue
        if outcome.command_offset <= judged:
            continue  # A repeat after a change of leader.
        judged = outcome.command_offset
        while command is not None and command.offset < judged:
            command = next(landed, None)
        there = command is not None and command.offset == judged
        read_command = _decoded(command.value) if there and command is not None else None
        report.decisions += 1
        report.ahead += judged >= commands.end
        yield Decided(judged, read_command if type(read_command) in COMMANDS else None, outcome, there)


def reported_rows(partition: int, log: BronzeLog, report: Report) -> Iterator[Reported]:
    """Broker events of a partition, ascending; counts into the report."""
    for record in log.landed():
        event = _decoded(record.value)
        if type(event) not in BROKER_EVENTS:
            report.unreadable += 1
            continue
        report.broker_events += 1
        yield Reported(partition, record.offset, event)


def _note(report: Report, watch: Watch, row: Row) -> None:
    for example in watch.note(row):
        report.violations[example.invariant] = report.violations.get(example.invariant, 0) + 1
        if len(report.counter_examples) < COUNTER_EXAMPLES_SHOWN_MAX:
            report.counter_examples.append(example)


def _add_gaps(report: Report, topic: str, partition: int, log: BronzeLog) -> None:
    """What is kept for ever begins at 0; of other topics the log may have dropped the beginning."""
    report.gaps += [
        {"topic": topic, "partition": partition, "first": first, "last": last}
        for first, last in log.holes
        if first > 0 or topic in KEPT_FOR_EVER
    ]


def _partitions(lake: Lake) -> list[int]:
    found = read(lake, BRONZE, columns=["partition"], filters=[("topic", "=", BROKER_EVENTS_TOPIC)])
    return sorted(pc.unique(found["partition"]).to_pylist())


def _decoded(value: bytes | None) -> Any:
    try:
        return codec.decode(value or b"")
    except codec.CodecError:
        return None


def _line(example: CounterExample) -> str:
    subject = f"{example.broker_name}: " if example.broker_name else ""
    return f"{example.topic}-{example.partition} offset {example.offset}: {subject}{example.said}"
