"""What was asked of the controllers and how it ended: elections, and all that was refused.

Responsible for `gold/elections` and `gold/refused_commands`. Each row is made from one record
alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import asdict

from events.changes import MasterElected
from events.commands import ElectMaster
from events.outcomes import LABEL_REPEAT, Outcome
from lakehouse.gold.fold import SetChange
from lakehouse.gold.spans import Row
from processors.fold.state import BrokerSet

VERDICT_CHOSEN = "CHOSEN"


def election_rows(changes: Iterable[SetChange]) -> list[Row]:
    """One row for each `ElectMaster`, refused and repeated ones too."""
    return [
        _election(change, change.command)
        for change in changes
        if isinstance(change.command, ElectMaster)
    ]


def refused_rows(changes: Iterable[SetChange]) -> list[Row]:
    """One row for each record that was refused; a repeat of a refused one gets a row, too."""
    return [_refused(change) for change in changes if not change.outcome.accepted]


def _election(change: SetChange, command: ElectMaster) -> Row:
    outcome, envelope = change.outcome, command.envelope
    before = (
        BrokerSet(command.cluster_name, command.broker_name)
        if change.before is None
        else change.before
    )
    stamps = outcome.phases
    return {
        "cluster_id": change.cluster_id,
        "broker_name": command.broker_name,
        "offset": change.offset,
        "at_ms": change.at_ms,
        "term": outcome.term,
        "issuer": envelope.issuer,
        "requested_by": envelope.requested_by,
        "cause": envelope.cause,
        "designated_broker_id": command.broker_id if command.designate else None,
        "accepted": outcome.accepted,
        "refusal": outcome.refusal,
        "code": outcome.code,
        "labels": list(outcome.labels),
        "previous_master": before.master_broker_id,
        "previous_epoch": before.master_epoch,
        "previous_set": list(before.sync_state_set),
        "evidence": [asdict(one) for one in command.evidence],
        "candidates": [asdict(one) for one in outcome.candidates],
        **_result(outcome),
        "reason": _reason(outcome),
        "phases": sorted(stamps.items()),
        "took_ms": max(stamps.values()) - min(stamps.values()) if stamps else None,
    }


def _result(outcome: Outcome) -> Row:
    won = next((one for one in outcome.changes if isinstance(one, MasterElected)), None)
    return {
        "winner": None if won is None else won.master_broker_id,
        "winner_address": None if won is None else won.master_address,
        "master_epoch": None if won is None else won.master_epoch,
        "sync_state_set": None if won is None else list(won.sync_state_set),
    }


def _reason(outcome: Outcome) -> str:
    if LABEL_REPEAT in outcome.labels:
        return "the answer of an earlier command was told again"
    if outcome.refusal is not None:
        return outcome.refusal
    others = sorted({one.verdict for one in outcome.candidates} - {VERDICT_CHOSEN})
    return f"chosen, the others: {', '.join(others)}" if others else "nobody else was there"


def _refused(change: SetChange) -> Row:
    outcome = change.outcome
    envelope = None if change.command is None else change.command.envelope
    return {
        "cluster_id": change.cluster_id,
        "offset": change.offset,
        "at_ms": change.at_ms,
        "kind": outcome.kind,
        "broker_name": outcome.broker_name,
        "refusal": outcome.refusal,
        "code": outcome.code,
        "cause": outcome.cause,
        "issuer": None if envelope is None else envelope.issuer,
        "requested_by": None if envelope is None else envelope.requested_by,
        "command_term": None if envelope is None else envelope.term,
        "term": outcome.term,
        "changed": change.is_changed,
    }
