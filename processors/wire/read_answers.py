"""State to RocketMQ's answers to reads: 1004, 1006 and 1012 (controller.md 3.5, 3.7, 3.11).

Responsible for: their header fields, bodies and remarks.
Refuses to know: whether the state is current (`controller.reads`).
"""

from __future__ import annotations

from collections.abc import Iterable

from brokers.remoting import fastjson
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from processors.fold.state import BrokerSet, ControllerState
from processors.wire.answers import IsAlive, echo, master_fields, set_body, set_facts

_ID_DIGITS_MAX = 19
"""A long; of thousands of digits Python makes no number."""


def replica_info(
    request: RemotingCommand, state: ControllerState, at_risk: bool = False
) -> RemotingCommand:
    """1004: no liveness check, `masterEpoch` always present (controller.md 3.5)."""
    broker_set = known_set(state, request.ext.get("brokerName", ""))
    if broker_set is None:
        return request.reply(
            ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
            remark=f"Broker metadata of {request.ext.get('brokerName', '')} is not existed",
        )
    if asked_by_another_start(request, broker_set, request.ext.get("regentBrokerId", "")):
        return request.reply(
            ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
            remark="another start of this broker is registered; register again",
        )
    ext = master_fields(broker_set)
    del ext["syncStateSetEpoch"]
    return request.reply(0, set_facts(state, broker_set, at_risk) | ext, set_body(broker_set))


def asked_by_another_start(request: RemotingCommand, broker_set: BrokerSet, broker_id: str) -> bool:
    """A registration can reach the log late, behind the one of the next start: then who lives is
    not who is registered, its heartbeats count for nothing, and only its registering again ends
    that (S5).
    """
    if not (broker_id.isascii() and broker_id.isdigit() and len(broker_id) <= _ID_DIGITS_MAX):
        return False
    replica = broker_set.replica(int(broker_id))
    if replica is None or not replica.is_registered or replica.incarnation is None:
        return False
    return replica.incarnation != request.ext.get("regentIncarnation")


def next_broker_id(request: RemotingCommand, state: ControllerState) -> RemotingCommand:
    """1012: never refuses; a set nobody knows starts at 1, a cleaned one goes on (controller.md
    5.1, S9).
    """
    broker_set = state.sets.get(request.ext.get("brokerName", ""))
    next_id = 1 if broker_set is None else broker_set.next_broker_id
    return request.reply(0, echo(request) | {"nextBrokerId": str(next_id)})


def sync_state_data(
    request: RemotingCommand, names: Iterable[str], state: ControllerState, is_alive: IsAlive
) -> RemotingCommand:
    """1006: unknown names are skipped (controller.md 3.7)."""
    table: dict[str, object] = {}
    for name in names:
        broker_set = known_set(state, name)
        if broker_set is not None:
            table[name] = _replicas_info(broker_set, is_alive)
    return request.reply(0, body=fastjson.dumps({"replicasInfoTable": table}))


def _replicas_info(broker_set: BrokerSet, is_alive: IsAlive) -> dict[str, object]:
    inside: list[object] = []
    outside: list[object] = []
    for replica in broker_set.replicas:
        row = {
            "alive": is_alive(broker_set, replica),
            "brokerAddress": replica.address,
            "brokerId": replica.broker_id,
            "brokerName": broker_set.broker_name,
        }
        (inside if replica.broker_id in broker_set.sync_state_set else outside).append(row)
    master = broker_set.master()
    return {
        "inSyncReplicas": inside,
        "masterAddress": None if master is None else master.address,
        "masterBrokerId": broker_set.master_broker_id,
        "masterEpoch": broker_set.master_epoch,
        "notInSyncReplicas": outside,
        "syncStateSetEpoch": broker_set.sync_state_set_epoch,
    }


def known_set(state: ControllerState, name: str) -> BrokerSet | None:
    """The set, unless it was never formed or all of it was cleaned away."""
    broker_set = state.sets.get(name)
    return None if broker_set is None or broker_set.tombstone else broker_set
