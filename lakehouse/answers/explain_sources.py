"""What is read to explain elections: of a history as long as it may be, only the rows that an
answer speaks of.

Responsible for which rows of which tables these are. An election is explained by what happened
between the election before it and the one after it: files and groups of rows that hold other
offsets and other times are not opened. Refuses to know what is made of them (`explain`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.answers.decisions import Row, command_times, decision_rows, require_set
from lakehouse.answers.explain_rows import Decisions, Events
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BY_NAME, CLOCK_SLACK_MS, ELECTIONS, EPOCH_COLUMNS

# Broker events are shown up to the next election, but not longer than this.
AFTERMATH_MS = 120_000
SOON = 10_000
"""Most sets are whole again within this many commands after an election; else all that follow are
read.
"""
OFFSET_MAX = 2**63 - 1
EVENTS_IN_TIME = (
    "ha_link_up",
    "slave_caught_up",
    "log_truncated",
    "broker_started",
    "requests_forwarded",
)

Filter = list[tuple[str, str, Any]]


@dataclass(frozen=True, slots=True)
class Sources:
    """Rows about one set, in the order of landing."""

    epochs: list[int]
    """All that elections began, whether asked for or not."""
    elections: list[Row] = field(default_factory=list)
    """Those asked for, with the one before and the one after that began an epoch."""
    commands: Mapping[int, Row] = field(default_factory=dict)
    """ElectMaster by its offset."""
    decisions: Decisions = field(default_factory=Decisions)
    """From the election before those asked for until the set was whole again."""
    events: Events = field(default_factory=Events)
    times: Mapping[int, int] = field(default_factory=dict)


def sources_of(lake: Lake, broker_name: str, epoch: int | None) -> Sources:
    """What explains the election that began `epoch`, or all elections of a set without one.

    Of an epoch that none began nothing but the known ones. Raises `NotLanded` for an unknown set.
    """
    here = [("broker_name", "=", broker_name)]
    known = decision_rows(lake, here, ELECTIONS, columns=("command_offset", "master_epoch"))
    if not known:
        require_set(lake, broker_name)
    epochs = [row["master_epoch"] for row in known if row["master_epoch"] is not None]
    if not known or epoch not in (None, *epochs):
        return Sources(epochs)
    if epoch is None:
        elections, decisions = decision_rows(lake, here, ELECTIONS), _decisions(lake, here)
        asked, commands, span_ms = elections, here, None
    else:
        elections, asked, decisions = _about_one(lake, here, known, epoch)
        commands, span_ms = (
            [*here, ("log_offset", "=", asked[0]["command_offset"])],
            _span_ms(asked[0]),
        )
    return Sources(
        epochs=epochs,
        elections=elections,
        commands={
            row["log_offset"]: row
            for row in read(lake, BY_NAME["silver/elect_master"], filters=commands).to_pylist()
        },
        decisions=decisions,
        events=_events(lake, here, epoch, span_ms),
        times=command_times(lake, [*elections, *_whole_again(asked, decisions)]),
    )


def _about_one(
    lake: Lake, here: Filter, known: Sequence[Row], epoch: int
) -> tuple[list[Row], list[Row], Decisions]:
    """The election that began `epoch` with its neighbours, the election alone, and the decisions
    that explain it.
    """
    won = [row for row in known if row["master_epoch"] is not None]
    at = next(at for at, row in enumerate(won) if row["master_epoch"] == epoch)
    first, last = (
        row["command_offset"] for row in (won[max(0, at - 1)], won[min(at + 1, len(won) - 1)])
    )
    elections = decision_rows(lake, [*here, *_between(first, last)], ELECTIONS)
    asked = [row for row in elections if row["master_epoch"] == epoch]
    begin = first if at else 0  # Without one before it, an imported set may tell of a master.
    ends = (last,) if at + 1 < len(won) else (last + SOON, OFFSET_MAX)
    decisions = Decisions()
    for end in ends:
        decisions = _decisions(lake, [*here, *_between(begin, end)])
        if decisions.whole_again(asked[0]) is not None:
            break
    return elections, asked, decisions


def _decisions(lake: Lake, which: Filter) -> Decisions:
    return Decisions(
        decision_rows(lake, which, columns=("command_offset", "changes", "published_at_ms"))
    )


def _between(first: int, last: int) -> Filter:
    """Both ends belong to it."""
    return [("command_offset", ">=", first), ("command_offset", "<=", last)]


def _span_ms(election: Row) -> tuple[int, int]:
    """When everything happened that belongs to an election, generously: its time in the log lies
    between its stamps and its answer.
    """
    stamps = [at_ms for _, at_ms in election["phases"]] + [election["published_at_ms"]]
    return min(stamps) - CLOCK_SLACK_MS - AFTERMATH_MS, max(stamps) + CLOCK_SLACK_MS + AFTERMATH_MS


def _events(lake: Lake, here: Filter, epoch: int | None, span_ms: tuple[int, int] | None) -> Events:
    of_epoch = (
        {}
        if epoch is None
        else {name: [(column, "=", epoch)] for name, column in EPOCH_COLUMNS.items()}
    )
    in_time = [] if span_ms is None else [("at_ms", ">=", span_ms[0]), ("at_ms", "<=", span_ms[1])]
    which = {
        **{name: [] for name in EPOCH_COLUMNS},
        **dict.fromkeys(EVENTS_IN_TIME, in_time),
        **of_epoch,
    }
    return Events(
        {
            name: read(lake, BY_NAME[f"silver/{name}"], filters=[*here, *more]).to_pylist()
            for name, more in which.items()
        }
    )


def _whole_again(elections: Sequence[Row], decisions: Decisions) -> list[Row]:
    found = (decisions.whole_again(row) for row in elections if row["master_epoch"] is not None)
    return [row for row in found if row is not None]
