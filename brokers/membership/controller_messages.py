"""What a broker and its controller say to each other, as requests and typed answers
(RULES 3, 10).

Responsible for: header fields and bodies of 904, 1001 to 1005, 1008, 1012, 1013, with Regent's
extra fields; reading a role notice out of any of the answers. Refuses to know: sockets, retries,
what a notice leads to.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import number_or_none
from brokers.replica.roles import RoleNotice

MEMBERS_MAX = 1_024
INT32_MAX = 2**31 - 1
CHECK_CODE = "regentCheckCode"
NOTICE_TOKEN = "regentNoticeToken"
CODES_UNKNOWN = frozenset(
    {ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.CONTROLLER_NOT_LEADER}
)
"""Answers that say that nothing is known about the command: repeating it under the same id settles
it.
"""


@dataclass(frozen=True, slots=True)
class Introduction:
    """Who this broker is. Addresses are the advertised ones; `incarnation` names this start of the
    process.
    """

    cluster_name: str
    broker_name: str
    address: str
    ha_address: str
    incarnation: str
    min_in_sync: int | None = None
    """How many members an acknowledgement needs; None: not told (counts as 1)."""
    check_code: str = ""
    """What this broker got its id with; empty: not known, or no id yet."""
    notice_token: str = ""
    """Known to the controllers that this start speaks with, and to nobody else: a 1008 that repeats
    it is theirs.
    """

    def proof(self) -> dict[str, str]:
        """Proof to our controllers that this broker speaks under its id."""
        return {CHECK_CODE: self.check_code} if self.check_code else {}

    def asks_to_be_told(self) -> dict[str, str]:
        """What a 1008 of our controllers is to repeat."""
        return {NOTICE_TOKEN: self.notice_token} if self.notice_token else {}


@dataclass(frozen=True, slots=True)
class LogPosition:
    """`epoch`: the newest of the epoch file (-1: none), offsets in bytes of the commit log, the
    confirmed one at the end of a record. `epoch_seen`: the highest that was ever heard of, also by
    former lives; `set_epoch`: of a master's SyncStateSet. -1 each: not told.
    """

    epoch: int
    max_offset: int
    confirm_offset: int
    epoch_seen: int = -1
    set_epoch: int = -1

    def told(self) -> dict[str, str]:
        """What our controllers hear beyond RocketMQ's fields."""
        fields = {"regentEpochSeen": self.epoch_seen, "regentSetEpoch": self.set_epoch}
        return {key: str(value) for key, value in fields.items() if value >= 0}


@dataclass(frozen=True, slots=True)
class AlterAnswer:
    """The answer to 1001; set fields are None when it did not carry them."""

    code: int
    members: tuple[int, ...] | None
    set_epoch: int | None
    master_epoch: int | None


def heartbeat(
    me: Introduction, broker_id: int, position: LogPosition, timeout_ms: int, priority: int
) -> RemotingCommand:
    """904, one-way."""
    ext = (
        {
            "clusterName": me.cluster_name,
            "brokerName": me.broker_name,
            "brokerAddr": me.address,
            "brokerId": str(broker_id),
            "epoch": str(position.epoch),
            "maxOffset": str(position.max_offset),
            "confirmOffset": str(position.confirm_offset),
            "heartbeatTimeoutMills": str(timeout_ms),
            "electionPriority": str(priority),
            "regentIncarnation": me.incarnation,
            "regentHaAddress": me.ha_address,
        }
        | position.told()
        | me.proof()
        | me.asks_to_be_told()
    )
    return RemotingCommand.request(RequestCode.BROKER_HEARTBEAT, ext, oneway=True)


def next_broker_id(me: Introduction) -> RemotingCommand:
    """1012."""
    ext = {"clusterName": me.cluster_name, "brokerName": me.broker_name}
    return RemotingCommand.request(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, ext)


def apply_broker_id(
    me: Introduction, broker_id: int, check_code: str, command_id: str
) -> RemotingCommand:
    """1013."""
    ext = {
        "clusterName": me.cluster_name,
        "brokerName": me.broker_name,
        "appliedBrokerId": str(broker_id),
        "registerCheckCode": check_code,
        "regentCommandId": command_id,
    }
    return RemotingCommand.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, ext)


def register_broker(
    me: Introduction,
    broker_id: int,
    position: LogPosition,
    clean: bool,
    command_id: str,
    wall_ms: int,
) -> RemotingCommand:
    """1003."""
    ext = (
        {
            "clusterName": me.cluster_name,
            "brokerName": me.broker_name,
            "brokerId": str(broker_id),
            "brokerAddress": me.address,
            "invokeTime": str(wall_ms),
            "regentIncarnation": me.incarnation,
            "regentClean": "true" if clean else "false",
            "regentHaAddress": me.ha_address,
            "regentLastEpoch": str(position.epoch),
            "regentEndOffset": str(position.max_offset),
            "regentCommandId": command_id,
        }
        | position.told()
        | me.proof()
        | me.asks_to_be_told()
    )
    if me.min_in_sync is not None:
        ext["regentMinInSync"] = str(me.min_in_sync)
    return RemotingCommand.request(RequestCode.CONTROLLER_REGISTER_BROKER, ext)


def elect_master(
    me: Introduction, broker_id: int, command_id: str, wall_ms: int, designate: bool = False
) -> RemotingCommand:
    """1002 with the own id: any electable replica may win. `designate`: the replica of this id
    shall, and no other.
    """
    ext = {
        "clusterName": me.cluster_name,
        "brokerName": me.broker_name,
        "brokerId": str(broker_id),
        "designateElect": str(designate).lower(),
        "invokeTime": str(wall_ms),
        "regentCommandId": command_id,
    } | me.proof()
    if not designate:  # of another start than is registered nobody knows the position
        ext["regentIncarnation"] = me.incarnation
    return RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER, ext)


def replica_info(me: Introduction, broker_id: int) -> RemotingCommand:
    """1004. Which start asks: a registration of a former one may have reached the log last
    (answered with 2008).
    """
    ext = {
        "brokerName": me.broker_name,
        "regentBrokerId": str(broker_id),
        "regentIncarnation": me.incarnation,
    }
    return RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, ext)


def master_question(broker_name: str) -> RemotingCommand:
    """1004 of a broker that has read nothing yet, not even its id: who leads its set?"""
    ext = {"brokerName": broker_name}
    return RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, ext)


def metadata() -> RemotingCommand:
    """1005."""
    return RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO)


def alter_sync_state_set(
    me: Introduction,
    broker_id: int,
    members: Iterable[int],
    base_set_epoch: int,
    master_epoch: int,
    command_id: str,
    wall_ms: int,
    lost_members: Iterable[int] = (),
) -> RemotingCommand:
    """1001: the wanted set, and the epoch of the set it is based on. `lost_members`: proven to hold
    less than they acknowledged.
    """
    ext = {
        "brokerName": me.broker_name,
        "masterBrokerId": str(broker_id),
        "masterEpoch": str(master_epoch),
        "invokeTime": str(wall_ms),
        "regentCommandId": command_id,
    } | me.proof()
    if lost := ",".join(map(str, sorted(lost_members))):
        ext["regentLostMembers"] = lost
    body = fastjson.dumps({"syncStateSet": sorted(members), "syncStateSetEpoch": base_set_epoch})
    return RemotingCommand.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, ext, body)


def settled_code(answer: RemotingCommand | None) -> int | None:
    """The code of an answer that settles its command; None when the outcome is open."""
    return None if answer is None or answer.code in CODES_UNKNOWN else answer.code


def read_next_broker_id(answer: RemotingCommand) -> int | None:
    return number_or_none(answer.ext, "nextBrokerId")


def read_alter_answer(answer: RemotingCommand) -> AlterAnswer:
    """The answer to 1001, refusals included: ours tell the present set in extra fields."""
    members, set_epoch = _set_of(answer)
    return AlterAnswer(
        answer.code, members, set_epoch, number_or_none(answer.ext, "regentMasterEpoch")
    )


def role_notice(message: RemotingCommand, source: str) -> RoleNotice | None:
    """What an answer to 1002, 1003, 1004, or a 1008, says about the set; None when it says nothing
    of an epoch, or names an epoch or a broker id that cannot be one (31 bits, as in RocketMQ):
    nothing of it is believed then.
    """
    ext = message.ext
    master_epoch = number_or_none(ext, "masterEpoch")
    if master_epoch is None:
        master_epoch = number_or_none(ext, "regentMasterEpoch")
    master_id = number_or_none(ext, "masterBrokerId")
    if (
        master_epoch is None
        or not 0 <= master_epoch <= INT32_MAX
        or not -1 <= (master_id or 0) <= INT32_MAX
    ):
        return None
    address = ext.get("masterAddress") or None
    if address is None:
        master_id = None
    members, set_epoch = _set_of(message)
    return RoleNotice(
        master_id=master_id,
        master_address=address,
        master_ha_address=ext.get("regentMasterHaAddress")
        or (None if address is None else usual_ha_address(address)),
        master_epoch=master_epoch,
        members=members,
        set_epoch=set_epoch,
        replicas=read_replicas(message),
        at_risk=ext.get("regentAtRisk") == "true",
        source=source,
        # The controller may be ours and the master a Java broker, which never names its HA address.
        regent_master="regentMasterHaAddress" in ext,
    )


def is_from_controller(message: RemotingCommand, me: Introduction) -> bool:
    """Whether a 1008 repeats the token that this start gave its controllers; Java controllers
    repeat none.
    """
    told = message.ext.get(NOTICE_TOKEN, "")
    return me.notice_token != "" and hmac.compare_digest(told.encode(), me.notice_token.encode())


def usual_ha_address(address: str) -> str | None:
    """The HA address of a broker that did not tell one: RocketMQ's start-up sets listen port + 1 (2
    of the reference).
    """
    host, _, port = address.rpartition(":")
    return (
        f"{host}:{int(port) + 1}"
        if host and port.isascii() and port.isdigit() and int(port) < 65_535
        else None
    )


def _set_of(message: RemotingCommand) -> tuple[tuple[int, ...] | None, int | None]:
    """Members and set epoch from the body, the header, or our extra fields; both or none."""
    members = _body_members(message.body)
    set_epoch = members[1] if members else None
    if set_epoch is None:
        set_epoch = number_or_none(message.ext, "syncStateSetEpoch")
    if set_epoch is None:
        set_epoch = number_or_none(message.ext, "regentSyncStateSetEpoch")
    found = members[0] if members else _extra_members(message.ext.get("regentSyncStateSet"))
    return (found, set_epoch) if found is not None and set_epoch is not None else (None, None)


def _body_members(body: bytes) -> tuple[tuple[int, ...], int | None] | None:
    if not body:
        return None
    try:
        fields = fastjson.loads(body)
    except ValueError:
        return None
    members = fields.get("syncStateSet") if isinstance(fields, Mapping) else None
    if (
        not isinstance(members, list)
        or len(members) > MEMBERS_MAX
        or not all(type(one) is int for one in members)
    ):
        return None
    epoch = fields.get("syncStateSetEpoch") if isinstance(fields, Mapping) else None
    return tuple(sorted(members)), epoch if type(epoch) is int else None


def _extra_members(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(sorted(int(part) for part in text.split(",") if part))
    except ValueError:
        return None


def read_replicas(message: RemotingCommand) -> dict[int, str]:
    """Broker ids and addresses of the set, as far as the message tells them."""
    replicas: dict[int, str] = {}
    for part in message.ext.get("regentReplicas", "").split(";")[:MEMBERS_MAX]:
        broker_id, separator, address = part.partition("=")
        if separator and broker_id.isascii() and broker_id.isdigit():
            replicas[int(broker_id)] = address
    return replicas
