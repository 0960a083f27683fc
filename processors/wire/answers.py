"""Outcomes and state to RocketMQ answers (RULES 3, the response side, and 2.2).

Responsible for: the header fields, bodies and remarks of every answer of a controller, and of 1008.
Refuses to know: why the fold decided as it did, and the waiter for the answer.

Fields that start with `regent` are extra facts for our own processes; Java ignores them (design
D11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from msgspec import structs

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from events.outcomes import Outcome
from processors.fold.state import BrokerSet, ControllerState, Replica
from processors.wire.operator_requests import ADMIN_BUILDERS

NOT_LEADER_REMARK = "The controller is not in leader state"
UNKNOWN_REMARK = (
    "the outcome is unknown: the command may or may not be in the log; "
    "ask again with the same regentCommandId"
)

IsAlive: TypeAlias = Callable[[BrokerSet, Replica], bool]


def not_leader(request: RemotingCommand) -> RemotingCommand:
    """2007: no header fields, no body (RULES 2.2)."""
    return request.reply(ResponseCode.CONTROLLER_NOT_LEADER, remark=NOT_LEADER_REMARK)


def unknown(request: RemotingCommand, waited_ms: int) -> RemotingCommand:
    """Code 1 after the deadline. It says unknown and never failed (design D5)."""
    return request.reply(
        ResponseCode.SYSTEM_ERROR,
        remark=(f"no answer from the log within {waited_ms} ms; {UNKNOWN_REMARK}"),
    )


def unread(request: RemotingCommand, waited_ms: int) -> RemotingCommand:
    """Code 1 for a read that could not be served in time; reads change nothing."""
    return request.reply(
        ResponseCode.SYSTEM_ERROR,
        remark=(f"the log was not readable up to its end within {waited_ms} ms"),
    )


def set_body(broker_set: BrokerSet) -> bytes:
    """The SyncStateSet body of 1001, 1003, 1004 and 1008."""
    return fastjson.dumps(
        {
            "syncStateSet": list(broker_set.sync_state_set),
            "syncStateSetEpoch": broker_set.sync_state_set_epoch,
        }
    )


def set_facts(
    state: ControllerState, broker_set: BrokerSet, at_risk: bool = False
) -> dict[str, str]:
    """The extra fields about a set. Nothing in them names a master: that is the ordinary fields'
    part.
    """
    facts = {
        "regentTerm": str(state.term),
        "regentMasterEpoch": str(broker_set.master_epoch),
        "regentSyncStateSet": ",".join(map(str, broker_set.sync_state_set)),
        "regentSyncStateSetEpoch": str(broker_set.sync_state_set_epoch),
        "regentReplicas": ";".join(
            f"{replica.broker_id}={replica.address}" for replica in broker_set.replicas
        ),
    }
    if at_risk:
        facts["regentAtRisk"] = "true"
    return facts


def master_fields(broker_set: BrokerSet) -> dict[str, str]:
    """masterBrokerId, masterAddress, masterEpoch, syncStateSetEpoch; absent facts are left out."""
    fields = {
        "masterEpoch": str(broker_set.master_epoch),
        "syncStateSetEpoch": str(broker_set.sync_state_set_epoch),
    }
    if broker_set.master_broker_id is not None:
        fields["masterBrokerId"] = str(broker_set.master_broker_id)
    master = broker_set.master()
    if master is not None:
        fields["masterAddress"] = master.address
        if master.ha_address is not None:
            fields["regentMasterHaAddress"] = master.ha_address
    return fields


def from_outcome(
    request: RemotingCommand,
    outcome: Outcome,
    state: ControllerState,
    is_alive: IsAlive,
    at_risk: bool = False,
) -> RemotingCommand:
    """The answer to a request whose command has been applied; `state` is the state right after it.

    `at_risk`: the newest election of the set was labelled AT_RISK (design S5).
    """
    if outcome.code == ResponseCode.CONTROLLER_NOT_LEADER:
        return not_leader(request)
    broker_set = state.sets.get(outcome.broker_name) if outcome.broker_name else None
    match request.code:
        case RequestCode.CONTROLLER_APPLY_BROKER_ID:
            return request.reply(outcome.code, echo(request), remark=_remark(outcome))
        case RequestCode.CONTROLLER_REGISTER_BROKER:
            return _registered(request, outcome, state, broker_set, is_alive, at_risk)
        case RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET:
            return _altered(request, outcome, state, broker_set, at_risk)
        case RequestCode.CONTROLLER_ELECT_MASTER:
            return _elected(request, outcome, state, broker_set, at_risk)
        case code if code in ADMIN_BUILDERS:
            return _ours(request, outcome)
        case _:
            return request.reply(outcome.code, remark=_remark(outcome))


def _remark(outcome: Outcome) -> str | None:
    if outcome.code == ResponseCode.SUCCESS:
        return None
    return f"{outcome.refusal or 'refused'} at offset {outcome.command_offset}"


def _ours(request: RemotingCommand, outcome: Outcome) -> RemotingCommand:
    """Operators' requests are answered 0 or 1; the refusal and its offset go into header fields."""
    code = (
        ResponseCode.SUCCESS if outcome.code == ResponseCode.SUCCESS else ResponseCode.SYSTEM_ERROR
    )
    ext = {"commandOffset": str(outcome.command_offset)}
    if outcome.refusal is not None:
        ext["refusal"] = outcome.refusal
    return request.reply(code, ext, remark=_remark(outcome))


def echo(request: RemotingCommand) -> dict[str, str]:
    """The two names that RocketMQ gives back."""
    return {
        name: request.ext[name] for name in ("clusterName", "brokerName") if name in request.ext
    }


def _registered(
    request: RemotingCommand,
    outcome: Outcome,
    state: ControllerState,
    broker_set: BrokerSet | None,
    is_alive: IsAlive,
    at_risk: bool,
) -> RemotingCommand:
    ext = echo(request)
    if outcome.code != ResponseCode.SUCCESS or broker_set is None:
        return request.reply(outcome.code, ext, remark=_remark(outcome))
    ext |= set_facts(state, broker_set, at_risk)
    master = broker_set.master()
    named = request.ext.get("clusterName", broker_set.cluster_name)
    # The master is looked for where the request says (RULES 5.3).
    if named != broker_set.cluster_name:
        is_alive = partial(_alive_in, is_alive, named)
    # A master that is dead or was started anew has no mastership to tell of (design S6).
    if master is not None and not broker_set.master_restarted and is_alive(broker_set, master):
        ext |= master_fields(broker_set)
    return request.reply(ResponseCode.SUCCESS, ext, set_body(broker_set))


def _alive_in(
    is_alive: IsAlive, cluster_name: str, broker_set: BrokerSet, replica: Replica
) -> bool:
    return is_alive(structs.replace(broker_set, cluster_name=cluster_name), replica)


def _altered(
    request: RemotingCommand,
    outcome: Outcome,
    state: ControllerState,
    broker_set: BrokerSet | None,
    at_risk: bool,
) -> RemotingCommand:
    ext = {} if broker_set is None else set_facts(state, broker_set, at_risk)
    if outcome.code != ResponseCode.SUCCESS or broker_set is None:
        ext["newSyncStateSetEpoch"] = "0"
        return request.reply(outcome.code, ext, remark=_remark(outcome))
    ext["newSyncStateSetEpoch"] = str(broker_set.sync_state_set_epoch)
    return request.reply(ResponseCode.SUCCESS, ext, set_body(broker_set))


def _elected(
    request: RemotingCommand,
    outcome: Outcome,
    state: ControllerState,
    broker_set: BrokerSet | None,
    at_risk: bool,
) -> RemotingCommand:
    if broker_set is None:
        return request.reply(outcome.code, remark=_remark(outcome))
    facts = set_facts(state, broker_set, at_risk)
    if outcome.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
        return request.reply(outcome.code, facts, remark=_remark(outcome))
    body: dict[str, object] = {"syncStateSet": list(broker_set.sync_state_set)}
    if outcome.code == ResponseCode.SUCCESS:
        group = {
            "brokerAddrs": {replica.broker_id: replica.address for replica in broker_set.replicas},
            "brokerName": broker_set.broker_name,
            "cluster": broker_set.cluster_name,
        }
        # mqadmin reads the group at the top, brokers below its name (RULES 12).
        body |= {"brokerMemberGroup": group, **group}
    remark = None if outcome.code == ResponseCode.SUCCESS else "the current master is kept"
    return request.reply(
        outcome.code, facts | master_fields(broker_set), fastjson.dumps(body), remark=remark
    )


def role_notice(state: ControllerState, broker_set: BrokerSet, at_risk: bool) -> RemotingCommand:
    """1008 for every member of the set; the body is required (RULES 3.8)."""
    ext = set_facts(state, broker_set, at_risk) | master_fields(broker_set)
    return RemotingCommand.request(
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED, ext, set_body(broker_set), oneway=True
    )


def ha_question() -> RemotingCommand:
    """906 without fields: a master answers where it takes HA links, anybody else nothing."""
    return RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO)


def ha_told(ha_address: str, master_address: str) -> RemotingCommand:
    """906 with fields: a Java broker adopts them, in any role, and a slave without a link to whom
    they are news connects there at once; to nobody, where `ha_address` is empty.
    """
    ext = {"masterHaAddress": ha_address, "masterFlushOffset": "0", "masterAddress": master_address}
    return RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO, ext)


_ID_DIGITS_MAX = 19
"""A long; of thousands of digits Python makes no number."""


def replica_info(
    request: RemotingCommand, state: ControllerState, at_risk: bool = False
) -> RemotingCommand:
    """1004: no liveness check, `masterEpoch` always present (RULES 3.5)."""
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
    """A registration can reach the log late, behind the one of the next start: then the living
    start is not the registered one, its heartbeats count for nothing, and only its registering
    again ends that (S5).
    """
    if not (broker_id.isascii() and broker_id.isdigit() and len(broker_id) <= _ID_DIGITS_MAX):
        return False
    replica = broker_set.replica(int(broker_id))
    if replica is None or not replica.is_registered or replica.incarnation is None:
        return False
    return replica.incarnation != request.ext.get("regentIncarnation")


def next_broker_id(request: RemotingCommand, state: ControllerState) -> RemotingCommand:
    """1012: never refuses; a set nobody knows starts at 1, a cleaned one goes on (RULES
    5.1, S9).
    """
    broker_set = state.sets.get(request.ext.get("brokerName", ""))
    next_id = 1 if broker_set is None else broker_set.next_broker_id
    return request.reply(0, echo(request) | {"nextBrokerId": str(next_id)})


def sync_state_data(
    request: RemotingCommand, names: Iterable[str], state: ControllerState, is_alive: IsAlive
) -> RemotingCommand:
    """1006: unknown names are skipped (RULES 3.7)."""
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
