"""Rows of gold tables without Spark, and up to where they speak.

Responsible for saying how far gold is behind what has landed: gold is made every some seconds, and
a reader must know what the answer leaves out. Refuses to know what a table is about, and to fold
anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse import wording
from lakehouse.errors import NotLanded
from lakehouse.gold import source
from lakehouse.gold.progress import Mark, read_mark
from lakehouse.gold.specs import GOLD_BY_NAME
from lakehouse.tables.delta import Filters, read
from lakehouse.tables.lake import Lake

WAY_OUT = "run `regent lake gold`, or set gold_every_s of the landing job"


@dataclass(frozen=True, slots=True)
class Standing:
    """Up to where the gold tables of a cluster speak, and what has landed beyond."""

    mark: Mark
    commands_behind: int
    """Commands that have landed and are not in the tables."""
    unpublished: int
    """Of these, the last ones: no outcome of them has landed, so gold waits for it."""
    events_behind: int
    """Broker events that failovers and acting periods rest on, landed and not in the tables."""
    is_folded_anew: bool
    """Whether the next run folds all of it anew: an outcome came after commands behind it had been
    taken in.
    """

    @property
    def is_fresh(self) -> bool:
        """Whether the tables hold all that has landed."""
        return not (self.commands_behind or self.events_behind or self.is_folded_anew)

    def as_dict(self) -> dict[str, Any]:
        """For `--json`; times in ms since 1970-01-01 UTC."""
        return {
            "offset": self.mark.offset,
            "at_ms": self.mark.at_ms,
            "fresh": self.is_fresh,
            "commands_behind": self.commands_behind,
            "unpublished": self.unpublished,
            "events_behind": self.events_behind,
            "folded_anew": self.is_folded_anew,
        }

    def text(self) -> str:
        """One line for people."""
        if self.mark.offset < 0:
            until = "gold speaks of no command yet"
        else:
            until = (
                f"gold speaks up to command {self.mark.offset} of "
                f"{wording.moment(self.mark.at_ms)} UTC"
            )
        if self.is_fresh:
            return f"{until}, nothing more has landed"
        waits = f" ({self.unpublished} of them without an outcome yet)" if self.unpublished else ""
        late = (
            (", and outcomes that came late: all of it is folded anew")
            if self.is_folded_anew
            else ""
        )
        return (
            f"{until}; {self.commands_behind} commands{waits} and {self.events_behind} broker "
            f"events have landed since{late}"
        )


@dataclass(frozen=True, slots=True)
class GoldRows:
    """Rows of one gold table with their standing.

    Unless it is fresh, single rows may already know more than the standing says: tables are merged
    one after the other.
    """

    rows: pa.Table
    standing: Standing


def read_gold(
    lake: Lake, name: str, *, columns: Sequence[str] | None = None, filters: Filters = ()
) -> GoldRows:
    """The cluster's rows of a gold table such as `gold/failovers`, by offset.

    Raises `NotLanded` when gold was never made of this cluster, `LakehouseError` when it cannot be
    read.
    """
    before = _mark(lake)
    rows = read(lake, GOLD_BY_NAME[name], columns=columns, filters=filters)
    standing = gold_standing(lake)
    # A run that ended meanwhile made these rows old: then the older word is the honest one.
    return GoldRows(rows, standing if standing.mark == before else _beyond(lake, before))


def gold_standing(lake: Lake) -> Standing:
    """Up to where gold speaks. Raises `NotLanded` when it was never made of this cluster."""
    return _beyond(lake, _mark(lake))


def _mark(lake: Lake) -> Mark:
    mark = read_mark(lake)
    if mark is None:
        raise NotLanded(
            f"no gold tables of cluster {lake.cluster_id or '(none)'} in {lake.root}: {WAY_OUT}"
        )
    return mark


def _beyond(lake: Lake, mark: Mark) -> Standing:
    landed = source.last_landed(lake, mark.offset)
    decisions = source.Decisions(lake)
    published = decisions.last(mark.offset)
    behind = 0 if landed is None else landed - mark.offset
    decided = min(behind, 0 if published is None else published - mark.offset)
    events = max(0, source.BrokerEvents(lake).count() - mark.event_rows)
    return Standing(
        mark, behind, behind - decided, events, not decisions.agrees(mark.offset, mark.taken)[0]
    )
