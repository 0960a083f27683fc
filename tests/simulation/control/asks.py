"""Requests as brokers, operators and readers write them. Refuses to know what is answered."""

from __future__ import annotations

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand

CLUSTER = "DefaultCluster"


def next_id(name: str) -> RemotingCommand:
    return RemotingCommand.request(
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"clusterName": CLUSTER, "brokerName": name}
    )


def apply_id(name: str, broker_id: int, check_code: str, **extra: str) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "appliedBrokerId": str(broker_id),
        "registerCheckCode": check_code,
    }
    return RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, ext | extra)


def register(name: str, broker_id: int, address: str, **extra: str) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "brokerId": str(broker_id),
        "brokerAddress": address,
    }
    return RemotingCommand.request(RequestCode.CONTROLLER_REGISTER_BROKER, ext | extra)


def beat(
    name: str,
    broker_id: int,
    address: str,
    timeout_ms: int,
    epoch: int,
    end: int,
    confirmed: int,
    **extra: str,
) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "brokerId": str(broker_id),
        "brokerAddr": address,
        "heartbeatTimeoutMills": str(timeout_ms),
        "epoch": str(epoch),
        "maxOffset": str(end),
        "confirmOffset": str(confirmed),
    }
    return RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, ext | extra, oneway=True)


def alter(
    name: str, master: int, epoch: int, set_epoch: int, members: list[int], **extra: str
) -> RemotingCommand:
    ext = {"brokerName": name, "masterBrokerId": str(master), "masterEpoch": str(epoch)}
    body = fastjson.dumps({"syncStateSet": members, "syncStateSetEpoch": set_epoch})
    return RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, ext | extra, body)


def elect(name: str, broker_id: int, designate: bool = False, **extra: str) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "brokerId": str(broker_id),
        "designateElect": "true" if designate else "false",
    }
    return RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, ext | extra)


def replica_info(name: str, **extra: str) -> RemotingCommand:
    return RemotingCommand.request(
        RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": name} | extra
    )


def sync_state(*names: str) -> RemotingCommand:
    return RemotingCommand.request(
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, fastjson.dumps(list(names))
    )


def metadata() -> RemotingCommand:
    return RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO)


def clean(name: str, ids: str, living: bool = False, **extra: str) -> RemotingCommand:
    ext = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "isCleanLivingBroker": "true" if living else "false",
    }
    return RemotingCommand.request(
        RequestCode.CLEAN_BROKER_DATA,
        ext | extra | ({"brokerControllerIdsToClean": ids} if ids else {}),
    )


def controller_state() -> RemotingCommand:
    return RemotingCommand.request(RequestCode.REGENT_CONTROLLER_STATE)


def change_settings(settings: dict[str, str]) -> RemotingCommand:
    return RemotingCommand.request(
        RequestCode.REGENT_CHANGE_SETTINGS, {}, fastjson.dumps({"settings": settings})
    )


def activate_rules(version: int) -> RemotingCommand:
    return RemotingCommand.request(
        RequestCode.REGENT_ACTIVATE_RULES, {}, fastjson.dumps({"rules_version": version})
    )


def transfer_leadership(to: str | None) -> RemotingCommand:
    return RemotingCommand.request(
        RequestCode.REGENT_TRANSFER_LEADERSHIP, {} if to is None else {"controllerId": to}
    )
