"""Acting periods: when a slave acted for its master, in sets without controllers.

Responsible for `gold/acting_periods`, and for what availability counts of such sets. Refuses to
guess: what nobody reported is null, and an end that nobody told is the first sign of it, in those
words. Times of different machines are put side by side as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from lakehouse.gold.acting_story import (
    MASTER_ID,
    End,
    Period,
    Told,
    absences,
    departure,
    end_by_signs,
    phases_of,
    returned_ms,
)
from lakehouse.gold.spans import Row, union

OF_SUCH_SETS = (
    "acting_began",
    "acting_over",
    "min_broker_id_changed",
    "master_expelled",
    "pre_online_over",
    "pre_online_without_member",
    "escape_batch",
    "escape_waits",
    "lock_rounds",
    "member_group_seen",
    "acting_route_given",
    "acting_route_withdrawn",
    "place_changed",
)
"""Only sets without controllers, name servers of them, and sets that change over report these."""
OF_ALL_SETS = ("broker_started", "broker_stopped")
ACTING_KINDS = (*OF_SUCH_SETS, *OF_ALL_SETS)

FIXED = "fixed"
"""What `place_changed` calls a set that controllers released."""
CLOCK_JUMP_MS = 366 * 86_400_000
"""Events that stand further than this from all others are of a clock that was wrong."""

Events = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows of the silver tables of `ACTING_KINDS`, by the name of the table without its layer."""


def acting_period_rows(events: Mapping[str, Events]) -> list[Row]:
    """One row for each time that a slave acted; `events` are by cluster id."""
    return [
        row
        for (cluster_id, name), told in _by_key(events).items()
        for row in _rows_of_set(cluster_id, name, told)
    ]


def by_set(events: Events) -> dict[str, list[Told]]:
    """The events of each set without controllers, each once, ascending by time."""
    found: dict[bytes | str, Told] = {}
    names: set[str] = set()
    for kind in ACTING_KINDS:
        for row in events.get(kind, ()):
            found.setdefault(row["event_id"], Told(kind, dict(row)))
            if kind in OF_SUCH_SETS:
                names.add(row["broker_name"])
    told = [one for one in found.values() if one.row["broker_name"] in names]
    told.sort(key=lambda one: (one.row["broker_name"], *_order(one)))
    return {name: list(some) for name, some in groupby(told, lambda one: one.row["broker_name"])}


def _by_key(events: Mapping[str, Events]) -> dict[tuple[str, str], list[Told]]:
    """The same by cluster and name, ascending."""
    return {
        (cluster_id, name): told
        for cluster_id in sorted(events)
        for name, told in by_set(events[cluster_id]).items()
    }


def told_until_ms(events: Mapping[str, Events]) -> int:
    """When the newest of these events happened, ms since 1970-01-01 UTC; 0 without any."""
    return max(sane_times(_by_key(events).values()), default=0)


def _order(one: Told) -> tuple[int, str, int]:
    return one.at_ms, one.row["incarnation"], one.row["sequence"]


def sane_times(of_sets: Iterable[Sequence[Told]]) -> list[int]:
    """When all of it happened, ascending, without clocks that were wrong by more than a year: the
    most that hang together.
    """
    groups: list[list[int]] = []
    for at_ms in sorted(one.at_ms for told in of_sets for one in told):
        if groups and at_ms - groups[-1][-1] <= CLOCK_JUMP_MS:
            groups[-1].append(at_ms)
        else:
            groups.append([at_ms])
    return max(groups, key=len, default=[])


def _periods_of(told: Sequence[Told]) -> list[Period]:
    """The periods of a set, ascending by their beginnings."""
    starts: dict[tuple[int, str], list[Told]] = {}
    for one in told:
        starts.setdefault((one.row["broker_id"], one.row["incarnation"]), []).append(one)
    found: list[Period] = []
    for of_start in starts.values():
        found += _of_start(sorted(of_start, key=lambda one: int(one.row["sequence"])))
    found.sort(key=lambda one: (one.since_ms, one.broker_id))
    for period in found:
        if period.over is None:
            period.over = end_by_signs(period.broker_id, period.began, period.last_ms, told)
    return found


def _of_start(told: Iterable[Told]) -> Iterator[Period]:
    """What one start of a broker says, in the order in which it said it."""
    period: Period | None = None
    for one in told:
        if one.kind == "acting_began":
            if period is not None:
                yield period
            period = Period(one.row)
        if period is None:
            continue
        period.last_ms = max(period.last_ms, one.at_ms)
        if one.kind == "acting_over" and period.over is None:
            period.over = End(one.at_ms, _why_over(one.row))
        elif one.kind == "broker_stopped" and period.over is None:
            period.over = End(one.at_ms, f"the broker that acted was stopped ({one.row['reason']})")
        elif one.kind in ("escape_batch", "escape_waits", "lock_rounds"):
            # The last ones are told when it is over already.
            period.own.append(one)
    if period is not None:
        yield period


def _why_over(row: Row) -> str:
    smallest, address = row["min_broker_id"], row["min_address"] or "an address that nobody told"
    if smallest == MASTER_ID:
        return f"the master is back, at {address}"
    return f"broker {smallest}, a smaller id, is there, at {address}"


def _rows_of_set(cluster_id: str, name: str, told: Sequence[Told]) -> Iterator[Row]:
    periods = _periods_of(told)
    done: set[tuple[int, int]] = set()
    for at, period in enumerate(periods):
        if (period.broker_id, period.since_ms) in done:
            continue
        done.add((period.broker_id, period.since_ms))
        following = periods[at + 1].since_ms if at + 1 < len(periods) else None
        yield {"cluster_id": cluster_id, "broker_name": name, **_row(period, told, following)}


def _row(period: Period, told: Sequence[Told], following_ms: int | None) -> Row:
    since_ms, own = period.since_ms, period.own
    left = departure(period.broker_id, since_ms, told)
    back_ms = returned_ms(period, told)
    story = phases_of(period, told, left, back_ms, following_ms)
    escaped = _escaped(one for one in own if one.kind == "escape_batch")
    locks = [one.row for one in own if one.kind == "lock_rounds"]
    return {
        "broker_id": period.broker_id,
        "address": period.began["min_address"],
        "incarnation": period.began["incarnation"],
        "since_ms": since_ms,
        "until_ms": None if period.over is None else period.over.at_ms,
        "why_begun": story.why_begun,
        "why_over": None if period.over is None else period.over.why,
        "master_left_ms": None if left is None else left.at_ms,
        "master_back_ms": back_ms,
        "master_fenced": story.fenced,
        "left_out": story.left_out,
        "phases": story.phases,
        "routes": story.routes,
        "escaped": escaped,
        **{
            name: sum(one[name] for one in escaped)
            for name in ("messages", "soft", "failed", "size_bytes")
        },
        "waits": _waits(one for one in own if one.kind == "escape_waits"),
        "lock_rounds": sum(row["rounds"] for row in locks),
        "queues_lost": sum(row["queues_lost"] for row in locks),
    }


def _escaped(batches: Iterable[Told]) -> list[Row]:
    found: dict[tuple[str, str], Row] = {}
    for one in batches:
        row = one.row
        key = (row["kind"], row["to_broker_name"])
        sums = found.setdefault(
            key,
            {
                "kind": key[0],
                "to_broker_name": key[1],
                **dict.fromkeys(("messages", "soft", "failed", "size_bytes"), 0),
                "first_ms": one.at_ms - row["over_ms"],
                "last_ms": one.at_ms,
            },
        )
        for name in ("messages", "soft", "failed", "size_bytes"):
            sums[name] += row[name]
        sums["last_ms"] = max(sums["last_ms"], one.at_ms)
    return [found[key] for key in sorted(found)]


def _waits(told: Iterable[Told]) -> list[Row]:
    found: dict[str, Row] = {}
    for one in told:
        for reason, waiting in zip(one.row["reasons"], one.row["waiting"], strict=False):
            known = found.setdefault(
                reason, {"reason": reason, "waiting": 0, "first_ms": one.at_ms}
            )
            known["waiting"] = max(known["waiting"], waiting)
            known["last_ms"] = one.at_ms
    return [found[reason] for reason in sorted(found)]


# -- what availability counts ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ActingSet:
    """A set without controllers over time; stretches in ms since 1970-01-01 UTC, ends not in
    them.
    """

    since_ms: int
    """When its master was heard of first."""
    until_ms: int
    """How far what was told of such sets reaches."""
    masterless: tuple[tuple[int, int], ...]
    """Times without a master: nobody could write. Each moment once."""
    acting: tuple[tuple[int, int], ...]
    """Times in which a slave acted: clients could read."""
    fixed: tuple[tuple[int, int | None], ...] = ()
    """Times with fixed ids, by what was told of changeovers; an end of None was not told. Empty:
    from `since_ms` on.
    """


def acting_sets(
    events: Mapping[str, Events], rows: Iterable[Row], reach_ms: int = 0
) -> dict[tuple[str, str], ActingSet]:
    """By cluster and name; `rows` are those of `acting_period_rows`. `reach_ms`: how far history
    reaches by decisions, where there are any.
    """
    of_sets = _by_key(events)
    times = sane_times(of_sets.values())
    from_ms, until_ms = (times[0], max(times[-1], reach_ms)) if times else (0, 0)
    periods: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        periods.setdefault((row["cluster_id"], row["broker_name"]), []).append(row)
    found = {}
    for key, told in of_sets.items():
        heard = (one.at_ms for one in told if one.row["broker_id"] == MASTER_ID)
        first = next((at_ms for at_ms in heard if from_ms <= at_ms <= until_ms), None)
        if first is not None:
            own = periods.get(key, [])
            fixed = _fixed(first, [one for one in told if from_ms <= one.at_ms <= until_ms])
            away = [gap for stretch in fixed for gap in _away(told, *stretch)]
            found[key] = ActingSet(
                first,
                until_ms,
                tuple(
                    union(
                        (
                            *(masterless(row, until_ms) for row in own),
                            *((begin, _end(end, until_ms)) for begin, end in away),
                        )
                    )
                ),
                tuple((row["since_ms"], _end(row["until_ms"], until_ms)) for row in own),
                tuple(fixed),
            )
    return found


def _fixed(since_ms: int, told: Iterable[Told]) -> list[tuple[int, int | None]]:
    """The times with fixed ids: until controllers adopted the set, again from its release on."""
    found: list[tuple[int, int | None]] = []
    begin: int | None = since_ms
    for one in changeovers(told):
        if one.row["kind"] == FIXED:
            begin = one.at_ms if begin is None else begin
        elif begin is not None and begin < one.at_ms:
            found.append((begin, one.at_ms))
            begin = None
    return found if begin is None else [*found, (begin, None)]


def changeovers(told: Iterable[Told]) -> list[Told]:
    """One event of each changeover of a set, ascending. Replicas begin anew one after the other:
    the word of the master that gave up counts, or without it that of the first one.
    """
    found: dict[str, Told] = {}
    for one in told:
        if one.kind == "place_changed":
            known = found.setdefault(one.row["change"], one)
            if _is_leaders(one) and not _is_leaders(known):
                found[one.row["change"]] = one
    return sorted(found.values(), key=_order)


def _is_leaders(one: Told) -> bool:
    return bool(one.row["address"] == one.row["leader"])


def _away(told: Iterable[Told], from_ms: int, to_ms: int | None) -> list[tuple[int, int | None]]:
    """Absences of the master in a time with fixed ids."""
    inside = (one for one in told if from_ms <= one.at_ms and (to_ms is None or one.at_ms < to_ms))
    return absences(inside)


def masterless(row: Mapping[str, Any], until_ms: int) -> tuple[int, int]:
    """When nobody could write, by one period: up to `until_ms` while that lasts."""
    left_ms, back_ms = row["master_left_ms"], row["master_back_ms"]
    begin = row["since_ms"] if left_ms is None else min(left_ms, row["since_ms"])
    return begin, _end(back_ms, until_ms)  # who acted may be gone: that brings no master back


def _end(at_ms: int | None, until_ms: int) -> int:
    return until_ms if at_ms is None else at_ms
