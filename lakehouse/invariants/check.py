"""The check of all that has landed: no hole in offsets, no broken invariant. Without Spark.

Responsible for giving bronze as rows to the invariants, from where the last check ended, and for
what is kept for the next one. It judges everything anew when what it had judged is not there as it
was: a hole that was filled or made, an end that lies lower. Judges by what controllers published;
whether that is what the commands give is `verify`'s question.
Refuses to know an invariant.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from events import codec
from events.broker_events import BROKER_EVENTS
from events.commands import COMMANDS
from events.outcomes import Outcome
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, KEPT_FOR_EVER, OUTCOMES_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.invariants import kept
from lakehouse.invariants.alarms import (
    Alarm,
    merged,
    of_commands_ahead,
    of_doubled,
    of_example,
    of_gap,
    of_shortened,
)
from lakehouse.invariants.invariants import Watch, carried_from_json, carried_to_json
from lakehouse.invariants.kept import Checked
from lakehouse.invariants.lengths import AHEAD_MAX_MS, Witness, Witnesses, shortened
from lakehouse.invariants.report import Report, standing
from lakehouse.invariants.rows import Decided, Reported, Row
from lakehouse.tables.bronze_log import BronzeLog, LandedRecord, all_logs
from lakehouse.tables.delta import milliseconds, read
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import Losses, read_losses
from lakehouse.tables.specs import BRONZE

VIOLATIONS_KEPT_MAX = 1_000
"""Of one check; those above it are counted only."""
COMMAND_LOG, OUTCOME_LOG = f"{COMMANDS_TOPIC}-0", f"{OUTCOMES_TOPIC}-0"

Logs = Mapping[str, BronzeLog]
"""The partitions that have landed, by `topic-partition`."""


def standing_alarms(lake: Lake) -> list[Alarm]:
    """What the checks found wrong with the lake's cluster and nobody has put right. Raises
    `LakehouseError`.
    """
    return standing(kept.alarms(lake))


def check(
    lake: Lake,
    *,
    from_start: bool = False,
    now_ms: int | None = None,
    witnesses: Witnesses | None = None,
) -> Report:
    """Judge what has landed since the last check, or all of it, and keep how far it came.

    `witnesses` are asked whether bronze reaches as far as it did; without them the check's own
    memory is. Raises `NotLanded`, `LakehouseError` when bronze cannot be read.
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    reached = kept.reached(lake)
    logs, noted = _logs(lake), read_losses(lake)
    before = None if from_start else kept.last_check(lake)
    if before is not None and not _is_as_it_was(before, logs):
        before = None
    step = _Step(before or Checked(), logs)
    step.run()
    report = step.report
    found = [
        *step.alarms,
        *_gaps(logs, noted),
        *_gone(lake, step, logs[COMMAND_LOG].end, now_ms),
        *_shortened(logs, reached, witnesses, noted, now_ms),
        *_doubled(logs),
    ]
    then = kept.alarms(lake)
    alarms = merged(then, found, now_ms, judged_anew=before is None)
    report.alarms = standing(alarms)
    report.losses = noted.missing(
        {_place(name): (log.holes, log.end) for name, log in logs.items()}
    )
    if lake.cluster_id is None:
        return report  # Nothing has landed yet.
    try:
        if alarms != then:
            kept.keep_alarms(lake, alarms)
        checked = structs.replace(step.checked, reached=_farthest(reached, logs))
        if checked != before:
            kept.keep_check(lake, checked, now_ms)
    except LakehouseError as error:  # Read access to the lake is enough for a check.
        report.not_kept = str(error)
    return report


class _Step:
    """One check, from where the last one ended."""

    def __init__(self, before: Checked, logs: Logs) -> None:
        self._logs, self._before = logs, before
        self._watch = Watch(carried=carried_from_json(before.carried))
        self._violations = dict(before.violations)
        self._marks = dict(before.marks)
        self._judged = before.judged
        self.report = Report(before.decisions, before.broker_events, unreadable=before.unreadable)
        self.alarms: list[Alarm] = []
        self.first_ahead: int | None = None
        """Offset, in the outcomes, of the first one whose command has not landed."""
        self.last_ahead = -1
        """The last command that has not landed though its outcome has."""

    def run(self) -> None:
        """Decisions first: then less of what brokers say has to wait."""
        for decided in self._decided(self._logs[COMMAND_LOG], self._logs[OUTCOME_LOG]):
            self._note(decided)
        for name, log in self._logs.items():
            if name not in (COMMAND_LOG, OUTCOME_LOG):
                for reported in self._reported(name, log):
                    self._note(reported)
        self.report.violations = self._violations

    @property
    def checked(self) -> Checked:
        """How far it came."""
        report = self.report
        return Checked(
            self._marks,
            _holes_below(self._logs, self._marks),
            self._judged,
            report.decisions,
            report.broker_events,
            report.unreadable,
            self._violations,
            carried_to_json(self._watch.carried),
        )

    def _decided(self, commands: BronzeLog, outcomes: BronzeLog) -> Iterator[Decided]:
        """Commands with what was first published of them, ascending, up to the first whose command
        has not landed.
        """
        landed = commands.landed(self._judged + 1)
        command: LandedRecord | None = next(landed, None)
        newest = commands.end - 1
        for record in outcomes.landed(self._marks.get(OUTCOME_LOG, 0)):
            outcome = decoded(record.value)
            at = outcome.command_offset if isinstance(outcome, Outcome) else -1
            if at > newest:
                self.report.ahead, newest = self.report.ahead + 1, at
                self.last_ahead = at
                self.first_ahead = record.offset if self.first_ahead is None else self.first_ahead
            if self.first_ahead is not None:
                continue
            self._marks[OUTCOME_LOG] = record.offset + 1
            self.report.unreadable += not isinstance(outcome, Outcome)
            if at <= self._judged:
                continue  # No outcome, or a repeat after a change of leader.
            self._judged = at
            while command is not None and command.offset < at:
                command = next(landed, None)
            there = command is not None and command.offset == at
            read_command = decoded(command.value) if there and command is not None else None
            self.report.decisions += 1
            yield Decided(
                at, read_command if type(read_command) in COMMANDS else None, outcome, there
            )
        self._marks[COMMAND_LOG] = self._judged + 1

    def _reported(self, name: str, log: BronzeLog) -> Iterator[Reported]:
        """Broker events of a partition, ascending."""
        partition = int(name.rpartition("-")[2])
        for record in log.landed(self._marks.get(name, 0)):
            event = decoded(record.value)
            self._marks[name] = record.offset + 1
            if type(event) not in BROKER_EVENTS:
                self.report.unreadable += 1
                continue
            self.report.broker_events += 1
            yield Reported(partition, record.offset, event)

    def _note(self, row: Row) -> None:
        self.report.judged_now += 1
        for example in self._watch.note(row):
            self._violations[example.invariant] = self._violations.get(example.invariant, 0) + 1
            if len(self.alarms) < VIOLATIONS_KEPT_MAX:
                self.alarms.append(of_example(example))


def _logs(lake: Lake) -> Logs:
    landed = all_logs(lake)
    events = (place for place in landed if place[0] == BROKER_EVENTS_TOPIC)
    places = ((COMMANDS_TOPIC, 0), (OUTCOMES_TOPIC, 0), *events)
    return {
        f"{topic}-{partition}": landed.get((topic, partition)) or BronzeLog(lake, topic, partition)
        for topic, partition in places
    }


def _is_as_it_was(before: Checked, logs: Logs) -> bool:
    """Whether what was judged is still there, with the same holes in it."""
    there = all(name in logs and logs[name].end >= mark for name, mark in before.marks.items())
    return there and _holes_below(logs, before.marks) == before.holes


def _holes_below(logs: Logs, marks: Mapping[str, int]) -> dict[str, list[tuple[int, int]]]:
    """What is missing of what was judged; both ends included."""
    found = {
        name: [hole for hole in _holes(name, log) if hole[0] < marks.get(name, 0)]
        for name, log in logs.items()
    }
    return {name: holes for name, holes in found.items() if holes}


def _holes(name: str, log: BronzeLog) -> list[tuple[int, int]]:
    """What is kept for ever begins at 0; of other topics the log may have dropped the beginning."""
    for_ever = name.rpartition("-")[0] in KEPT_FOR_EVER
    return [hole for hole in log.holes if hole[0] > 0 or for_ever]


def _gaps(logs: Logs, noted: Losses) -> Iterable[Alarm]:
    """But for what is noted as lost."""
    for name, log in logs.items():
        for hole in _holes(name, log):
            for first, last in noted.left_of(_place(name), *hole):
                yield of_gap(*_place(name), first, last)


def _gone(lake: Lake, step: _Step, commands_end: int, now_ms: int) -> Iterable[Alarm]:
    """Commands that are missing behind the end, once what they led to has been there for long."""
    if step.first_ahead is None:
        return
    place = [
        ("topic", "=", OUTCOMES_TOPIC),
        ("partition", "=", 0),
        ("offset", "=", step.first_ahead),
    ]
    landed_ms = milliseconds(read(lake, BRONZE, columns=["landed_at"], filters=place)["landed_at"])
    if any(at is None or now_ms - at > AHEAD_MAX_MS for at in landed_ms):
        yield of_commands_ahead(COMMANDS_TOPIC, commands_end, step.last_ahead)


def _shortened(
    logs: Logs, reached: Mapping[str, int], witnesses: Witnesses | None, noted: Losses, now_ms: int
) -> Iterable[Alarm]:
    """Partitions that went further once."""
    ends = {_place(name): log.end for name, log in logs.items()}
    asked = [Witness(*_place(name), end, kept.CHECKED.name) for name, end in reached.items()]
    if witnesses is not None:
        asked += [*witnesses.remembered, *witnesses.beyond(noted.behind_ends(ends))]
    return map(of_shortened, shortened(asked, ends, now_ms))


def _doubled(logs: Logs) -> Iterable[Alarm]:
    return (of_doubled(*_place(name), log.doubled) for name, log in logs.items() if log.doubled)


def _farthest(reached: Mapping[str, int], logs: Logs) -> dict[str, int]:
    ends = {name: log.end for name, log in logs.items() if log.end}
    return {
        name: max(reached.get(name, 0), ends.get(name, 0)) for name in sorted({*reached, *ends})
    }


def _place(name: str) -> Partition:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def decoded(value: bytes | None) -> Any:
    """The record, None when this release cannot read it."""
    try:
        return codec.decode(value or b"")
    except codec.CodecError:
        return None
