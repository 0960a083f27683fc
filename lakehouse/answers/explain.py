"""Why a broker set has the masters it had: each election with everything that is known about it,
of a set without controllers each time that a slave acted for its master, and when controllers
adopted or released it; of a group that replicates by majority each term.

Responsible for joining decisions, the evidence in their commands and what brokers reported. Refuses
to know how these are found (`explain_sources`) and how it looks on a screen (`explain_text`). Times
of different machines are put side by side as they are: they are as good as the clocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakehouse.answers.acting.changeovers import changeover_models
from lakehouse.answers.acting.periods import period_model
from lakehouse.answers.acting.sets import told_of
from lakehouse.answers.decisions import Row
from lakehouse.answers.explain_sources import AFTERMATH_MS, Sources, sources_of
from lakehouse.answers.majority.groups import is_group
from lakehouse.answers.majority.terms import term_models
from lakehouse.errors import NotLanded
from lakehouse.gold.now import gold_now
from lakehouse.gold.specs import ACTING_PERIODS, MAJORITY_TERMS
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import CLOCK_SLACK_MS

PHASES = ("detected", "probed", "received", "appended", "applied", "answered", "notified")


def explain(lake: Lake, broker_name: str, epoch: int | None = None) -> dict[str, Any]:
    """Every election, acting period and changeover of a set, or the election that began master
    epoch `epoch`; of a group that replicates by majority every term, or the term `epoch`.

    Raises `NotLanded` for a set or an epoch that is not known.
    """
    if is_group(lake, broker_name):
        return _group(lake, broker_name, epoch)
    sources = sources_of(lake, broker_name, epoch)
    if epoch not in (None, *sources.epochs):
        raise NotLanded(
            f"no election of {broker_name} began epoch {epoch}; "
            f"known epochs: {', '.join(map(str, sources.epochs)) or 'none'}"
        )
    asked = [i for i, row in enumerate(sources.elections) if epoch in (None, row["master_epoch"])]
    told = told_of(lake, broker_name) if epoch is None else []
    acting = bool(told)
    periods = gold_now(lake, [ACTING_PERIODS], broker_name).rows(ACTING_PERIODS) if acting else []
    return {
        "broker_name": broker_name,
        "without_controllers": acting and not sources.elections,
        "elections": [_election(i, sources) for i in asked],
        "acting_periods": [period_model(row) for row in periods],
        "changeovers": changeover_models(told),
    }


def _group(lake: Lake, broker_name: str, term: int | None) -> dict[str, Any]:
    rows = gold_now(lake, [MAJORITY_TERMS], broker_name).rows(MAJORITY_TERMS)
    models = term_models(rows)
    asked = [one for one in models if term in (None, one["term"])]
    if not asked and term is not None:
        known = ", ".join(str(one["term"]) for one in models) or "none"
        raise NotLanded(f"nobody told of term {term} of {broker_name}; known terms: {known}")
    return {"broker_name": broker_name, "by_majority": True, "terms": asked}


def _election(index: int, sources: Sources) -> dict[str, Any]:
    row = sources.elections[index]
    offset = row["command_offset"]
    stamps = dict(row["phases"])
    at_ms = sources.times.get(offset, row["published_at_ms"])
    won = row["master_epoch"] is not None
    phases = [{"phase": name, "at_ms": stamps[name]} for name in PHASES if name in stamps]
    after = _aftermath(index, sources, at_ms) if won else []
    began_ms = min((p["at_ms"] for p in phases), default=at_ms)
    return {
        "offset": offset,
        "at_ms": at_ms,
        "began_ms": began_ms,
        "term": row["term"],
        "decided_by": row["publisher"],
        "cause": row["cause"],
        "accepted": row["accepted"],
        "refusal": row["refusal"],
        "code": row["code"],
        "labels": row["labels"],
        "request": _request(sources.commands.get(offset)),
        "previous": sources.decisions.before(offset),
        "result": _result(row) if won else None,
        "candidates": row["candidates"],
        "phases": _with_distances(phases + after, began_ms),
        "clients": _clients(index, sources, began_ms) if won else None,
    }


def _request(command: Row | None) -> dict[str, Any] | None:
    """The request for the election: its sender, expectation and evidence."""
    if command is None:
        return None
    names = (
        "issuer",
        "requested_by",
        "issued_at_ms",
        "broker_id",
        "designate",
        "expected_master_epoch",
        "expected_set_epoch",
        "evidence",
    )
    return {name: command[name] for name in names}


def _result(row: Row) -> dict[str, Any]:
    names = (
        "master_broker_id",
        "master_address",
        "master_epoch",
        "sync_state_set",
        "sync_state_set_epoch",
    )
    return {name: row[name] for name in names}


def _window(index: int, sources: Sources, at_ms: int) -> tuple[int, int]:
    """The time in which broker events belong to the election."""
    following = (row for row in sources.elections[index + 1 :] if row["master_epoch"] is not None)
    next_row = next(following, None)
    end_ms = at_ms + AFTERMATH_MS
    if next_row is not None:
        end_ms = min(end_ms, sources.times.get(next_row["command_offset"], end_ms))
    return at_ms - CLOCK_SLACK_MS, end_ms


def _aftermath(index: int, sources: Sources, at_ms: int) -> list[dict[str, Any]]:
    """What brokers reported after the election, as phases."""
    row = sources.elections[index]
    epoch, master = row["master_epoch"], row["master_broker_id"]
    window, events = _window(index, sources, at_ms), sources.events
    found = [
        _phase(e, f"broker {e['broker_id']} is {e['role'].lower()}")
        for e in _first_each(
            sorted(events.of_epoch("role_changed", epoch), key=lambda e: e["at_ms"]), "broker_id"
        )
    ]
    for name, words in (
        ("epoch_appended", "epoch entry durable"),
        ("first_message_acknowledged", "first message acknowledged"),
    ):
        own = [e for e in events.of_epoch(name, epoch) if e["broker_id"] == master]
        found += [_phase(e, words) for e in own[:1]]
    links = [e for e in events.in_time("ha_link_up", *window) if e["broker_id"] == master]
    found += [
        _phase(e, f"link to {e['peer_broker_id']} up") for e in _first_each(links, "peer_broker_id")
    ]
    found += [
        _phase(e, f"slave {e['slave_broker_id']} caught up")
        for e in _first_each(events.in_time("slave_caught_up", *window), "slave_broker_id")
    ]
    found += [
        _phase(e, f"broker {e['broker_id']} cut its log {e['from_offset']} -> {e['to_offset']}")
        for e in events.in_time("log_truncated", *window)
    ]
    found += [
        _phase(e, f"broker {e['broker_id']} started again")
        for e in events.in_time("broker_started", *window)
    ]
    return sorted(found, key=lambda phase: phase["at_ms"])


def _first_each(rows: Sequence[Row], column: str) -> list[Row]:
    """The earliest row for each value of a column, of rows ascending by time."""
    found: dict[object, Row] = {}
    for row in rows:
        found.setdefault(row[column], row)
    return list(found.values())


def _phase(event: Row, words: str) -> dict[str, Any]:
    return {"phase": words, "at_ms": event["at_ms"]}


def _with_distances(phases: list[dict[str, Any]], began_ms: int) -> list[dict[str, Any]]:
    """Each phase with the time since the beginning and since the phase before."""
    found = []
    before_ms = began_ms
    for phase in phases:
        at_ms = phase["at_ms"]
        found.append({**phase, "since_start_ms": at_ms - began_ms, "took_ms": at_ms - before_ms})
        before_ms = at_ms
    return found


def _clients(index: int, sources: Sources, began_ms: int) -> dict[str, Any]:
    """What clients saw: how long until sends were acknowledged again, what was forwarded."""
    row = sources.elections[index]
    acks = [
        e["at_ms"]
        for e in sources.events.of_epoch("first_message_acknowledged", row["master_epoch"])
    ]
    forwarded = sources.events.in_time("requests_forwarded", *_window(index, sources, began_ms))
    whole_ms = _whole_again_ms(row, sources)
    return {
        "acknowledged_again_after_ms": min(acks) - began_ms if acks else None,
        "set_whole_after_ms": None if whole_ms is None else whole_ms - began_ms,
        "requests_forwarded": sum(event["count"] for event in forwarded),
    }


def _whole_again_ms(row: Row, sources: Sources) -> int | None:
    """When the set had all replicas again that the election looked at; None if not yet."""
    found = sources.decisions.whole_again(row)
    return (
        None
        if found is None
        else sources.times.get(found["command_offset"], found["published_at_ms"])
    )
