"""The state of the controller at any moment, folded from the commands in bronze.

Responsible for choosing the records and for folding them with the one fold there is.
Refuses to know a rule, and to go on over a hole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import asdict

from events.topics import COMMANDS_TOPIC
from lakehouse import wording
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.gold import progress
from lakehouse.proof import kept
from lakehouse.tables.bronze_log import BronzeLog, LandedRecord
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, TIMESTAMP
from processors.fold.folder import Folder, HoleInLog, ReleaseTooOld
from processors.fold.state import BrokerSet, ControllerState

RECORDS_TOGETHER = 512
"""Folded at once: a quarter faster than one by one."""


def state_at(lake: Lake, *, offset: int | None = None, at_ms: int | None = None) -> dict[str, Any]:
    """The state after a command, named as for `folder_at`; folded from the newest state that the
    gold job or a proof kept.

    Raises `NotLanded` when that command has not landed, `LakehouseError` at a hole.
    """
    log, last = _asked(lake, offset, at_ms)
    begun, begun_ms = _kept(lake, last)
    first = begun.next_offset
    return _model(*fold_up_to(log.landed(first), last, begun, begun_ms), first)


def _kept(lake: Lake, last: int) -> tuple[Folder, int]:
    """The newest state of what was folded before, up to `last`, and when the log took its command;
    else the beginning.
    """
    gold = progress.newest_state(lake, last)
    if (
        gold is not None
        and gold.folder.offset >= last // kept.RANGE_RECORDS * kept.RANGE_RECORDS - 1
    ):
        return gold.folder, gold.at_ms  # No proof can have kept a newer one.
    proven = kept.newest_state(lake, last) or Folder()
    return (
        (gold.folder, gold.at_ms)
        if gold is not None and gold.folder.offset > proven.offset
        else (proven, 0)
    )


def folder_at(
    lake: Lake, *, offset: int | None = None, at_ms: int | None = None
) -> tuple[Folder, int]:
    """The folder after a command, folded from the first one, and when the log took that command
    (ms since 1970-01-01 UTC).

    The command is the one at `offset`, or the last one that the log took at `at_ms` or before; the
    last landed one when neither is given. Raises `NotLanded`, `LakehouseError`.
    """
    log, last = _asked(lake, offset, at_ms)
    return fold_up_to(log.landed(), last)


def _asked(lake: Lake, offset: int | None, at_ms: int | None) -> tuple[BronzeLog, int]:
    """The commands, and the last one that is asked for."""
    log = BronzeLog(lake, COMMANDS_TOPIC)
    if log.end <= (offset or 0):
        last = log.end - 1 if log.end else "none"
        raise NotLanded(f"command {offset or 0} has not landed: last {last}")
    if at_ms is not None:
        return log, last_offset_at(lake, at_ms)
    return log, log.end - 1 if offset is None else offset


def fold_up_to(
    records: Iterable[LandedRecord], last: int, folder: Folder | None = None, at_ms: int = 0
) -> tuple[Folder, int]:
    """Fold commands up to `last`, from offset 0 or from the next one of `folder`, which goes on;
    with it the time of the last one.

    `at_ms`: when the log took the last one of `folder`.

    Raises `LakehouseError` at a hole.
    """
    folder = Folder() if folder is None else folder
    wanted = iter(records)
    while folder.offset < last:
        piece = list(islice(wanted, min(RECORDS_TOGETHER, last - folder.offset)))
        whole = [one for place, one in enumerate(piece, folder.next_offset) if one.offset == place]
        try:
            folder.apply_many(folder.next_offset, [one.value or b"" for one in whole])
            if len(whole) < len(piece) or not piece:
                raise HoleInLog(folder.next_offset, piece[len(whole)].offset if piece else last + 1)
        except (HoleInLog, ReleaseTooOld) as error:
            raise LakehouseError(
                f"history cannot be folded at offset {folder.next_offset}: {error}"
            ) from error
        at_ms = piece[-1].timestamp_ms or 0
    return folder, at_ms


def last_offset_at(lake: Lake, at_ms: int) -> int:
    """The last command that the log took at `at_ms` (since 1970-01-01 UTC) or before. Raises
    `NotLanded` when there was none.

    The log's timestamps may step back a little; what counts is the order of offsets.
    """
    where = [("topic", "=", COMMANDS_TOPIC), ("partition", "=", 0)]
    rows = read(lake, BRONZE, columns=["offset", "timestamp"], filters=where)
    within = pc.less(rows["timestamp"], pa.scalar((at_ms + 1) * 1000, TIMESTAMP))
    found = pc.max(rows["offset"].filter(within)).as_py()
    if found is None:
        raise NotLanded(f"no command had been taken by {wording.moment(at_ms)} UTC")
    return int(found)


def state_text(model: Mapping[str, Any]) -> str:
    """The state for people."""
    lines = [
        (
            f"after command {model['offset']} of {wording.moment(model['at_ms'])} UTC, "
            f"digest {model['digest'][:16]}…"
        ),
        (
            f"cluster {model['cluster_id']}  term {model['term']}  leader "
            f"{model['leader_id'] or '-'} at {model['leader_address'] or '-'}  rules "
            f"{model['rules_version']}"
        ),
    ]
    if model["folded_from"]:
        lines.append(
            f"folded from command {model['folded_from']} on; what lies below is a state that was "
            "kept (by regent lake gold or regent verify)"
        )
    for broker_set in model["sets"]:
        lines += ["", *_set_lines(broker_set)]
    return "\n".join(lines)


def _model(folder: Folder, at_ms: int, first: int) -> dict[str, Any]:
    state: ControllerState = folder.state
    return {
        "offset": folder.offset,
        "at_ms": at_ms,
        "digest": folder.digest.hex(),
        "folded_from": first,
        "cluster_id": state.cluster_id,
        "term": state.term,
        "leader_id": state.leader_id,
        "leader_address": state.leader_address,
        "rules_version": state.rules_version,
        "settings": dict(sorted(state.settings.items())),
        "sets": [_set_model(state.sets[name]) for name in sorted(state.sets)],
    }


def set_text(broker_set: BrokerSet) -> str:
    """One set for people."""
    return "\n".join(_set_lines(_set_model(broker_set)))


def _set_model(broker_set: BrokerSet) -> dict[str, Any]:
    model = asdict(broker_set)
    for name in ("replicas", "positions"):
        model[name] = [asdict(one) for one in model[name]]
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
