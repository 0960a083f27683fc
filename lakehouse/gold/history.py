"""Broker sets as rows: as they are, and as they were between which offsets.

Responsible for `gold/broker_sets` and `gold/broker_set_history`. Refuses to know what led to a
state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict

from lakehouse.gold.fold import SetChange
from lakehouse.gold.spans import Row, Spans
from lakehouse.gold.specs import STATE
from processors.fold.state import BrokerSet, Replica


def broker_set_rows(changes: Iterable[SetChange]) -> list[Row]:
    """The sets that changed, each as it is after the last of the changes, in the order of their
    names.
    """
    found: dict[tuple[str, str], Row] = {}
    for change in changes:
        if change.after is not None and change.is_changed:
            key = (change.cluster_id, change.after.broker_name)
            decided = {"offset": change.offset, "at_ms": change.at_ms}
            found[key] = {
                "cluster_id": key[0],
                "broker_name": key[1],
                **decided,
                **_state(change.after),
            }
    return [found[key] for key in sorted(found)]


def history_rows(changes: Iterable[SetChange], open_rows: Iterable[Row] = ()) -> list[Row]:
    """One row for each change of a set. `open_rows` are those of earlier runs that still hold.

    A decision that left a set as it was begins no row: the one before goes on.
    """
    spans = Spans(("cluster_id", "broker_name"), open_rows)
    for change in changes:
        if change.after is not None and change.is_changed:
            spans.begin(_history_row(change, change.after), change.offset, change.at_ms)
    return spans.rows()


def _history_row(change: SetChange, after: BrokerSet) -> Row:
    outcome = change.outcome
    return {
        "cluster_id": change.cluster_id,
        "broker_name": after.broker_name,
        "kind": outcome.kind,
        "cause": outcome.cause,
        "term": outcome.term,
        "refusal": outcome.refusal,
        "digest": outcome.digest.hex(),
        "digest_agrees": change.digest_agrees,
        **_state(after),
    }


def _state(broker_set: BrokerSet) -> dict[str, Any]:
    """The columns of `STATE`: the set's own fields, but for two."""
    master = broker_set.master()
    made = {
        "master_address": None if master is None else master.address,
        "replicas": [_replica(replica) for replica in broker_set.replicas],
    }
    return {column.name: _value(broker_set, column.name, made) for column in STATE}


def _value(broker_set: BrokerSet, name: str, made: Mapping[str, Any]) -> Any:
    if name in made:
        return made[name]
    value = getattr(broker_set, name)
    return list(value) if isinstance(value, tuple) else value


def _replica(replica: Replica) -> dict[str, Any]:
    """Check codes stand in `gold/broker_identity` alone: readers of states need not see them."""
    row = asdict(replica)
    del row["register_check_code"]
    return row
