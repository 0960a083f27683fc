"""The status of a controller as one JSON document (request 19002).

Responsible for: its shape, which `regent status` and the supervisor read.
Refuses to know: where the numbers come from.
"""

from __future__ import annotations

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from processors.controller.context import CoreContext
from processors.controller.operator_needed import operator_needed
from processors.fold.state import BrokerSet, Replica
from processors.liveness.replicas import Liveness
from processors.wire.requests import Fields

SETS_MAX = 1_000
"""Of more sets only the number is told, unless one is named: all would make the loop stand still.
19003 tells them in parts.
"""


def controller_status(
    request: RemotingCommand,
    context: CoreContext,
    *,
    started: bool,
    end_offset: int,
    published_offset: int,
) -> RemotingCommand:
    """Offsets count records; `end_offset` is the offset the next record will get, as far as it was
    learnt.

    Whoever asks with `sets=false`, as those do who ask often, gets no sets; with `name=SET` that
    one.
    """
    state, folder, fields = context.state, context.folder, Fields(request.ext)
    document = {
        "kind": "controller",
        "name": context.config.controller_id,
        "ready": started and context.leader_address() is not None,
        "role": "active" if context.is_active else "standby",
        "term": state.term,
        "leader": state.leader_id,
        "leader_address": state.leader_address,
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
    master, needed = broker_set.master(), operator_needed(broker_set, context)
    return {
        "cluster": broker_set.cluster_name,
        "master": broker_set.master_broker_id,
        "master_address": None if master is None else master.address,
        "master_epoch": broker_set.master_epoch,
        "sync_state_set": list(broker_set.sync_state_set),
        "sync_state_set_epoch": broker_set.sync_state_set_epoch,
        "operator_needed": None
        if needed is None
        else {"reason": needed.reason, "way_out": needed.way_out},
        "members": [
            _member(broker_set, replica, context.liveness, context.now_ms)
            for replica in broker_set.replicas
        ],
    }


def _member(
    broker_set: BrokerSet, replica: Replica, liveness: Liveness, now_ms: int
) -> dict[str, object]:
    pulse = liveness.pulse((broker_set.cluster_name, broker_set.broker_name, replica.broker_id))
    reason = liveness.reason_of(broker_set, replica, now_ms)
    return {
        "id": replica.broker_id,
        "address": replica.address,
        "ha_address": replica.ha_address,
        "alive": liveness.is_alive(broker_set, replica, now_ms),
        "reason": reason,
        "in_set": replica.broker_id in broker_set.sync_state_set,
        "clean": replica.clean,
        "epoch": -1 if pulse is None else pulse.epoch,
        "max_offset": -1 if pulse is None else pulse.max_offset,
        "confirm_offset": -1 if pulse is None else pulse.confirm_offset,
        "silent_ms": -1 if pulse is None else max(0, now_ms - pulse.heard_ms),
    }
