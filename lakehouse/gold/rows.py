"""All gold rows of one cluster from what happened to its sets.

Responsible for running every builder over the same changes, and for what a later run needs to go
on where this one stopped. Refuses to know where changes come from and who writes the rows.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse.gold import specs
from lakehouse.gold.acting_periods import acting_period_rows, acting_sets
from lakehouse.gold.availability import availability_rows
from lakehouse.gold.elections import election_rows, refused_rows
from lakehouse.gold.failovers import Events, at_risk_rows, failover_rows
from lakehouse.gold.fold import SetChange
from lakehouse.gold.history import broker_set_rows, history_rows
from lakehouse.gold.intervals import identity_rows, sync_state_set_rows, term_rows
from lakehouse.gold.majority_terms import led_groups, term_rows_of_groups
from lakehouse.gold.masterships import Mastership, masterships
from lakehouse.gold.spans import Row
from lakehouse.gold.specs import GOLD_BY_NAME

CHANGE_BUILDERS = {
    specs.BROKER_SETS.name: broker_set_rows,
    specs.ELECTIONS.name: election_rows,
    specs.REFUSED_COMMANDS.name: refused_rows,
}
SPAN_BUILDERS = {
    specs.BROKER_SET_HISTORY.name: history_rows,
    specs.SYNC_STATE_SET_INTERVALS.name: sync_state_set_rows,
    specs.CONTROLLER_TERMS.name: term_rows,
    specs.BROKER_IDENTITY.name: identity_rows,
}

OUTAGE_TABLES = (
    specs.FAILOVERS.name,
    specs.MESSAGES_AT_RISK.name,
    specs.AVAILABILITY.name,
    specs.ACTING_PERIODS.name,
    specs.MAJORITY_TERMS.name,
)
"""Tables of which every run gives all rows, because broker events come late."""


@dataclass(frozen=True)
class Carry:
    """What is kept of a cluster between two runs, beside its fold.

    It grows with masterships, not with commands: broker events come late, so failovers and what
    rests on them are made anew each time.
    """

    open_rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Name of table -> its rows that still hold."""
    masterships: Sequence[Mastership] = ()


def gold_rows(
    changes: Sequence[SetChange],
    events: Mapping[str, Events],
    until_ms: int,
    carry: Carry | None = None,
) -> tuple[dict[str, list[Row]], Carry]:
    """Rows to put in place by the key of each table, and the carry of the next run.

    `changes` are of one cluster and follow those that `carry` was made from; `events` are all
    broker events of the kinds that failovers and acting periods need, by cluster id; `until_ms` is
    how far history reaches, ms since 1970-01-01 UTC. In pieces or at once, the tables end up the
    same.
    """
    rows, carry = decided_rows(changes, Carry() if carry is None else carry)
    return {**rows, **outage_rows(carry.masterships, events, until_ms)}, carry


def decided_rows(
    changes: Sequence[SetChange], carry: Carry, wanted: Container[str] = GOLD_BY_NAME
) -> tuple[dict[str, list[Row]], Carry]:
    """The rows that rest on decisions alone, of the tables `wanted` by name, and the carry that
    goes with these tables.

    Masterships are in every carry.
    """
    rows = {name: build(changes) for name, build in CHANGE_BUILDERS.items() if name in wanted}
    still_open = {}
    for name, build in SPAN_BUILDERS.items():
        if name in wanted:
            before = carry.open_rows.get(name, ())
            rows[name] = build(changes, before)
            still_open[name] = _still_open(name, before, rows[name])
    return rows, Carry(still_open, masterships(changes, carry.masterships))


def outage_rows(
    found: Sequence[Mastership], events: Mapping[str, Events], until_ms: int
) -> dict[str, list[Row]]:
    """All rows of the tables in which clients' time is counted; broker events come late, so they
    are made of all masterships.
    """
    failovers = failover_rows(found, events)
    acting, terms = acting_period_rows(events), term_rows_of_groups(events)
    return {
        specs.FAILOVERS.name: failovers,
        specs.MESSAGES_AT_RISK.name: at_risk_rows(found, failovers),
        specs.AVAILABILITY.name: availability_rows(
            found,
            failovers,
            until_ms,
            acting_sets(events, acting, until_ms),
            led_groups(events, terms, until_ms),
        ),
        specs.ACTING_PERIODS.name: acting,
        specs.MAJORITY_TERMS.name: terms,
    }


def _still_open(name: str, before: Sequence[Row], touched: Sequence[Row]) -> list[Row]:
    key = GOLD_BY_NAME[name].key
    merged = {tuple(row[column] for column in key): row for row in (*before, *touched)}
    return [row for row in merged.values() if row["to_offset"] is None]
