"""What would happen if the master of a set died this second.

Responsible for asking the controllers' own rules for the successor, and for the one after it; for
how long such failovers took so far; for what is at risk. Refuses to know tables, and to guess: what
is not known is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from events.commands import ElectMaster
from events.envelope import NO_OFFSET, UNKNOWN, Envelope, ReplicaEvidence
from lakehouse.answers.failovers import percentile
from lakehouse.gold.spans import Row
from processors.fold import decide
from processors.fold.evolve import evolve
from processors.fold.state import NO_BROKER_ID, BrokerSet, ControllerState
from processors.liveness.pulses import REASON_HEARTBEAT, REASON_REFUSED
from processors.liveness.triggers import CAUSE_EXPIRED, CAUSE_REFUSED

OWN_PAST_MIN = 10
"""A set with fewer failovers of a kind is measured by all sets of its cluster."""
KINDS: Mapping[str, str] = {CAUSE_REFUSED: "killed", CAUSE_EXPIRED: "silent"}
OTHER_CAUSES = "other"


@dataclass(frozen=True, slots=True)
class LastEvidence:
    """The last evidence about one replica. Offsets in bytes, -1 for unknown; ms since 1970-01-01
    UTC.
    """

    evidence: ReplicaEvidence
    at_ms: int
    source: str
    """The record it comes from."""


def forecast(
    state: ControllerState,
    broker_name: str,
    words: Mapping[int, LastEvidence],
    failovers: Iterable[Row],
) -> dict[str, Any]:
    """The forecast for a set that is known; `failovers` are those of all sets of the cluster."""
    broker_set = state.sets[broker_name]
    line = list(_succession(state, broker_set, words))
    return {
        "broker_name": broker_name,
        "master": broker_set.master_broker_id,
        "master_epoch": broker_set.master_epoch,
        "sync_state_set": list(broker_set.sync_state_set),
        "replicas": [_replica(broker_set, one.broker_id, words) for one in broker_set.replicas],
        "succession": line,
        "recovery": _recovery(broker_name, list(failovers)),
        "risk": _risk(broker_set, line[0]["winner"] if line else None, words),
    }


def _succession(
    state: ControllerState, broker_set: BrokerSet, words: Mapping[int, LastEvidence]
) -> Iterable[dict[str, Any]]:
    """The winner when the master dies, then when that one dies, until no election succeeds."""
    dead: set[int] = set()
    while broker_set.master_broker_id is not None and broker_set.master_broker_id not in dead:
        dead.add(broker_set.master_broker_id)
        evidence = tuple(_row(one.broker_id, words, dead) for one in broker_set.replicas)
        head = Envelope(
            bytes(16),
            state.cluster_id,
            state.term,
            "forecast",
            0,
            CAUSE_REFUSED,
            None,
            NO_OFFSET,
            b"",
        )
        command = ElectMaster(
            head,
            broker_set.cluster_name,
            broker_set.broker_name,
            NO_BROKER_ID,
            False,
            None,
            None,
            evidence,
        )
        decision = decide.rule(state, command)
        for change in decision.changes:
            state = evolve(state, change)
        broker_set = state.sets[broker_set.broker_name]
        yield {
            "died": sorted(dead),
            "winner": broker_set.master_broker_id if decision.refusal is None else None,
            "sync_state_set": list(broker_set.sync_state_set),
            "labels": list(decision.labels),
            "refusal": None if decision.refusal is None else decision.refusal.name,
            "candidates": [asdict(one) for one in decision.candidates],
        }


def _row(broker_id: int, words: Mapping[int, LastEvidence], dead: set[int]) -> ReplicaEvidence:
    word = words.get(broker_id)
    if word is None:
        return ReplicaEvidence(broker_id, False, REASON_REFUSED)
    told = word.evidence
    alive = told.alive and broker_id not in dead
    reason = REASON_HEARTBEAT if alive else REASON_REFUSED
    numbers = (
        told.epoch,
        told.max_offset,
        told.confirm_offset,
        told.election_priority,
        told.incarnation,
    )
    return ReplicaEvidence(broker_id, alive, reason, 0, *numbers)


def _replica(
    broker_set: BrokerSet, broker_id: int, words: Mapping[int, LastEvidence]
) -> dict[str, Any]:
    replica, word = broker_set.replica(broker_id), words.get(broker_id)
    assert replica is not None
    return {
        "broker_id": broker_id,
        "address": replica.address or None,
        "in_set": broker_id in broker_set.sync_state_set,
        "clean": replica.clean,
        "alive": None if word is None else word.evidence.alive,
        "epoch": None if word is None or word.evidence.epoch == UNKNOWN else word.evidence.epoch,
        "max_offset": None
        if word is None or word.evidence.max_offset == UNKNOWN
        else word.evidence.max_offset,
        "told_ms": None if word is None else word.at_ms,
        "told_by": None if word is None else word.source,
    }


def _recovery(broker_name: str, failovers: Sequence[Row]) -> list[dict[str, Any]]:
    """How long failovers took until messages were acknowledged again, by what befell the master;
    hand-overs are none.
    """
    found = []
    for kind in (*KINDS.values(), OTHER_CAUSES):
        of_kind = [
            row for row in failovers if _kind_of(row) == kind and row["unavailable_ms"] is not None
        ]
        own = [row for row in of_kind if row["broker_name"] == broker_name]
        used = own if len(own) >= OWN_PAST_MIN else of_kind
        took = [row["unavailable_ms"] for row in used]
        if not took:
            continue
        found.append(
            {
                "kind": kind,
                "of": "set" if used is own else "cluster",
                "n": len(took),
                "shortest_ms": min(took),
                "median_ms": percentile(took, 50),
                "p95_ms": percentile(took, 95),
                "longest_ms": max(took),
            }
        )
    return found


def _kind_of(row: Row) -> str:
    if "DESIGNATED" in row["labels"]:
        return ""
    return KINDS.get(row["cause"], OTHER_CAUSES)


def _risk(
    broker_set: BrokerSet, winner: int | None, words: Mapping[int, LastEvidence]
) -> dict[str, Any]:
    """What would be missing. Acknowledged bytes are on every member (S1), so only a master alone
    in its set risks them; bytes beyond its confirm offset were never acknowledged.
    """
    master = words.get(broker_set.master_broker_id or NO_BROKER_ID)
    others = [
        broker_id
        for broker_id in broker_set.sync_state_set
        if broker_id != broker_set.master_broker_id
    ]
    held = [
        word.evidence.max_offset
        for broker_id, word in words.items()
        if broker_id != broker_set.master_broker_id
    ]
    end = UNKNOWN if master is None else master.evidence.max_offset
    confirmed = UNKNOWN if master is None else master.evidence.confirm_offset
    alone = (
        None
        if UNKNOWN in (end, confirmed) or not held
        else max(0, min(end, confirmed) - max(0, *held))
    )
    if broker_set.master_broker_id is None:
        return {
            "acknowledged_bytes": None,
            "unacknowledged_bytes": None,
            "why": ("there is no master"),
        }
    unsent = None if UNKNOWN in (end, confirmed) else max(0, end - confirmed)
    if others:
        return {
            "acknowledged_bytes": 0,
            "unacknowledged_bytes": unsent,
            "why": ("every member of the set holds what was acknowledged"),
        }
    why = ("the master is alone in its set") + (
        "" if winner is None else ", an unclean election may lose messages"
    )
    return {"acknowledged_bytes": alone, "unacknowledged_bytes": unsent, "why": why}
