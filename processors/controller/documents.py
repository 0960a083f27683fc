"""The status of a controller as one JSON document (request 19002).

Responsible for: its shape, which `regent status` and the supervisor read.
Refuses to know: where the numbers come from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import Fields
from processors.controller.context import CoreContext
from processors.controller.operator_needed import operator_needed
from processors.fold.state import BrokerSet, Replica
from processors.liveness.pulses import DEFAULT_PRIORITY
from processors.liveness.replicas import Liveness
from processors.settings import recorded

SETS_MAX = 1_000
"""Of more sets only the number is told, unless one is named: all would make the loop stand still.
19003 tells them in parts.
"""


def controller_status(
    request: RemotingCommand,
    context: CoreContext,
    *,
    started: bool,
    log_answers: bool,
    end_offset: int,
    published_offset: int,
) -> RemotingCommand:
    """`log_answers`: what is appended comes through, and what is new is learnt. Offsets count
    records; `end_offset` is the offset the next record will get, as far as it was learnt.
    `leader_unlisted`: it is none of the configured peers; `leader_changes`: within the last ten
    minutes.

    Whoever asks with `sets=false`, as those do who ask often, gets no sets; with `name=SET` that
    one.
    """
    state, folder, fields = context.state, context.folder, Fields(request.ext)
    document = {
        "kind": "controller",
        "name": context.config.controller_id,
        "ready": started and context.leader_address() is not None,
        "log_answers": log_answers,
        "role": "active" if context.is_active else "standby",
        "term": state.term,
        "leader": state.leader_id,
        "leader_address": state.leader_address,
        "leader_unlisted": context.leadership.unlisted_leader is not None,
        "leader_changes": context.leadership.changes(context.now_ms),
        "cluster_id": state.cluster_id,
        "applied_offset": folder.offset,
        "end_offset": max(end_offset, folder.offset + 1),
        "published_offset": published_offset,
        "http_address": context.config.http_address or None,
        "wall_ms": context.wall_ms,
        "digest": folder.digest.hex(),
        **(
            {}
            if fields.text("sets", "").lower() == "false"
            else _sets(context, fields.text("name", ""))
        ),
    }
    return request.reply(0, body=fastjson.dumps(document))


def _sets(context: CoreContext, name: str) -> dict[str, object]:
    known = [one for one in context.state.sets.values() if not one.tombstone]
    shown = [one for one in known if one.broker_name == name] if name else known
    shown = shown if len(shown) <= SETS_MAX else []
    return {
        "sets_known": len(known),
        "sets": {
            one.broker_name: _set_document(one, context)
            for one in sorted(shown, key=lambda one: one.broker_name)
        },
    }


def _set_document(broker_set: BrokerSet, context: CoreContext) -> dict[str, object]:
    master = broker_set.master()
    return {
        **_decided(broker_set, context),
        "master_address": None if master is None else master.address,
        "members": [
            _member(broker_set, replica, context.liveness, context.now_ms)
            for replica in broker_set.replicas
        ],
    }


def _decided(broker_set: BrokerSet, context: CoreContext) -> dict[str, object]:
    """What every document says of a set: what was decided, and whether it needs a person."""
    needed = operator_needed(broker_set, context)
    return {
        "cluster": broker_set.cluster_name,
        "master": broker_set.master_broker_id,
        "master_epoch": broker_set.master_epoch,
        "sync_state_set": list(broker_set.sync_state_set),
        "sync_state_set_epoch": broker_set.sync_state_set_epoch,
        "operator_needed": None
        if needed is None
        else {"reason": needed.reason, "way_out": needed.way_out},
    }


def _member(
    broker_set: BrokerSet, replica: Replica, liveness: Liveness, now_ms: int
) -> dict[str, object]:
    return {
        "id": replica.broker_id,
        "address": replica.address,
        "ha_address": replica.ha_address,
        "in_set": replica.broker_id in broker_set.sync_state_set,
        "clean": replica.clean,
        **_heard(broker_set, replica, liveness, now_ms),
    }


def _heard(
    broker_set: BrokerSet, replica: Replica, liveness: Liveness, now_ms: int
) -> dict[str, object]:
    """What was heard of a replica; -1 for what was not."""
    pulse = liveness.pulse((broker_set.cluster_name, broker_set.broker_name, replica.broker_id))
    return {
        "alive": liveness.is_alive(broker_set, replica, now_ms),
        "reason": liveness.reason_of(broker_set, replica, now_ms),
        "epoch": -1 if pulse is None else pulse.epoch,
        "max_offset": -1 if pulse is None else pulse.max_offset,
        "confirm_offset": -1 if pulse is None else pulse.confirm_offset,
        "silent_ms": -1 if pulse is None else max(0, now_ms - pulse.heard_ms),
    }


RepeatsOf = Callable[[str], list[dict[str, object]]]
"""Set name -> rows of code, refusal, count, last_ms (wall): refused requests that were repeated."""


PART_SETS = 200
PART_BYTES = 262_144
"""Sets and bytes of one part; then `next` names its last set, to be asked
on from.
"""
WHOLE_SETS, WHOLE_BYTES = 1_000, 8_388_608
"""Sets and bytes of one answer to a caller that does not ask for parts."""
_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


class TooManySets(Exception):
    """All sets were asked for in one answer."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which sets. `after`: a part, of the sets whose names come after this one; else the set
    `name`, else all, or none.
    """

    name: str | None = None
    after: str | None = None
    sets: bool = True


def state_document(context: CoreContext, wanted: Wanted, repeats_of: RepeatsOf) -> bytes:
    """Tombstones are sets too; absent facts are null. Raises TooManySets."""
    state = context.state
    document = {
        "cluster_id": state.cluster_id,
        "term": state.term,
        "leader": state.leader_id,
        "leader_address": state.leader_address,
        "rules_version": state.rules_version,
        "supported_rules": list(context.config.supported_rules),
        "settings": {
            "all": dict(sorted(state.settings.items())),
            "effective": recorded.in_force(state),
        },
        "controllers": controllers(context),
        "applied_offset": context.folder.offset,
        "digest": context.folder.digest.hex(),
        "sets_known": len(state.sets),
    }
    names = _names(context, wanted)
    rows = _rows(
        context, names, PART_BYTES if wanted.after is not None else WHOLE_BYTES, repeats_of
    )
    if wanted.after is None and len(rows) < len(names):
        raise _too_many(len(names))
    if wanted.after is not None and (len(names) == PART_SETS or len(rows) < len(names)):
        document["next"] = names[len(rows) - 1]
    return f'{_encode(document)[:-1]},"sets":{{{",".join(rows)}}}}}'.encode()


def _rows(
    context: CoreContext, names: Sequence[str], bytes_max: int, repeats_of: RepeatsOf
) -> list[str]:
    """A name and its set each, until there is no more room."""
    rows: list[str] = []
    size = 0
    for name in names:
        rows.append(
            f"{_encode(name)}:{_encode(_set(context.state.sets[name], context, repeats_of(name)))}"
        )
        size += len(rows[-1])
        if size >= bytes_max:
            break
    return rows


def _names(context: CoreContext, wanted: Wanted) -> list[str]:
    sets = context.state.sets
    if not wanted.sets:
        return []
    if wanted.name is not None:
        return [wanted.name] if wanted.name in sets else []
    if wanted.after is None:
        if len(sets) > WHOLE_SETS:
            raise _too_many(len(sets))
        return sorted(sets)
    after = wanted.after
    return nsmallest(PART_SETS, (name for name in sets if name > after))


def _too_many(sets: int) -> TooManySets:
    return TooManySets(
        f"{sets} broker sets are too many for one answer: ask for one by brokerName, or for parts "
        "by after"
    )


def controllers(context: CoreContext) -> list[dict[str, object]]:
    """Every configured controller, this one included, by id."""
    config = context.config
    rows = [
        {
            "id": config.controller_id,
            "address": config.address,
            "release": config.release,
            "rules": list(config.supported_rules),
            "role": "active" if context.is_active else "standby",
            "alive": True,
            "http_address": config.http_address or None,
        }
    ]
    for peer_id, sight in context.leadership.peers.items():
        word = context.peer_reports.last_report(peer_id)
        rows.append(
            {
                "id": peer_id,
                "address": sight.address,
                "release": None if word is None else word.release,
                "rules": [] if word is None else list(word.rules),
                "role": "active" if peer_id == context.state.leader_id else "standby",
                "alive": context.peer_reports.report(peer_id, context.now_ms) is not None,
                "http_address": (word.http_address or None) if word is not None else None,
            }
        )
    return sorted(rows, key=lambda row: str(row["id"]))


def _set(
    broker_set: BrokerSet, context: CoreContext, repeats: list[dict[str, object]]
) -> dict[str, object]:
    return {
        **_decided(broker_set, context),
        "tombstone": broker_set.tombstone,
        "next_broker_id": broker_set.next_broker_id,
        "highest_epoch_seen": broker_set.highest_epoch_seen,
        "at_risk": context.is_at_risk(broker_set.broker_name),
        "unclean_members": list(broker_set.unclean_members),
        "remembered": list(broker_set.remembered),
        "uncertain": list(broker_set.uncertain),
        "master_restarted": broker_set.master_restarted,
        "imported": broker_set.imported,
        "repeated_refusals": repeats,
        "replicas": [_replica(broker_set, one, context) for one in broker_set.replicas],
    }


def _replica(broker_set: BrokerSet, replica: Replica, context: CoreContext) -> dict[str, object]:
    pulse = context.liveness.pulse(
        (broker_set.cluster_name, broker_set.broker_name, replica.broker_id)
    )
    return {
        "id": replica.broker_id,
        "address": replica.address,
        "ha_address": replica.ha_address,
        "registered": replica.is_registered,
        "clean": replica.clean,
        "is_regent": replica.is_regent,
        "incarnation": replica.incarnation,
        **_heard(broker_set, replica, context.liveness, context.now_ms),
        "priority": DEFAULT_PRIORITY if pulse is None else pulse.election_priority,
    }
