"""What held from when to when: SyncStateSets, controller terms, ids of replicas.

Responsible for `gold/sync_state_set_intervals`, `gold/controller_terms` and `gold/broker_identity`.
Each function takes the rows of earlier runs that still hold and gives what began or ended since.
"""

from __future__ import annotations

from collections.abc import Iterable

from events.changes import BrokerSetImported, LeadershipClaimed, MasterElected, SyncStateSetAltered
from lakehouse.gold.fold import SetChange
from lakehouse.gold.spans import Row, Spans
from processors.fold.state import BrokerSet

REASON_ELECTED = "ELECTED"
REASON_IMPORTED = "IMPORTED"


def sync_state_set_rows(changes: Iterable[SetChange], open_rows: Iterable[Row] = ()) -> list[Row]:
    """One row for each epoch of a SyncStateSet; none for a set that never had one."""
    spans = Spans(("cluster_id", "broker_name"), open_rows)
    for change in changes:
        after = change.after
        if after is None or _epoch_of(change.before) == _epoch_of(after):
            continue
        members = set(after.sync_state_set)
        before = set(() if change.before is None else change.before.sync_state_set)
        registered = {replica.broker_id for replica in after.replicas if replica.is_registered}
        row = {
            "cluster_id": change.cluster_id,
            "broker_name": after.broker_name,
            "sync_state_set_epoch": after.sync_state_set_epoch,
            "sync_state_set": sorted(members),
            "joined": sorted(members - before),
            "left": sorted(before - members),
            "reason": _reason(change),
            "missing": sorted(registered - members),
        }
        spans.begin(row, change.offset, change.at_ms)
    return spans.rows()


def term_rows(changes: Iterable[SetChange], open_rows: Iterable[Row] = ()) -> list[Row]:
    """One row for each term; a claim ends the term before it, and the record that claims is in the
    new one.
    """
    spans = Spans(("cluster_id",), open_rows)
    for change in changes:
        for claim in change.outcome.changes:
            if isinstance(claim, LeadershipClaimed):
                row = {
                    "cluster_id": change.cluster_id,
                    "term": claim.term,
                    "controller_id": claim.controller_id,
                    "controller_address": claim.controller_address,
                    "release": claim.release,
                }
                spans.begin(row, change.offset, change.at_ms)
    return spans.rows()


def identity_rows(changes: Iterable[SetChange], open_rows: Iterable[Row] = ()) -> list[Row]:
    """One row for each id given to a replica, until it was cleaned or came over with another check
    code.
    """
    spans = Spans(("cluster_id", "broker_name", "broker_id"), open_rows)
    for change in changes:
        if change.after is None or not change.is_changed:
            continue
        name, known = change.after.broker_name, _codes(change.before)
        for replica in change.after.replicas:
            if known.pop(replica.broker_id, None) == replica.register_check_code:
                continue
            row = {
                "cluster_id": change.cluster_id,
                "broker_name": name,
                "broker_id": replica.broker_id,
                "register_check_code": replica.register_check_code,
                "address": replica.address,
                "given_by": change.outcome.kind,
            }
            spans.begin(row, change.offset, change.at_ms)
        for gone in known:
            spans.end(change.cluster_id, name, gone, offset=change.offset, at_ms=change.at_ms)
    return spans.rows()


def _epoch_of(broker_set: BrokerSet | None) -> int:
    return 0 if broker_set is None else broker_set.sync_state_set_epoch


def _codes(broker_set: BrokerSet | None) -> dict[int, str]:
    return (
        {}
        if broker_set is None
        else {r.broker_id: r.register_check_code for r in broker_set.replicas}
    )


def _reason(change: SetChange) -> str:
    """Why the set is another one, by the last change that says so."""
    reason = ""
    for one in change.outcome.changes:
        match one:
            case MasterElected():
                reason = REASON_ELECTED
            case BrokerSetImported():
                reason = REASON_IMPORTED
            case SyncStateSetAltered():
                reason = one.reason
    return reason
