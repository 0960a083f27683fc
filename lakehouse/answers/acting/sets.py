"""Which sets have no controllers, or had none for a time, and who is in them, as far as broker
events tell.

Responsible for finding the events of such sets. Refuses to know what follows from them
(`gold.acting_periods`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.errors import NotLanded
from lakehouse.gold.acting_periods import (
    ACTING_KINDS,
    FIXED,
    OF_ALL_SETS,
    OF_SUCH_SETS,
    ActingSet,
    acting_sets,
    by_set,
    changeovers,
)
from lakehouse.gold.acting_story import Told
from lakehouse.tables.delta import Filters, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BY_NAME

NO_BROKER = -1


@dataclass(slots=True)
class KnownSet:
    """What was told of one, by whoever told it last. Times in ms since 1970-01-01 UTC."""

    since_ms: int
    """When it was heard of first."""
    until_ms: int
    """When it was heard of last."""
    broker_ids: set[int] = field(default_factory=set)
    """Every broker that ever reported something or was seen by a name server."""
    members: tuple[int, ...] = ()
    """Who was there when a name server saw other members last; empty when none told."""
    members_ms: int | None = None


def acting_set_names(lake: Lake) -> list[str]:
    """Of all sets without controllers that anything has landed of."""
    return sorted({row["broker_name"] for kind in OF_SUCH_SETS for row in _rows(lake, kind)})


def sets_without_controllers(lake: Lake, until_ms: int | None = None) -> list[str]:
    """The same, but for those that controllers had adopted by then (ms since 1970-01-01 UTC, None:
    now) and not released.
    """
    told = by_set({"place_changed": _whole_rows(lake, "place_changed", ())})
    adopted = set()
    for name, some in told.items():
        done = [one for one in changeovers(some) if until_ms is None or one.at_ms <= until_ms]
        if done and done[-1].row["kind"] != FIXED:
            adopted.add(name)
    return [name for name in acting_set_names(lake) if name not in adopted]


def is_acting_set(lake: Lake, broker_name: str) -> bool:
    """Whether it is, or was, such a set."""
    named: Filters = [("broker_name", "=", broker_name)]
    return any(_rows(lake, kind, named) for kind in OF_SUCH_SETS)


def known_set(lake: Lake, broker_name: str) -> KnownSet | None:
    """What was told of a set; None when nothing was that only such sets tell."""
    named: Filters = [("broker_name", "=", broker_name)]
    told = {kind: _rows(lake, kind, named) for kind in OF_SUCH_SETS}
    if not any(told.values()):
        return None
    told |= {kind: _rows(lake, kind, named) for kind in OF_ALL_SETS}
    rows = [row for some in told.values() for row in some]
    times = [row["at_ms"] for row in rows]
    broker_ids = {row["broker_id"] for row in rows} - {NO_BROKER}
    found = KnownSet(min(times), max(times), broker_ids)
    _note_members(found, told["member_group_seen"])
    return found


def told_of(lake: Lake, broker_name: str) -> list[Told]:
    """All that was told of a set, each event once, ascending by time; empty when nothing was that
    only such sets tell.
    """
    named: Filters = [("broker_name", "=", broker_name)]
    events = {kind: _whole_rows(lake, kind, named) for kind in ACTING_KINDS}
    return by_set(events).get(broker_name, [])


def acting_set_of(
    lake: Lake, told: Sequence[Told], periods: Iterable[Mapping[str, Any]], reach_ms: int
) -> ActingSet | None:
    """The set over time; None when its master was never heard of. `periods`: its rows of
    `gold/acting_periods`; `reach_ms`: how far history reaches.
    """
    if not told:
        return None
    events: dict[str, list[dict[str, Any]]] = {}
    for one in told:
        events.setdefault(one.kind, []).append(one.row)
    cluster_id = str(lake.cluster_id)
    rows = [{**row, "cluster_id": cluster_id} for row in periods]
    found = acting_sets({cluster_id: events}, rows, reach_ms)
    return found.get((cluster_id, told[0].row["broker_name"]))


def _note_members(found: KnownSet, rows: list[dict[str, Any]]) -> None:
    for row in sorted(rows, key=lambda one: (one["at_ms"], one["sequence"])):
        found.members = tuple(row["broker_ids"])
        found.members_ms = row["at_ms"]
        found.broker_ids |= set(found.members)


def _whole_rows(lake: Lake, kind: str, filters: Filters) -> list[dict[str, Any]]:
    try:
        return list(read(lake, BY_NAME[f"silver/{kind}"], filters=filters).to_pylist())
    except NotLanded:  # By an older release, which did not know the kind.
        return []


def _rows(lake: Lake, kind: str, filters: Filters = ()) -> list[dict[str, Any]]:
    columns = ["broker_name", "broker_id", "at_ms", "sequence"]
    if kind == "member_group_seen":
        columns.append("broker_ids")
    try:
        found = read(lake, BY_NAME[f"silver/{kind}"], columns=columns, filters=filters)
    except NotLanded:  # By an older release, which did not know the kind.
        return []
    return list(found.to_pylist())
