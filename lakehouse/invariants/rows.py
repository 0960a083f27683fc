"""What invariants are asked about, and what they answer.

Responsible for the two kinds of row, for whom a row concerns and for the shape of a
counter-example.
Refuses to know any invariant.
"""

from __future__ import annotations

from msgspec import Struct

from events.broker_events import BrokerEvent
from events.changes import Change
from events.commands import Command
from events.outcomes import Outcome
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC

CLUSTER = ""
"""The subject of what concerns no single set."""


class Decided(Struct, frozen=True):
    """A record of the command log with its outcome; `command` is None when its bytes could not be
    read.
    """

    offset: int
    command: Command | None
    outcome: Outcome
    landed: bool = True
    """False: the command's own record is not there, only what was published of it."""


class Reported(Struct, frozen=True):
    """A record of the broker events."""

    partition: int
    offset: int
    event: BrokerEvent


Row = Decided | Reported


class CounterExample(Struct, frozen=True):
    """One row that breaks an invariant; partition and offset are those of its record in `topic`."""

    invariant: str
    broker_name: str
    """The set; empty when the row concerns the whole cluster."""
    topic: str
    partition: int
    offset: int
    said: str
    """What contradicts what, for people."""


class Breach(Struct, frozen=True):
    """What a step found; `at` is (partition, offset) of an earlier broker event when that one is to
    blame.
    """

    said: str
    at: tuple[int, int] | None = None


def subjects(row: Row) -> tuple[str, ...]:
    """The sets that a row concerns, ascending."""
    if isinstance(row, Reported):
        return (row.event.header.broker_name,)
    changes = row.outcome.changes
    if len(changes) == 1:
        name = getattr(changes[0], "broker_name", None)
        return (name,) if name else ()
    named = {getattr(change, "broker_name", None) for change in changes}
    return tuple(sorted(name for name in named if name))


def changes_of(row: Decided, subject: str) -> tuple[Change, ...]:
    """The changes of a decision that are about one set."""
    return tuple(c for c in row.outcome.changes if getattr(c, "broker_name", None) == subject)


def counter_example(invariant: str, subject: str, row: Row, breach: Breach) -> CounterExample:
    """The breach with the position of the row to blame."""
    if breach.at is not None:
        return CounterExample(invariant, subject, BROKER_EVENTS_TOPIC, *breach.at, breach.said)
    if isinstance(row, Reported):
        return CounterExample(
            invariant, subject, BROKER_EVENTS_TOPIC, row.partition, row.offset, breach.said
        )
    return CounterExample(invariant, subject, COMMANDS_TOPIC, 0, row.offset, breach.said)
