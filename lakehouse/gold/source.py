"""What gold is made from, piece by piece: landed commands with what was published of them, and
broker events.

Responsible for where a piece ends, and for noticing an outcome that came late. A command counts
once an outcome of it or of a later one has landed too, so that it never depends on the moment of a
run what its rows say. Refuses to know what rows are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.gold.acting_periods import ACTING_KINDS, OF_ALL_SETS, OF_SUCH_SETS
from lakehouse.gold.failovers import EVENT_KINDS, Events
from lakehouse.gold.fold import Published, Record, published_of
from lakehouse.gold.majority_terms import OF_GROUPS
from lakehouse.gold.progress import NOTHING_TAKEN, Taken
from lakehouse.tables.delta import Filters, count_rows, milliseconds, open_table, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.row_checks import first_broken
from lakehouse.tables.specs import BRONZE, BY_NAME, DECISIONS

EVENT_TABLES = tuple(
    BY_NAME[f"silver/{kind}"] for kind in (*EVENT_KINDS, *ACTING_KINDS, *OF_GROUPS)
)
OF_SOME_SETS = (*OF_SUCH_SETS, *OF_GROUPS)
"""Kinds that say of their set that nobody decides about it."""
PUBLISHED_COLUMNS = (
    "command_offset",
    "log_offset",
    "digest",
    "publisher",
    "published_at_ms",
    "phases",
)


@dataclass(frozen=True, slots=True)
class Piece:
    """Some commands in the order of the log, without a hole, each with what was published of it."""

    records: list[Record]
    published: Mapping[int, Published]
    taken: Taken
    """What was read of the outcomes of these commands."""


class Decisions:
    """What was published, as of one moment: that of opening the table.

    All that is asked of it speaks of that moment, whatever lands meanwhile.
    Raises `NotLanded`, `LakehouseError`.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake, self._opened = lake, open_table(lake, DECISIONS)
        self._last: int | None = None

    def last(self, after: int) -> int | None:
        """Highest command offset above `after` of which an outcome has landed, None without one."""
        if self._last is None or self._last <= after:
            self._last = _highest(
                self._read(["command_offset"], [("command_offset", ">", after)])["command_offset"]
            )
        return self._last

    def rows(self, after: int, last: int) -> list[dict[str, Any]]:
        """The outcomes of commands behind `after`, up to and with `last`, by their places in the
        log.
        """
        return self._read(
            PUBLISHED_COLUMNS, [("command_offset", ">", after), ("command_offset", "<=", last)]
        ).to_pylist()

    def agrees(self, offset: int, taken: Taken | None) -> tuple[bool, Taken | None]:
        """Whether the outcomes of commands up to `offset` that count are still those that were
        `taken`, and what is there now.

        Rows are only ever added, so as many as before are the same ones, and that costs no reading
        of them. More of them may be repeats, which a new leader publishes: these do not count.
        """
        behind = self._read(["command_offset"], [("command_offset", ">", offset)]).num_rows
        there = count_rows(self._lake, DECISIONS, self._opened) - behind
        if taken is not None and there == taken.rows:
            return True, taken
        found = self._read(["command_offset", "log_offset"], [("command_offset", "<=", offset)])
        now = taken_of(
            zip(found["command_offset"].to_pylist(), found["log_offset"].to_pylist(), strict=True)
        )
        return taken is not None and (now.commands, now.places) == (
            taken.commands,
            taken.places,
        ), now

    def _read(self, columns: Sequence[str], filters: Filters) -> pa.Table:
        return read(self._lake, DECISIONS, columns=columns, filters=filters, opened=self._opened)


def taken_of(outcomes: Iterable[tuple[int, int]]) -> Taken:
    """What outcomes were taken: command offset and place in the log of each, by their places."""
    first: dict[int, int] = {}
    rows = 0
    for rows, (command, place) in enumerate(outcomes, 1):
        first.setdefault(command, place)
    return Taken(rows, len(first), sum(first.values()))


def next_piece(lake: Lake, decisions: Decisions, after: int, count_max: int) -> Piece:
    """The commands behind offset `after`, at most `count_max`; none when nothing more is there yet.

    A command counts once an outcome of it or of a later one has landed. Where that is, is asked of
    the very `decisions` that outcomes are read from: of two moments, the later one would count
    commands whose outcomes the earlier one does not have. Raises `LakehouseError` when the very
    next command is missing although later ones have landed.
    """
    ahead = decisions.last(after)
    if ahead is None:
        return Piece([], {}, NOTHING_TAKEN)
    records = _without_hole(_commands(lake, after, min(ahead, after + count_max)), after)
    rows = decisions.rows(after, records[-1][0]) if records else []
    return Piece(
        records,
        published_of(rows),
        taken_of((row["command_offset"], row["log_offset"]) for row in rows),
    )


def last_landed(lake: Lake, after: int) -> int | None:
    """Highest offset above `after` of a landed command, None without one."""
    filters = [("topic", "=", COMMANDS_TOPIC), ("offset", ">", after)]
    return _highest(read(lake, BRONZE, columns=["offset"], filters=filters)["offset"])


def _highest(offsets: pa.ChunkedArray) -> int | None:
    last = pc.max(offsets).as_py()
    return None if last is None else int(last)


class BrokerEvents:
    """All broker events that failovers, acting periods and terms of groups rest on, as of one
    moment: that of opening their tables, at the first question.

    A table of a kind that an older release did not know is missing; it comes with the next landing.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def count(self) -> int:
        """How many have landed; these tables only grow."""
        return sum(
            count_rows(self._lake, table, self._opened[table.name])
            for table in EVENT_TABLES
            if table.name in self._opened
        )

    def versions(self) -> tuple[int, ...]:
        """Which commit of each table is the last one; -1 for a missing table."""
        return tuple(
            self._opened[table.name].version() if table.name in self._opened else -1
            for table in EVENT_TABLES
        )

    @cached_property
    def rows(self) -> dict[str, Events]:
        """The events as `failover_rows`, `acting_period_rows` and `term_rows_of_groups` want
        them.
        """
        found = {kind: self._rows(kind) for kind in (*EVENT_KINDS, *OF_SOME_SETS)}
        names = sorted({row["broker_name"] for kind in OF_SOME_SETS for row in found[kind]})
        of_them: Filters = [("broker_name", "in", names)]
        found |= {kind: self._rows(kind, of_them) if names else [] for kind in OF_ALL_SETS}
        return {str(self._lake.cluster_id): found}

    @cached_property
    def _opened(self) -> dict[str, deltalake.DeltaTable]:
        found = {}
        for table in EVENT_TABLES:
            with suppress(NotLanded):
                found[table.name] = open_table(self._lake, table)
        return found

    def _rows(self, kind: str, filters: Filters = ()) -> list[dict[str, Any]]:
        """Without rows that landed before their table asked what it asks now: times that no clock
        has would end every run.
        """
        table = BY_NAME[f"silver/{kind}"]
        opened = self._opened.get(table.name)
        if opened is None:
            return []
        rows = read(self._lake, table, filters=filters, opened=opened).to_pylist()
        return [row for row in rows if first_broken(row, table.checks) is None]


def versions(lake: Lake, events: BrokerEvents) -> tuple[int, ...]:
    """Which commits of the tables read here are the last ones: while they stay, nothing is new."""
    always = tuple(open_table(lake, table).version() for table in (BRONZE, DECISIONS))
    return always + events.versions()


def _commands(lake: Lake, after: int, last: int) -> list[Record]:
    filters = [
        ("topic", "=", COMMANDS_TOPIC),
        ("partition", "=", 0),
        ("offset", ">", after),
        ("offset", "<=", last),
    ]
    rows = read(lake, BRONZE, columns=["offset", "timestamp", "value"], filters=filters)
    columns = (
        rows["offset"].to_pylist(),
        milliseconds(rows["timestamp"]),
        rows["value"].to_pylist(),
    )
    return list(zip(*columns, strict=True))


def _without_hole(records: list[Record], after: int) -> list[Record]:
    found: list[Record] = []
    for record in records:
        expected = after + 1 + len(found)
        if record[0] == expected:
            found.append(record)
        elif record[0] > expected:
            if not found:
                raise LakehouseError(
                    f"command {expected} never landed: gold ends before it, see 'regent lake check'"
                )
            break
    return found
