"""Terms of groups that replicate by majority: who was elected by which votes, from when to when it
took appends, what was cut for it.

Responsible for `gold/majority_terms`, and for what availability counts of such groups. Refuses to
guess: what nobody reported is null, and an end that nobody told is the last word that the next
leader heard. Times of different machines are put side by side as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

from lakehouse import wording
from lakehouse.gold.acting_periods import OF_ALL_SETS, Events, sane_times
from lakehouse.gold.acting_story import End, Told
from lakehouse.gold.spans import Row, Stretch

VOTE, ELECTED, OVER = "majority_vote_cast", "majority_leader_elected", "majority_leader_over"
CROSSED, CUT = "majority_commit_crossed_term", "majority_log_cut"
OF_GROUPS = (VOTE, ELECTED, OVER, CROSSED, CUT)
"""Only members of such groups report these."""
GROUP_KINDS = (*OF_GROUPS, *OF_ALL_SETS)

SetKey = tuple[str, str]
KeptRow = Mapping[str, Any]
"""A row of `gold/majority_terms`."""


@dataclass(slots=True)
class _Term:
    """One term, from all that was told of it."""

    number: int
    elected: Row | None = None
    followed: str | None = None
    """Who leads it by others' word."""
    ready: Row | None = None
    over: End | None = None
    votes: dict[str, Row] = field(default_factory=dict)
    crossed: list[Row] = field(default_factory=list)
    cuts: list[Row] = field(default_factory=list)
    first_ms: int | None = None

    @property
    def leader_id(self) -> str | None:
        return self.followed if self.elected is None else str(self.elected["member_id"])

    @property
    def since_ms(self) -> int:
        """When its leader was elected; the first sign of it where nobody told that."""
        if self.elected is not None:
            return int(self.elected["at_ms"])
        return int(self.first_ms or 0)

    @property
    def last_word_ms(self) -> int | None:
        """When who was elected had heard a leader last."""
        if self.elected is None:
            return None
        return int(self.elected["at_ms"] - self.elected["silent_ms"])


def term_rows_of_groups(events: Mapping[str, Events]) -> list[Row]:
    """One row for each term; `events` are by cluster id."""
    return [
        {"cluster_id": cluster_id, "broker_name": name, **row}
        for (cluster_id, name), told in _by_key(events).items()
        for row in _rows(told)
    ]


def by_group(events: Events) -> dict[str, list[Told]]:
    """The events of each group, each once, ascending by time."""
    found: dict[bytes | str, Told] = {}
    names: set[str] = set()
    for kind in GROUP_KINDS:
        for row in events.get(kind, ()):
            found.setdefault(row["event_id"], Told(kind, dict(row)))
            if kind in OF_GROUPS:
                names.add(row["broker_name"])
    told = [one for one in found.values() if one.row["broker_name"] in names]
    told.sort(key=lambda one: (one.row["broker_name"], *_order(one)))
    return {name: list(some) for name, some in groupby(told, lambda one: one.row["broker_name"])}


def _by_key(events: Mapping[str, Events]) -> dict[SetKey, list[Told]]:
    return {
        (cluster_id, name): told
        for cluster_id in sorted(events)
        for name, told in by_group(events[cluster_id]).items()
    }


def groups_told_until_ms(events: Mapping[str, Events]) -> int:
    """When the newest of these events happened, ms since 1970-01-01 UTC; 0 without any."""
    times = sane_times(_by_key(events).values())
    return times[-1] if times else 0


def _order(one: Told) -> tuple[int, str, int]:
    return one.at_ms, one.row["incarnation"], one.row["sequence"]


# -- terms -----------------------------------------------------------------------------------------


def _rows(told: Sequence[Told]) -> list[Row]:
    terms = _terms(told)
    rows: list[Row] = []
    led: Row | None = None
    for at, term in enumerate(terms):
        following = next((one for one in terms[at + 1 :] if one.leader_id is not None), None)
        if term.leader_id is not None and term.over is None:
            term.over = _end_by_signs(term, following, told)
        row = _row(term, led)
        rows.append(row)
        led = row if term.leader_id is not None else led
    return rows


def _terms(told: Iterable[Told]) -> list[_Term]:
    """Ascending. Of two leaders of one term the first one counts: the check tells of the other."""
    found: dict[int, _Term] = {}
    for one in told:
        if one.kind not in OF_GROUPS:
            continue
        row = one.row
        term = found.setdefault(row["term"], _Term(row["term"]))
        term.first_ms = one.at_ms if term.first_ms is None else min(term.first_ms, one.at_ms)
        if one.kind == VOTE:
            term.votes.setdefault(row["member_id"], row)
        elif one.kind == ELECTED:
            term.elected = term.elected or row
        elif one.kind == OVER:
            if term.over is None:
                term.over = End(one.at_ms, row["why"])
            term.followed = term.followed or row["member_id"]
        elif one.kind == CROSSED:
            term.followed = term.followed or row["leader_id"] or None
            term.crossed.append(row)
            if row["leads"] and term.ready is None:
                term.ready = row
        elif one.kind == CUT:
            term.followed = term.followed or row["leader_id"] or None
            term.cuts.append(row)
    return [found[number] for number in sorted(found)]


def _end_by_signs(term: _Term, following: _Term | None, told: Iterable[Told]) -> End | None:
    """The end of a leader that did not tell it: it was stopped, it started anew, or the next one
    was elected; None while nothing says so.
    """
    signs: list[End] = []
    elected = term.elected
    if elected is not None:
        for one in told:
            row = one.row
            if one.kind not in OF_ALL_SETS or row["broker_id"] != elected["broker_id"]:
                continue
            same = row["incarnation"] == elected["incarnation"]
            if one.kind == "broker_stopped" and same:
                signs.append(End(one.at_ms, f"its process was stopped ({row['reason']})"))
            if one.kind == "broker_started" and not same and one.at_ms >= term.since_ms:
                why = "its process started anew; when it ended nobody told"
                signs.append(End(one.at_ms, why))
    if following is not None:
        at_ms = following.last_word_ms
        if at_ms is None or at_ms < term.since_ms:
            at_ms = following.since_ms
        why = f"it told no end; {following.leader_id}, which leads next, heard a leader last then"
        signs.append(End(at_ms, why))
    return min(signs, default=None)


def _row(term: _Term, before: Row | None) -> Row:
    elected, ready = term.elected, term.ready
    over = term.over
    return {
        "term": term.number,
        "leader_id": term.leader_id,
        "broker_id": None if elected is None else elected["broker_id"],
        "incarnation": None if elected is None else elected["incarnation"],
        "members": [] if elected is None else list(elected["members"]),
        "since_ms": term.since_ms,
        "ready_ms": None if ready is None else ready["at_ms"],
        "until_ms": None if over is None else over.at_ms,
        "last_word_ms": term.last_word_ms,
        "why_begun": _why_begun(term, before),
        "why_over": None if over is None else over.why,
        "votes": [
            {name: row[name] for name in ("member_id", "candidate_id", "at_ms")}
            for _, row in sorted(term.votes.items())
        ],
        "crossed": [
            {name: row[name] for name in ("member_id", "index", "entry_term", "at_ms")}
            for row in term.crossed
        ],
        "cuts": [
            {
                name: row[name]
                for name in ("member_id", "from_index", "to_index", "restarted", "why", "at_ms")
            }
            for row in term.cuts
        ],
        "entries_cut": sum(map(_entries_cut, term.cuts)),
        "phases": _phases(term),
    }


def _entries_cut(cut: Row) -> int:
    """How many entries a log lost; of one that begins anew those that stood behind its begin."""
    first = min(cut["dropped_from"], default=None)
    return 0 if first is None else max(0, cut["from_index"] - first + 1)


def _why_begun(term: _Term, before: Row | None) -> str:
    elected = term.elected
    if term.leader_id is None:
        return "a member stood for it, and nobody told that it won"
    if elected is None:
        return "known by those that follow it: it told nothing itself"
    silent = wording.duration(elected["silent_ms"])
    if before is None:
        return "nobody had led before, as far as was told"
    who = before["leader_id"]
    if who == term.leader_id:
        return f"{who} had led in term {before['term']} ({before['why_over'] or 'no end was told'})"
    return (
        f"{who} leads no more ({before['why_over'] or 'no end was told'}); {term.leader_id} had "
        f"heard no leader for {silent}"
    )


def _phases(term: _Term) -> list[Row]:
    who = term.leader_id
    steps = [
        (row["at_ms"], f"{row['member_id']} votes for {row['candidate_id']}")
        for row in term.votes.values()
    ]
    if term.elected is not None:
        steps.append((term.since_ms, f"{who} is elected"))
    steps += [
        (
            row["at_ms"],
            f"{who} takes appends: entry {row['index']} is committed"
            if row["leads"]
            else f"{row['member_id']} knows entry {row['index']} committed",
        )
        for row in term.crossed
    ]
    steps += [(row["at_ms"], cut_words(row)) for row in term.cuts]
    if term.over is not None:
        steps.append((term.over.at_ms, f"over: {term.over.why}"))
    phases: list[Row] = []
    for at_ms, text in sorted(steps, key=lambda step: step[0]):
        before_ms = phases[-1]["at_ms"] if phases else at_ms
        phases.append({"phase": text, "at_ms": at_ms, "took_ms": at_ms - before_ms})
    return phases


def cut_words(cut: Mapping[str, Any]) -> str:
    """One cut, for people."""
    if cut["restarted"]:
        return f"{cut['member_id']} begins its log anew behind entry {cut['to_index']}"
    return f"{cut['member_id']} cuts its log from entry {cut['from_index']} to {cut['to_index']}"


# -- what availability counts ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LedGroup:
    """A group over time; stretches in ms since 1970-01-01 UTC, ends not in them."""

    since_ms: int
    """When a leader took appends first."""
    until_ms: int
    """How far what was told reaches."""
    unled: tuple[Stretch, ...]
    """Times in which nobody took appends, by what was told."""
    changes: tuple[int, ...]
    """When a leader took appends that was not the one before it."""


def led_groups(
    events: Mapping[str, Events], rows: Iterable[KeptRow], reach_ms: int = 0
) -> dict[SetKey, LedGroup]:
    """By cluster and name; `rows` are those of `term_rows_of_groups`. `reach_ms`: how far history
    reaches by decisions, where there are any.
    """
    of_groups = _by_key(events)
    times = sane_times(of_groups.values())
    if not times:
        return {}
    until_ms = max(times[-1], reach_ms)
    by_key: dict[SetKey, list[KeptRow]] = {}
    for row in rows:
        if times[0] <= row["since_ms"] <= until_ms:
            by_key.setdefault((row["cluster_id"], row["broker_name"]), []).append(row)
    found = {key: led_group(own, until_ms) for key, own in by_key.items()}
    return {key: one for key, one in found.items() if one is not None}


def led_group(rows: Sequence[KeptRow], until_ms: int) -> LedGroup | None:
    """The same of one group; None when nobody ever took appends."""
    ordered = sorted(rows, key=lambda row: int(row["term"]))
    taking = [at for at, row in enumerate(ordered) if row["ready_ms"] is not None]
    if not taking:
        return None
    gaps, changes = [], []
    for at, next_at in zip(taking, [*taking[1:], None], strict=True):
        row = ordered[at]
        if next_at is None:
            if row["until_ms"] is not None:
                gaps.append((max(row["ready_ms"], row["until_ms"]), until_ms))
            continue
        following = ordered[next_at]
        gaps.append((_stood_ms(row, ordered[at + 1 : next_at + 1]), following["ready_ms"]))
        if following["leader_id"] != row["leader_id"]:
            changes.append(following["ready_ms"])
    real = tuple((low, high) for low, high in gaps if low < high)
    return LedGroup(ordered[taking[0]]["ready_ms"], until_ms, real, tuple(changes))


def _stood_ms(row: KeptRow, later: Iterable[KeptRow]) -> int:
    """From when on nobody took its appends any more: its own word, or the last that one of its
    successors heard. A leader that is cut off notices late.
    """
    words = [one["last_word_ms"] for one in later]
    told = [at_ms for at_ms in (row["until_ms"], *words) if at_ms is not None]
    return max(int(row["ready_ms"]), min(told, default=int(row["ready_ms"])))


def changes_of_leader(rows: Sequence[KeptRow]) -> Iterator[Row]:
    """Each time that a member took appends and another one had before: from whom to whom, when, how
    long nobody did. Ascending.
    """
    ordered = sorted(rows, key=lambda row: int(row["term"]))
    taking = [at for at, row in enumerate(ordered) if row["ready_ms"] is not None]
    for at, next_at in pairwise(taking):
        old, new = ordered[at], ordered[next_at]
        stood_ms = _stood_ms(old, ordered[at + 1 : next_at + 1])
        yield {
            "at_ms": new["since_ms"],
            "old_term": old["term"],
            "new_term": new["term"],
            "old_leader": old["leader_id"],
            "new_leader": new["leader_id"],
            "cause": old["why_over"],
            "unled_ms": max(0, new["ready_ms"] - stood_ms),
            "entries_cut": new["entries_cut"],
            "phases": new["phases"],
        }
