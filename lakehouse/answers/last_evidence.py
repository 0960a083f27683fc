"""The last evidence about each replica of a set.

Responsible for going through commands' evidence, registrations and broker events in the order of
time, and for keeping what still holds: another start voids what the one before reported. Refuses to
know where rows come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from events.envelope import ELECTION_PRIORITY_DEFAULT, UNKNOWN, ReplicaEvidence
from lakehouse.answers.forecast import LastEvidence

Row = Mapping[str, Any]
EVIDENCE, REGISTERED = ("elect_master", "alter_sync_state_set"), "register_broker"
EVENTS = (
    "epoch_appended",
    "slave_caught_up",
    "first_message_acknowledged",
    "store_recovered",
    "log_truncated",
    "broker_stopped",
    "heartbeat_gap",
)
TABLES = (*EVIDENCE, REGISTERED, *EVENTS)
"""Silver tables that say something of a replica's log or life."""

_Told = tuple[int, str, int, Mapping[str, Any]]
"""When (ms), by which table, of whom, and the fields of the evidence that it gives."""


def last_words(rows: Mapping[str, Iterable[Row]]) -> dict[int, LastEvidence]:
    """By broker id; `rows` are those of one set by the name of the table, commands with `at_ms`,
    the log's time.
    """
    found: dict[int, LastEvidence] = {}
    told = (one for name in TABLES for row in rows.get(name, ()) for one in _evidence_in(name, row))
    for at_ms, name, broker_id, fields in sorted(told, key=lambda one: one[0]):
        before = found.get(broker_id)
        evidence = ReplicaEvidence(broker_id, False, "") if before is None else before.evidence
        if fields.get("incarnation", evidence.incarnation) != evidence.incarnation:
            evidence = replace(evidence, epoch=UNKNOWN, max_offset=UNKNOWN, confirm_offset=UNKNOWN)
        found[broker_id] = LastEvidence(replace(evidence, **fields), at_ms, name)
    return found


def _evidence_in(name: str, row: Row) -> Iterator[_Told]:
    if name in EVIDENCE:
        for one in row["evidence"]:
            yield row["at_ms"], name, one["broker_id"], _of_evidence(one)
    elif name == REGISTERED:
        yield (
            row["at_ms"],
            name,
            row["broker_id"],
            {
                "alive": True,
                "incarnation": row["incarnation"],
                "epoch": _number(row["last_epoch"]),
                "max_offset": _number(row["end_offset"]),
                "election_priority": ELECTION_PRIORITY_DEFAULT,
            },
        )
    else:
        yield from ((row["at_ms"], name, *one) for one in _of_event(name, row))


def _of_evidence(one: Row) -> dict[str, Any]:
    fields: dict[str, Any] = {"alive": one["alive"]}
    if one["incarnation"] is not None:
        fields |= {"incarnation": one["incarnation"], "election_priority": one["election_priority"]}
    numbers = {name: one[name] for name in ("epoch", "max_offset", "confirm_offset")}
    return fields | {name: value for name, value in numbers.items() if value != UNKNOWN}


def _of_event(name: str, row: Row) -> Iterator[tuple[int, dict[str, Any]]]:
    match name:
        case "slave_caught_up":
            yield (
                row["slave_broker_id"],
                {"alive": True, "max_offset": row["offset"], "confirm_offset": row["offset"]},
            )
            yield (
                row["broker_id"],
                {"alive": True, "max_offset": row["offset"], "confirm_offset": row["offset"]},
            )
        case "first_message_acknowledged":
            yield (
                row["broker_id"],
                {
                    "alive": True,
                    "epoch": row["epoch"],
                    "max_offset": row["offset"],
                    "confirm_offset": row["offset"],
                },
            )
        case "epoch_appended":
            yield row["broker_id"], {"alive": True, "epoch": row["epoch"]}
        case "store_recovered":
            yield row["broker_id"], {"max_offset": row["end_offset"]}
        case "log_truncated":
            yield row["broker_id"], {"max_offset": row["to_offset"], "epoch": row["epoch"]}
        case "broker_stopped":
            yield row["broker_id"], {"alive": False}
        case "heartbeat_gap" if not row["restarted"]:
            yield row["silent_broker_id"], {"alive": True}


def _number(value: int | None) -> int:
    return UNKNOWN if value is None else value
