"""Why an acting period began and ended, and what happened in it, from what brokers and name servers
reported.

Responsible for signs: who left and who says so, an end that the acting broker could not tell, the
master's return. Refuses to know tables, and what left the set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse import wording
from lakehouse.gold.spans import Row
from lakehouse.tables.specs import CLOCK_SLACK_MS

MASTER_ID = 0
WAS_SILENT = "it was silent"
"""Why a name server dropped a broker that it had not heard for too long (PROTOCOL 4.20)."""
BEFORE_MS = 120_000
"""A broker that left longer before than this is not why a slave began to act: name servers wait for
less.
"""


class End(NamedTuple):
    """When a period was over, and why."""

    at_ms: int
    why: str


class Left(NamedTuple):
    """A broker with a smaller id left: when, which one, by whose word."""

    at_ms: int
    broker_id: int
    why: str


class Told(NamedTuple):
    """One event of a set: its kind, as the silver table is named, and its row."""

    kind: str
    row: Row

    @property
    def at_ms(self) -> int:
        """By the clock of whoever reported it."""
        return int(self.row["at_ms"])


@dataclass(slots=True)
class Period:
    """One, from the events of the start of the broker that acted."""

    began: Row
    over: End | None = None
    last_ms: int = 0
    """When that start was heard of last."""
    own: list[Told] = field(default_factory=list)
    """What it reported of this period, in order."""

    @property
    def broker_id(self) -> int:
        """Of the broker that acted."""
        return int(self.began["broker_id"])

    @property
    def since_ms(self) -> int:
        """When it began."""
        return int(self.began["at_ms"])


@dataclass(frozen=True, slots=True)
class Story:
    """What is told of a period beside its counts."""

    why_begun: str
    phases: list[Row]
    routes: list[Row]
    fenced: bool
    left_out: list[int]


def departure(acting_id: int, since_ms: int, told: Sequence[Told]) -> Left | None:
    """Who left, so that the slave has the smallest id: the first word of the last one to leave."""
    found: list[Left] = []
    for one in told:
        if since_ms - BEFORE_MS <= one.at_ms <= since_ms + CLOCK_SLACK_MS:
            found += [left for left in _departures(one) if left.broker_id < acting_id]
    found = [left for left in found if not _came_back(left, since_ms, told)]
    if not found:
        return None
    smallest_last = max(found).broker_id
    of_it = [left for left in found if left.broker_id == smallest_last]
    first = min(of_it)
    # A broker that was stopped says so itself; name servers only see that it went.
    stopped = next((one for one in of_it if "was stopped" in one.why), first)
    return Left(first.at_ms, first.broker_id, stopped.why)


def _departures(one: Told) -> Iterator[Left]:
    row = one.row
    if one.kind == "broker_stopped":
        yield Left(one.at_ms, row["broker_id"], f"was stopped ({row['reason']})")
    if one.kind == "member_group_seen":
        whys = zip(row["left_ids"], row["left_why"], _silences(row), strict=False)
        for broker_id, why, silent_ms in whys:
            lasted = f" for {wording.duration(silent_ms)}" if silent_ms else ""
            said = f"left: {why}{lasted} (name server {row['name_server']})"
            yield Left(one.at_ms - silent_ms, broker_id, said)


def _silences(row: Row) -> list[int]:
    """For how long each that left had not been heard when it was dropped, ms: one that stands still
    serves nobody from its last word on, not only from when that is noticed. One whose connection
    was closed or that took its leave was there until then. Nothing is known by an older release.
    """
    told = row.get("left_silent_ms") or [0] * len(row["left_ids"])
    return [ms if why == WAS_SILENT else 0 for ms, why in zip(told, row["left_why"], strict=False)]


def _came_back(left: Left, since_ms: int, told: Iterable[Told]) -> bool:
    """It was there again before the slave began. A process that starts anew is not there before it
    is online, for as long as a slave may begin to act; only one that never tells its way back
    (skip_pre_online) is there when it starts.
    """
    own = [one for one in told if one.row["broker_id"] == left.broker_id]
    ways = {one.kind for one in own if one.kind in ("broker_started", "pre_online_over")}
    back = "pre_online_over" if "pre_online_over" in ways else "broker_started"
    return any(one.kind == back and left.at_ms < one.at_ms < since_ms for one in own)


def end_by_signs(broker_id: int, began: Row, last_ms: int, told: Iterable[Told]) -> End | None:
    """The end of a period that the acting broker did not tell: the first sign of it after that
    start was heard of last; None while there is none.
    """
    for one in told:
        if one.at_ms < last_ms or one.row["incarnation"] == began["incarnation"]:
            continue
        row = one.row
        if one.kind == "member_group_seen" and broker_id in row["left_ids"]:
            why = row["left_why"][row["left_ids"].index(broker_id)]
            return End(
                one.at_ms, f"the broker that acted left: {why} (name server {row['name_server']})"
            )
        if one.kind == "acting_began" and row["broker_id"] != broker_id:
            return End(one.at_ms, f"broker {row['broker_id']} acts; the one before told no end")
        if one.kind == "broker_started" and row["broker_id"] == broker_id:
            return End(one.at_ms, "the broker that acted started anew; when it ended nobody told")
        if one.kind == "pre_online_over" and row["broker_id"] == MASTER_ID:
            return End(one.at_ms, "the master is online again; the one that acted told no end")
    return None


def absences(told: Iterable[Told]) -> list[tuple[int, int | None]]:
    """When the master of a set was away by what was told, whether a slave acted or not: from when
    to when, ms; None while it lasts. `told`: of a time with fixed ids, ascending.

    It is gone when it says so, and when no name server that listed it does so any more; it is back
    when it is online, or somebody finds it there. One that starts anew though nobody told its end
    is away from that start on: it died earlier, and nobody knows when.
    """
    told = list(told)
    tells_way_back = any(
        one.kind == "pre_online_over" and one.row["broker_id"] == MASTER_ID for one in told
    )
    watch = _Watch(tells_way_back)
    for one in told:
        watch.take(one)
    return watch.over()


class _Watch:
    """Who says that the master is there, event after event. `tells_way_back`: a start of it is not
    yet its return.
    """

    def __init__(self, tells_way_back: bool) -> None:
        self._tells_way_back = tells_way_back
        self._found: list[tuple[int, int | None]] = []
        self._lists: set[str] = set()
        self._since_ms: int | None = None
        self._has_started = self._said_so = False

    def over(self) -> list[tuple[int, int | None]]:
        """All of them, the last one perhaps open."""
        lasts = [] if self._since_ms is None else [(self._since_ms, None)]
        return [*self._found, *lasts]

    def take(self, one: Told) -> None:
        if one.kind == "member_group_seen":
            self._seen(one)
        elif one.row["broker_id"] == MASTER_ID and one.kind == "broker_stopped":
            self._said_so = True
            self._leaves(one.at_ms)
        elif one.row["broker_id"] == MASTER_ID and one.kind == "broker_started":
            self._starts(one.at_ms)
        elif _has_master(one) and (one.row["broker_id"] == MASTER_ID or not self._said_so):
            self._returns(one.at_ms)

    def _seen(self, one: Told) -> None:
        name, here = one.row["name_server"], MASTER_ID in one.row["broker_ids"]
        if here:
            self._lists.add(name)
        else:
            self._lists.discard(name)
        left = next((left for left in _departures(one) if left.broker_id == MASTER_ID), None)
        if here and not self._said_so:
            self._returns(one.at_ms)
        elif left is not None and not here:
            if not self._lists:
                self._said_so = False  # all have noticed: what they see from now on counts
                self._leaves(left.at_ms)

    def _starts(self, at_ms: int) -> None:
        self._said_so = False
        if self._has_started:
            self._leaves(at_ms)
        self._has_started = True
        if not self._tells_way_back:
            self._returns(at_ms)

    def _leaves(self, at_ms: int) -> None:
        self._since_ms = at_ms if self._since_ms is None else self._since_ms

    def _returns(self, at_ms: int) -> None:
        if self._since_ms is not None:
            self._found.append((self._since_ms, max(self._since_ms, at_ms)))
            self._since_ms = None


def returned_ms(period: Period, told: Iterable[Told]) -> int | None:
    """When the master was online again: its own word, or whoever finds it there first."""
    return next(
        (one.at_ms for one in told if one.at_ms >= period.since_ms and _has_master(one)), None
    )


def _has_master(one: Told) -> bool:
    if one.kind in ("pre_online_over", "acting_over"):
        return bool(one.row["min_broker_id"] == MASTER_ID)
    return one.kind == "member_group_seen" and MASTER_ID in one.row["broker_ids"]


def phases_of(
    period: Period,
    told: Sequence[Told],
    left: Left | None,
    back_ms: int | None,
    following_ms: int | None,
) -> Story:
    """The story of a period: what happened from the departure until the master was back, or until
    another slave of the set began to act (`following_ms`).
    """
    begin = period.since_ms if left is None else min(left.at_ms, period.since_ms)
    over_ms = None if period.over is None else period.over.at_ms
    ends = [at_ms + CLOCK_SLACK_MS for at_ms in (over_ms, back_ms) if at_ms is not None]
    end = max(ends) if ends else None
    if following_ms is not None and (end is None or following_ms < end):
        end = max(following_ms, 0 if over_ms is None else over_ms + CLOCK_SLACK_MS)
    inside = [one for one in told if begin <= one.at_ms and (end is None or one.at_ms <= end)]
    expelled = [one for one in inside if one.kind == "master_expelled"]
    steps = [(period.since_ms, f"broker {period.broker_id} acts")]
    if left is not None:
        steps.append((left.at_ms, f"broker {left.broker_id} {left.why}"))
    if period.over is not None:
        steps.append((period.over.at_ms, f"over: {period.over.why}"))
    routes = list(_routes(period, inside))
    steps += _route_steps(routes)
    steps += _own_steps(period)
    steps += _ways_back(inside)
    why = (
        "no name server names a broker with a smaller id"
        if left is None
        else f"broker {left.broker_id} {left.why}"
    )
    fenced = any(one.row["fenced"] for one in expelled)
    if expelled:
        why += "; it lived, and found that it had been dropped"
    out = {
        member
        for one in inside
        if one.kind == "pre_online_over" and one.row["broker_id"] == MASTER_ID
        for member in one.row["left_out"]
    }
    return Story(why, _with_distances(steps), routes, fenced, sorted(out))


def _routes(period: Period, inside: Iterable[Told]) -> Iterator[Row]:
    """Each name server's, from when to when it showed the slave."""
    given: dict[str, Row] = {}
    for one in inside:
        row = one.row
        if row.get("acting_broker_id") != period.broker_id:
            continue
        name = row["name_server"]
        if one.kind == "acting_route_given":
            given[name] = {"name_server": name, "from_ms": one.at_ms, "to_ms": None, "reason": None}
        elif one.kind == "acting_route_withdrawn" and name in given:
            yield {**given.pop(name), "to_ms": one.at_ms, "reason": row["reason"]}
    yield from given.values()


def _route_steps(routes: Iterable[Row]) -> Iterator[tuple[int, str]]:
    for route in routes:
        who = f"name server {route['name_server']}"
        yield route["from_ms"], f"{who} shows it in the master's place"
        if route["to_ms"] is not None:
            yield route["to_ms"], f"{who} shows it no more: {route['reason']}"


def _own_steps(period: Period) -> Iterator[tuple[int, str]]:
    """The first of each: which messages left, and what they waited for."""
    said: set[str] = set()
    for one in period.own:
        for text in _own_words(one):
            if text not in said:
                said.add(text)
                yield one.at_ms, text


def _own_words(one: Told) -> Iterator[str]:
    row = one.row
    if one.kind == "escape_batch" and row["messages"]:
        to = row["to_broker_name"] or "other sets"
        yield f"first messages of kind '{row['kind']}' left for {to}"
    if one.kind == "escape_waits":
        yield from (f"messages wait: {reason}" for reason in row["reasons"])


def _ways_back(inside: Iterable[Told]) -> Iterator[tuple[int, str]]:
    for one in inside:
        row = one.row
        if one.kind == "master_expelled":
            fenced = " and fences itself" if row["fenced"] else ""
            yield one.at_ms, f"the master finds that {row['reason']}{fenced}"
        if row["broker_id"] != MASTER_ID:
            continue
        if one.kind == "broker_started":
            yield one.at_ms, "the master's process started"
        if one.kind == "pre_online_without_member":
            what = "the tables" if row["tables"] else "the link"
            yield one.at_ms, f"it does without {what} of {row['member_broker_id']}: {row['reason']}"
        if one.kind == "pre_online_over":
            yield one.at_ms, "the master took over what was done meanwhile, and is online"


def _with_distances(steps: Iterable[tuple[int, str]]) -> list[Row]:
    phases: list[Row] = []
    for at_ms, text in sorted(steps, key=lambda step: step[0]):
        before_ms = phases[-1]["at_ms"] if phases else at_ms
        phases.append({"phase": text, "at_ms": at_ms, "took_ms": at_ms - before_ms})
    return phases
