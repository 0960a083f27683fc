"""
The state of the controller at any moment, folded from the commands in bronze.

Responsible for choosing the records and for folding them with the one fold there is.
Refuses to know a rule, and to go on over a hole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict

from events.topics import COMMANDS_TOPIC
from lakehouse import wording
from lakehouse.delta_tables import milliseconds, read
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.lake import Lake
from lakehouse.tables import BRONZE
from processors.fold import Folder, HoleInLog, ReleaseTooOld
from processors.state import BrokerSet, ControllerState


def state_at(
    lake: Lake, *, offset: int | None = None, at_ms: int | None = None
) -> dict[str, Any]:
    """
    The state after the command at `offset`, or after the last one that the log took at `at_ms`
    or before; after the last landed one when neither is given.

    Raises `NotLanded` when that command has not landed, `LakehouseError` at a hole.
    """
    filters: list[tuple[str, str, Any]] = [("topic", "=", COMMANDS_TOPIC), ("partition", "=", 0)]
    if offset is not None:
        filters.append(("offset", "<=", offset))
    rows = read(lake, BRONZE, columns=["offset", "timestamp", "value"], filters=filters)
    times = (at or 0 for at in milliseconds(rows["timestamp"]))
    landed = list(zip(rows["offset"].to_pylist(), times, rows["value"].to_pylist(), strict=True))
    if not landed or (offset is not None and landed[-1][0] < offset):
        last = landed[-1][0] if landed else "none"
        raise NotLanded(f"command {offset if offset is not None else 0} has not landed: last {last}")
    taken = [row for row in landed if at_ms is None or row[1] <= at_ms]
    if at_ms is not None:
        # The log's timestamps may step back a little; what counts is the order of offsets.
        last_in_time = max((row[0] for row in taken), default=-1)
        taken = [row for row in landed if row[0] <= last_in_time]
    if not taken:
        raise NotLanded(f"no command had been taken by {wording.moment(at_ms)} UTC")
    folder = fold((number, value) for number, _, value in taken)
    return _model(folder, taken[-1][1])


def fold(records: Iterable[tuple[int, bytes | None]]) -> Folder:
    """Fold commands in order. Raises `LakehouseError` with the offset where it cannot go on."""
    folder = Folder()
    for number, value in records:
        try:
            folder.apply(number, value or b"")
        except (HoleInLog, ReleaseTooOld) as error:
            raise LakehouseError(f"history cannot be folded at offset {number}: {error}") from error
    return folder


def state_text(model: Mapping[str, Any]) -> str:
    """The state for people."""
    lines = [
        f"after command {model['offset']} of {wording.moment(model['at_ms'])} UTC, "
        f"digest {model['digest'][:16]}…",
        f"cluster {model['cluster_id']}  term {model['term']}  leader {model['leader_id'] or '-'}"
        f" at {model['leader_address'] or '-'}  rules {model['rules_version']}",
    ]
    for broker_set in model["sets"]:
        lines += ["", *_set_lines(broker_set)]
    return "\n".join(lines)


def _model(folder: Folder, at_ms: int) -> dict[str, Any]:
    state: ControllerState = folder.state
    return {
        "offset": folder.offset,
        "at_ms": at_ms,
        "digest": folder.digest.hex(),
        "cluster_id": state.cluster_id,
        "term": state.term,
        "leader_id": state.leader_id,
        "leader_address": state.leader_address,
        "rules_version": state.rules_version,
        "settings": dict(sorted(state.settings.items())),
        "sets": [_set_model(state.sets[name]) for name in sorted(state.sets)],
    }


def _set_model(broker_set: BrokerSet) -> dict[str, Any]:
    model = asdict(broker_set)
    model["replicas"] = [asdict(replica) for replica in broker_set.replicas]
    for name in ("sync_state_set", "unclean_members"):
        model[name] = list(model[name])
    return model


def _set_lines(broker_set: Mapping[str, Any]) -> list[str]:
    master = broker_set["master_broker_id"]
    lines = [
        f"{broker_set['broker_name']} ({broker_set['cluster_name']}): master "
        f"{master if master is not None else '-'} in epoch {broker_set['master_epoch']}, set "
        f"{wording.members(broker_set['sync_state_set'])} epoch "
        f"{broker_set['sync_state_set_epoch']}, next id {broker_set['next_broker_id']}"
        + (", tombstone" if broker_set["tombstone"] else "")
    ]
    rows = [
        (
            replica["broker_id"],
            replica["address"],
            "master" if replica["broker_id"] == master else "slave",
            "yes" if replica["broker_id"] in broker_set["sync_state_set"] else "no",
            "yes" if replica["clean"] else "no",
            replica["incarnation"] or "-",
        )
        for replica in broker_set["replicas"]
    ]
    head = ("id", "address", "role", "in set", "clean", "incarnation")
    return lines + ([wording.text_table(head, rows, "  ")] if rows else [])
