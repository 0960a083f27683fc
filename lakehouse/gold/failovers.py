"""Failovers: what lies between two masterships, as decisions and broker events tell it.

Responsible for `gold/failovers` and `gold/messages_at_risk`. Refuses to guess: what no broker
reported is null. Times of different machines are put side by side as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from events.outcomes import LABEL_AT_RISK, LABEL_UNCLEAN
from lakehouse.gold.masterships import Mastership, successions
from lakehouse.gold.spans import Row
from lakehouse.tables.specs import CLOCK_SLACK_MS, EPOCH_COLUMNS

UNKNOWN = -1
LONG_MAX = 2**63 - 1
EVENT_KINDS = (*EPOCH_COLUMNS, "log_truncated")

Events = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows of the silver tables of `EVENT_KINDS`, by the name of the table without its layer."""


@dataclass(frozen=True, slots=True)
class _SetEvents:
    """The events of one set, found without looking through those of its other epochs."""

    first: dict[tuple[str, int, int], Row] = field(default_factory=dict)
    """By kind, broker and epoch: the earliest by which that broker speaks of that epoch."""
    truncated: list[Row] = field(default_factory=list)
    """Ascending by time."""


NO_EVENTS = _SetEvents()


def failover_rows(found: Iterable[Mastership], events: Mapping[str, Events]) -> list[Row]:
    """One row for each mastership that followed another one; `events` are by cluster id.

    The first mastership of a set is none, and none is what follows after all its replicas were
    cleaned.
    """
    pairs = list(successions(found))
    ends_ms = _ends_ms([new for _, new in pairs])
    by_set = {cluster_id: _by_set(rows) for cluster_id, rows in events.items()}
    rows = []
    for old, new in pairs:
        own = by_set.get(new.cluster_id, {}).get(new.broker_name, NO_EVENTS)
        rows.append(_row(old, new, own, ends_ms.get((*new.set_key, new.epoch))))
    return rows


def at_risk_rows(found: Iterable[Mastership], failovers: Iterable[Row]) -> list[Row]:
    """One row for each mastership whose election said that acknowledged messages may be missing."""
    cut = {
        (row["cluster_id"], row["broker_name"], row["new_epoch"]): row["truncated_bytes"]
        for row in failovers
    }
    return [
        _at_risk(one, cut.get((*one.set_key, one.epoch), 0))
        for one in found
        if LABEL_AT_RISK in one.labels
    ]


def _ends_ms(masterships: Sequence[Mastership]) -> dict[tuple[str, str, int], int]:
    """Until when broker events belong to a failover: up to the next one of its set."""
    by_set: dict[tuple[str, str], list[Mastership]] = {}
    for one in masterships:
        by_set.setdefault(one.set_key, []).append(one)
    return {
        (*one.set_key, one.epoch): following.at_ms - CLOCK_SLACK_MS
        for of_set in by_set.values()
        for one, following in pairwise(of_set)
    }


def _by_set(events: Events) -> dict[str, _SetEvents]:
    """The events of each set of one controller's cluster, one for each event id.

    Brokers' own cluster name says nothing here: a set keeps the one that it began with.
    """
    found: dict[str, _SetEvents] = {}
    for kind in EVENT_KINDS:
        once = {row["event_id"]: row for row in reversed(events.get(kind, ()))}
        for row in sorted(once.values(), key=lambda one: (one["at_ms"], one["event_id"])):
            of_set = found.setdefault(row["broker_name"], _SetEvents())
            if kind in EPOCH_COLUMNS:
                of_set.first.setdefault(
                    (kind, row["broker_id"], row[EPOCH_COLUMNS[kind]]), dict(row)
                )
            else:
                of_set.truncated.append(dict(row))
    return found


def _row(old: Mastership, new: Mastership, events: _SetEvents, end_ms: int | None) -> Row:
    role, durable, acknowledged = (
        events.first.get((kind, new.master, new.epoch)) for kind in EPOCH_COLUMNS
    )
    last_ms = (
        None if durable is None or durable["last_store_ms"] == UNKNOWN else durable["last_store_ms"]
    )
    first_ms = None if acknowledged is None else acknowledged["at_ms"]
    truncations = _truncations(events.truncated, new.at_ms - CLOCK_SLACK_MS, end_ms)
    return {
        "cluster_id": new.cluster_id,
        "broker_name": new.broker_name,
        "new_epoch": new.epoch,
        "offset": new.offset,
        "at_ms": new.at_ms,
        "cause": new.cause,
        "labels": list(new.labels),
        "old_epoch": old.epoch,
        "old_master": old.master,
        "new_master": new.master,
        "masterless_ms": new.at_ms - (new.at_ms if old.end_ms is None else old.end_ms),
        "last_message_ms": last_ms,
        "first_acknowledged_ms": first_ms,
        "unavailable_ms": None
        if last_ms is None or first_ms is None
        else max(0, first_ms - last_ms),
        "phases": _phases(new, role, durable, acknowledged),
        "truncations": truncations,
        "truncated_bytes": _held_by_a_column(
            sum(one["from_offset"] - one["to_offset"] for one in truncations)
        ),
    }


def _phases(
    new: Mastership, role: Row | None, durable: Row | None, acknowledged: Row | None
) -> list[Row]:
    stamps = [(at_ms, name) for name, at_ms in new.phases.items()]
    for row, name in (
        (role, "master role taken"),
        (durable, "epoch durable"),
        (acknowledged, "first message acknowledged"),
    ):
        if row is not None:
            stamps.append((row["at_ms"], name))
    stamps.sort()
    before_ms = stamps[0][0] if stamps else 0
    phases = []
    for at_ms, name in stamps:
        phases.append({"phase": name, "at_ms": at_ms, "took_ms": at_ms - before_ms})
        before_ms = at_ms
    return phases


def _truncations(rows: Sequence[Row], from_ms: int, end_ms: int | None) -> list[Row]:
    names = ("broker_id", "from_offset", "to_offset", "at_ms", "reason")
    begin = bisect_left(rows, from_ms, key=_at_ms)
    end = len(rows) if end_ms is None else bisect_left(rows, end_ms, key=_at_ms)
    return [{name: row[name] for name in names} for row in rows[begin:end]]


def _held_by_a_column(count: int) -> int:
    """What brokers say may be anything, and a number too large would end every run."""
    return max(0, min(count, LONG_MAX))


def _at_ms(row: Row) -> int:
    return int(row["at_ms"])


def _at_risk(one: Mastership, truncated_bytes: int) -> Row:
    known = {e.broker_id: e.max_offset for e in one.evidence if e.max_offset > UNKNOWN}
    winner, highest = known.get(one.master), max(known.values(), default=None)
    return {
        "cluster_id": one.cluster_id,
        "broker_name": one.broker_name,
        "master_epoch": one.epoch,
        "offset": one.offset,
        "at_ms": one.at_ms,
        "reason": LABEL_UNCLEAN if LABEL_UNCLEAN in one.labels else LABEL_AT_RISK,
        "new_master": one.master,
        "winner_offset": winner,
        "highest_offset": highest,
        "behind_bytes": None if winner is None or highest is None else highest - winner,
        "truncated_bytes": truncated_bytes,
    }
