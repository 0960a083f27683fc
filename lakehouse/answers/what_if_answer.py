"""The answer to "what would have happened with other timers or another policy?", from the tables.

Responsible for bringing together commands, silences and failovers, for words, and for saying what
the answer cannot know. Refuses to know the rules (`what_if_rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from events.topics import COMMANDS_TOPIC
from lakehouse import wording
from lakehouse.answers.acting.sets import acting_set_names, sets_without_controllers
from lakehouse.answers.majority.groups import group_names
from lakehouse.answers.what_if import SAME, Incident, Replay, totals
from lakehouse.answers.what_if_rules import POLICIES, Silence, Timers
from lakehouse.errors import NotLanded
from lakehouse.gold.fold import Record
from lakehouse.gold.now import gold_now
from lakehouse.gold.specs import FAILOVERS
from lakehouse.tables.bronze_log import BronzeLog
from lakehouse.tables.delta import milliseconds, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, BY_NAME
from processors.liveness.heartbeat_gaps import REPORTED_SHARE

SILENCES = BY_NAME["silver/heartbeat_gap"]
SHARE, OF = REPORTED_SHARE
LIMITS = (
    (
        "Each incident is judged by itself, from the state that history had then: what follows "
        "from another decision is not played on."
    ),
    (
        f"Silences are known above {SHARE}/{OF} of the timeout that was in force: a timeout below "
        "that would have called for elections that stand nowhere."
    ),
    (
        "While a master is silent it counts as not serving anybody; if its clients reached it all "
        "the time, an avoided election wins more and an added one costs more than is said here."
    ),
    "Offsets are those of the last heartbeat before: bytes at risk are as exact as that.",
)
"""What the answer cannot know; it is part of the answer."""


def what_if(
    lake: Lake, timers: Timers, policy: str, from_ms: int = 0, until_ms: int | None = None
) -> dict[str, Any]:
    """Each incident between two times (ms since 1970-01-01 UTC), judged again, and what that comes
    to.

    Raises `NotLanded` when no decision has landed, `LakehouseError` when history cannot be read or
    folded.
    """
    log, without = BronzeLog(lake, COMMANDS_TOPIC), sets_without_controllers(lake, until_ms)
    groups = group_names(lake)
    if not log.end and not acting_set_names(lake) and not groups:
        raise NotLanded("no decision has landed yet")
    failovers = gold_now(lake, [FAILOVERS])
    known = silences(lake)
    replay = Replay(timers, POLICIES[policy], known, failovers.rows(FAILOVERS), from_ms, until_ms)
    found = list(replay.incidents(_records(log)))
    return {
        "timers": asdict(timers),
        "policy": policy,
        "meaning": POLICIES[policy].meaning,
        "from_ms": from_ms,
        "until_ms": until_ms,
        "incidents": [_document(one) for one in found],
        "totals": totals(found),
        "silences_known": sum(map(len, known.values())),
        "without_controllers": without,
        "by_majority": groups,
        "limits": [*LIMITS, *_without_elections(without), *_by_majority(groups)],
    }


def _without_elections(names: Sequence[str]) -> list[str]:
    """What the answer does not speak of."""
    if not names:
        return []
    return [
        (
            f"Without controllers, and so without elections: {', '.join(names)}. No timer and no "
            "policy of a controller changes what happens there; when a slave acts is said by "
            "brokerNotActiveTimeoutMillis of its brokers."
        )
    ]


def _by_majority(names: Sequence[str]) -> list[str]:
    """What the answer does not speak of either."""
    if not names:
        return []
    return [
        (
            f"By majority, and so without a controller's elections: {', '.join(names)}. No timer "
            "and no policy of a controller changes what happens there. How soon members elect is "
            "said by their heartbeat_ms, heartbeats_missed_max and vote pauses, and who of those "
            "whose logs are not behind wins is chance: neither is replayed here."
        )
    ]


def time_of(lake: Lake, *, offset: int | None = None, at_ms: int | None = None) -> int | None:
    """A moment in ms since 1970-01-01 UTC; None for none. Raises `NotLanded` for a command that has
    not landed.
    """
    if offset is None:
        return at_ms
    filters = [("topic", "=", COMMANDS_TOPIC), ("partition", "=", 0), ("offset", "=", offset)]
    found = milliseconds(read(lake, BRONZE, columns=["timestamp"], filters=filters)["timestamp"])
    if not found or found[0] is None:
        raise NotLanded(
            f"command {offset} has not landed: last {BronzeLog(lake, COMMANDS_TOPIC).end - 1}"
        )
    return found[0]


def silences(lake: Lake) -> dict[str, list[Silence]]:
    """The silences that controllers reported, by set, each event once; none where no release that
    reports them landed.
    """
    found: dict[str, list[Silence]] = {}
    try:
        once = {row["event_id"]: row for row in read(lake, SILENCES).to_pylist()}
    except NotLanded:
        return found
    for row in sorted(once.values(), key=lambda one: one["at_ms"]):
        silence = Silence(
            row["silent_broker_id"],
            row["at_ms"] - row["gap_ms"],
            row["at_ms"],
            row["timeout_ms"],
            row["was_gone"],
            row["restarted"],
        )
        found.setdefault(row["broker_name"], []).append(silence)
    return found


def what_if_text(model: Mapping[str, Any]) -> str:
    """What differs, a line each, then what it comes to, then the limits."""
    rows = [_cells(one) for one in model["incidents"] if one["result"] != SAME]
    head = ("time (UTC)", "set", "cause", "recorded", "instead", "result", "unavailable", "at risk")
    lines = [wording.text_table(head, rows)] if rows else ["nothing would have been different"]
    return "\n".join([*lines, "", *_sums(model), "", *(f"* {limit}" for limit in model["limits"])])


def _records(log: BronzeLog) -> Iterator[Record]:
    for record in log.records():
        yield record.offset, record.timestamp_ms, record.value


def _document(one: Incident) -> dict[str, Any]:
    return {
        "broker_name": one.broker_name,
        "offset": one.offset,
        "at_ms": one.at_ms,
        "cause": one.cause,
        "result": one.result,
        "recorded": {
            "winner": one.recorded_winner,
            "unavailable_ms": one.recorded_outage_ms,
            "at_risk_bytes": one.recorded_risk_bytes,
        },
        "instead": {
            "at_ms": one.judged.at_ms,
            "winner": one.judged.winner,
            "reason": one.judged.reason,
            "labels": list(one.judged.labels),
            "unavailable_ms": one.outage_ms,
            "at_risk_bytes": one.judged.behind_bytes,
        },
        "won_ms": one.won_ms,
    }


def _cells(one: Mapping[str, Any]) -> tuple[object, ...]:
    recorded, instead = one["recorded"], one["instead"]
    shift_ms = instead["at_ms"] - one["at_ms"]
    when = (
        f"{'+' if shift_ms >= 0 else '-'}{wording.duration(abs(shift_ms))}" if shift_ms else "then"
    )
    who = "nobody" if instead["winner"] is None else f"broker {instead['winner']}"
    before = "nobody" if recorded["winner"] is None else f"broker {recorded['winner']}"
    outages = [
        wording.duration(value) for value in (recorded["unavailable_ms"], instead["unavailable_ms"])
    ]
    labels = f" {' '.join(instead['labels'])}" if instead["labels"] else ""
    return (
        wording.moment(one["at_ms"]),
        one["broker_name"],
        one["cause"],
        before,
        f"{who} {when}",
        f"{one['result']}{labels}",
        " -> ".join(outages),
        f"{recorded['at_risk_bytes']} -> {instead['at_risk_bytes']} B",
    )


def _sums(model: Mapping[str, Any]) -> Iterable[str]:
    found = model["totals"]
    yield (
        f"{found['incidents']} incidents, {found['elections']} elections in them: "
        f"{found['avoided']} avoided, {found['added']} added, {found['other_winner']} with another "
        f"winner, {found['nobody_elected']} in which nobody would have been elected"
    )
    won_ms = found["unavailable_ms"] - found["unavailable_instead_ms"]
    yield (
        f"unavailable, of {found['measured']} that were measured: "
        f"{wording.duration(found['unavailable_ms'])} recorded, "
        f"{wording.duration(found['unavailable_instead_ms'])} instead: "
        f"{wording.duration(abs(won_ms))} {'won' if won_ms >= 0 else 'lost'}"
    )
    yield (
        f"bytes at risk: {found['at_risk_bytes']} recorded, {found['at_risk_instead_bytes']} "
        "instead"
    )
    yield f"silences known: {model['silences_known']}"
