"""An acting period as a person reads it, as an election is told: why it began, what happened, what
it cost.

Responsible for words and layout. Refuses to know where the rows come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse import wording
from lakehouse.gold.acting_periods import masterless

Row = Mapping[str, Any]

NOBODY_ELECTS = (
    "has no controllers: nobody is elected; while its master is away, the slave with the smallest "
    "id that lives acts for it"
)


def period_model(row: Row) -> dict[str, Any]:
    """A row of `gold/acting_periods` for `--json`, with what clients saw."""
    return {
        **{name: value for name, value in row.items() if name not in ("cluster_id", "broker_name")},
        "at_ms": row["since_ms"],
        "clients": {
            "acted_after_ms": _after(row["master_left_ms"], row["since_ms"]),
            "shown_after_ms": _shown_after_ms(row),
            "no_writes_ms": no_writes_ms(row),
        },
    }


def _after(from_ms: int | None, to_ms: int | None) -> int | None:
    return None if from_ms is None or to_ms is None else max(0, to_ms - from_ms)


def _shown_after_ms(row: Row) -> int | None:
    first = min((route["from_ms"] for route in row["routes"]), default=None)
    return _after(row["master_left_ms"], first)


def no_writes_ms(row: Row) -> int | None:
    """How long nobody could write; None while that lasts. A master that was still listed when the
    slave began to act served nobody from then on: clocks of different machines may say it so.
    """
    back_ms = row["master_back_ms"]
    return None if back_ms is None else _after(masterless(row, back_ms)[0], back_ms)


def period_text(broker_name: str, one: Row) -> str:
    """One period, some lines."""
    lasts = wording.lasted(one["since_ms"], one["until_ms"])
    lines = [
        (
            f"{broker_name}: broker {one['broker_id']} ({one['address']}) acted for the master "
            f"from {wording.moment(one['since_ms'])}, {lasts}"
        ),
        f"  cause:   {one['why_begun']}",
        f"  over:    {one['why_over'] or 'not yet'}",
    ]
    if one["master_fenced"]:
        lines.append("  fenced:  the master lived, and refused what would have parted the two")
    if one["left_out"]:
        lines.append(
            f"  without: {wording.brokers(one['left_out'])}, whose tables the master could not get"
        )
    lines += [*_phase_lines(one), *_escaped_lines(one), *_wait_lines(one), *_lock_lines(one)]
    return "\n".join([*lines, _client_line(one["clients"])])


def _phase_lines(one: Row) -> list[str]:
    began_ms = one["since_ms"]
    return wording.phase_lines(
        (phase["at_ms"] - began_ms, phase["took_ms"], phase["phase"]) for phase in one["phases"]
    )


def _escaped_lines(one: Row) -> list[str]:
    if not one["escaped"]:
        return ["  left:    nothing was due that had to leave the set"]
    rows = [
        (
            each["kind"],
            each["to_broker_name"] or "(more sets)",
            each["messages"],
            each["soft"],
            each["failed"],
            each["size_bytes"],
        )
        for each in one["escaped"]
    ]
    head = ("waited as", "left for", "messages", "not safe yet", "tried again", "bytes")
    return ["  left:", wording.text_table(head, rows, "    ")]


def _wait_lines(one: Row) -> list[str]:
    return [
        f"  waited:  up to {each['waiting']} messages: {each['reason']}" for each in one["waits"]
    ]


def _lock_lines(one: Row) -> list[str]:
    if not one["lock_rounds"]:
        return []
    return [
        (
            f"  locks:   {one['lock_rounds']} rounds of votes, {one['queues_lost']} locks of "
            "queues not given"
        )
    ]


def _client_line(clients: Row) -> str:
    told = [
        f"{words} {wording.duration(clients[name])}"
        for name, words in (
            ("acted_after_ms", "readers had somebody after"),
            ("shown_after_ms", "a name server showed it after"),
            ("no_writes_ms", "nobody could write for"),
        )
        if clients[name] is not None
    ]
    if clients["no_writes_ms"] is None:
        told.append("nobody can write yet, as far as was told")
    return f"  clients: {', '.join(told)}"


def span_of(row: Row, until_ms: int) -> dict[str, Any]:
    """The period as a stretch of a timeline."""
    return {
        "from_ms": row["since_ms"],
        "to_ms": until_ms if row["until_ms"] is None else row["until_ms"],
        "broker_id": row["broker_id"],
        "address": row["address"],
        "why_begun": row["why_begun"],
        "why_over": row["why_over"],
        "messages": row["messages"],
    }
