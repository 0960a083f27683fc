"""What is wrong with history as a whole, as rows that stand until it is put right.

Responsible for the table `gold/alarms`, for what an alarm is and for which ones stand after a
check.
Refuses to know how anything was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from lakehouse.invariants.invariants import BY_NAME
from lakehouse.invariants.lengths import Shortened
from lakehouse.invariants.rows import CounterExample
from lakehouse.tables.columns import Column
from lakehouse.tables.specs import CLUSTER, CLUSTER_ID, TABLE_PROPERTIES, TIMESTAMP, TableSpec

GAP, VIOLATION, AHEAD = "GAP", "VIOLATION", "AHEAD"
SHORT, DOUBLED = "SHORT", "DOUBLED"

OFFSETS_TOLD_MAX = 5

EXPLANATIONS: Mapping[str, str] = {
    "nothing_is_missing": (
        "Every offset below the last landed one has landed; topics that are kept for ever begin "
        "at 0."
    ),
    "commands_land_with_their_outcomes": (
        "A command lies in bronze soon after its outcome does: else the end of the command log "
        "was taken away from the tables, or the landing job stopped between the two."
    ),
    "the_end_stays": (
        "Bronze reaches as far as everything in the lake that remembers its end: earlier checks "
        "and proofs, gold and silver."
    ),
    "a_record_lands_once": "Each record of the log is one row of bronze.",
    **{name: one.explanation for name, one in BY_NAME.items()},
}

ALARMS = TableSpec(
    name="gold/alarms",
    meaning=(
        "What `regent lake check` and the landing job found wrong: gaps in what landed, broken "
        "invariants, records that are missing behind the end or landed twice. A row without "
        "`cleared_at` stands."
    ),
    columns=(
        CLUSTER,
        Column("alarm", pa.string(), f"{GAP}, {VIOLATION}, {AHEAD}, {SHORT} or {DOUBLED}."),
        Column("invariant", pa.string(), "What does not hold."),
        Column("explanation", pa.string(), "What it says."),
        Column("topic", pa.string(), "Topic of the record to blame."),
        Column("partition", pa.int32(), "Its partition."),
        Column("offset", pa.int64(), "Its offset; of a gap the first one that is missing."),
        Column(
            "last_offset", pa.int64(), "Of a gap the last offset that is missing; else the same."
        ),
        Column(
            "broker_name", pa.string(), "The broker set; empty when it concerns the whole cluster."
        ),
        Column("said", pa.string(), "What contradicts what, for people."),
        Column("first_seen_at", TIMESTAMP, "When a check found it first."),
        Column(
            "cleared_at",
            TIMESTAMP,
            "When a check found that it is gone; null while it stands.",
            nullable=True,
        ),
    ),
    key=(
        CLUSTER_ID,
        "invariant",
        "topic",
        "partition",
        "offset",
        "broker_name",
        "said",
        "first_seen_at",
    ),
    partition_column="partition",
    offset_column="offset",
    properties={**TABLE_PROPERTIES, "delta.appendOnly": "false"},
)


class Alarm(Struct, frozen=True):
    """One thing that is wrong; times are ms since 1970-01-01 UTC."""

    alarm: str
    invariant: str
    topic: str
    partition: int
    offset: int
    last_offset: int
    said: str
    broker_name: str = ""
    first_seen_ms: int = 0
    cleared_ms: int | None = None

    @property
    def stands(self) -> bool:
        """Whether nobody has put it right yet."""
        return self.cleared_ms is None

    @property
    def explanation(self) -> str:
        """What the invariant says; empty for one of another release."""
        return EXPLANATIONS.get(self.invariant, "")

    def as_dict(self) -> dict[str, Any]:
        """For documents."""
        return {name: getattr(self, name) for name in (*self.__struct_fields__, "explanation")}


def of_gap(topic: str, partition: int, first: int, last: int) -> Alarm:
    """Offsets, both included, that never landed."""
    said = f"offsets {first} to {last} never landed"
    return Alarm(GAP, "nothing_is_missing", topic, partition, first, last, said)


def of_example(example: CounterExample) -> Alarm:
    """A row that breaks an invariant."""
    place = (example.topic, example.partition, example.offset, example.offset)
    return Alarm(VIOLATION, example.invariant, *place, example.said, example.broker_name)


def of_commands_ahead(topic: str, first: int, last: int) -> Alarm:
    """Outcomes of these commands have landed for a while, the commands have not."""
    said = f"what commands {first} to {last} led to has landed, they have not"
    return Alarm(AHEAD, "commands_land_with_their_outcomes", topic, 0, first, last, said)


def of_shortened(one: Shortened) -> Alarm:
    """The end of a partition is gone."""
    place = (one.topic, one.partition, one.end, one.was - 1)
    return Alarm(SHORT, "the_end_stays", *place, one.said)


def of_doubled(topic: str, partition: int, doubled: Sequence[int]) -> Alarm:
    """These offsets, ascending and at least one, landed more than once."""
    few = ", ".join(map(str, doubled[:OFFSETS_TOLD_MAX]))
    more = (
        "" if len(doubled) <= OFFSETS_TOLD_MAX else f" and {len(doubled) - OFFSETS_TOLD_MAX} more"
    )
    said = f"offsets {few}{more} landed twice"
    place = (topic, partition, doubled[0], doubled[-1])
    return Alarm(DOUBLED, "a_record_lands_once", *place, said)


def merged(
    before: Iterable[Alarm], found: Iterable[Alarm], now_ms: int, *, judged_anew: bool
) -> list[Alarm]:
    """The alarms after a check that found these. Gaps and missing commands are looked for each
    time, violations only in what is new, unless everything was `judged_anew`: what is looked for
    and not found any more is cleared.
    """
    then, kept = {_key(alarm): alarm for alarm in found}, []
    for alarm in before:
        again = then.pop(_key(alarm), None) if alarm.stands else None
        looked_for = alarm.alarm != VIOLATION or judged_anew
        kept.append(
            replace(alarm, cleared_ms=now_ms)
            if alarm.stands and again is None and looked_for
            else alarm
        )
    return [*kept, *(replace(alarm, first_seen_ms=now_ms) for alarm in then.values())]


def _key(alarm: Alarm) -> tuple[object, ...]:
    return (
        alarm.invariant,
        alarm.topic,
        alarm.partition,
        alarm.offset,
        alarm.last_offset,
        alarm.broker_name,
        alarm.said,
    )
