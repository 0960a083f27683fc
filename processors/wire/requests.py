"""RocketMQ requests to commands (RULES 3, the request side).

Responsible for: reading header fields and bodies as Java and Regent brokers write them, and
building the one command a request stands for.
Refuses to know: whether the command will be accepted (the fold), and how the answer looks
(`responses`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from msgspec import structs

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadRequest, Fields
from brokers.remoting.java_numbers import whole_number
from events.codec import fingerprint_of
from events.commands import (
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    Command,
    ElectMaster,
    RegisterBroker,
)
from events.envelope import COMMAND_ID_BYTES, Envelope, ReplicaEvidence
from processors.fold.candidates import REASON_STALE, REASON_UNSHOWN
from processors.fold.state import EPOCH_MAX
from processors.liveness.pulses import (
    DEFAULT_PRIORITY,
    DEFAULT_TIMEOUT_MS,
    NOTICE_TOKEN,
    REASON_NOT_YET,
    BrokerKey,
    Heartbeat,
    timeout_within_bounds_ms,
)

MEMBERS_MAX = 1_024
MAY_LIVE = frozenset({REASON_STALE, REASON_NOT_YET, REASON_UNSHOWN})


class EvidenceOf(Protocol):
    """The evidence for a set. `asker`: the broker that asks, if one does; `also`: another cluster
    to look for it in.
    """

    def __call__(
        self, name: str, asker: int | None, also: str = "", /
    ) -> tuple[ReplicaEvidence, ...]: ...


def command_id_of(request: RemotingCommand) -> bytes | None:
    """The command id a retry repeats, if the request names one."""
    text = request.ext.get("regentCommandId")
    if text is None:
        return None
    try:
        command_id = bytes.fromhex(text)
    except ValueError:
        raise BadRequest("the field regentCommandId is not hexadecimal") from None
    if len(command_id) != COMMAND_ID_BYTES:
        raise BadRequest(f"the field regentCommandId is not {COMMAND_ID_BYTES} bytes")
    return command_id


def heartbeat_of(request: RemotingCommand) -> Heartbeat:
    """The 904 in `request`. `BadRequest` with 2005 when it names no broker id (RULES 3.1).

    Unreadable fields count as absent, as in Java: the sender lives.
    """
    ext = request.ext
    fields = Fields(ext)
    broker_id = whole_number(ext.get("brokerId", ""))
    if broker_id is None:
        raise BadRequest("a heartbeat for a controller needs a brokerId", code=2005)
    epoch = fields.number_or("epoch", -1, 32)
    if epoch >= EPOCH_MAX:
        # No master could have a later one: to count it would end all elections of its set.
        raise BadRequest(f"epoch {epoch} leaves none for the next master", code=2005)
    return Heartbeat(
        (fields.text("clusterName"), fields.text("brokerName"), broker_id),
        fields.text("brokerAddr"),
        epoch,
        fields.number_or("maxOffset", -1),
        fields.number_or("confirmOffset", -1),
        timeout_within_bounds_ms(fields.number_or("heartbeatTimeoutMills", DEFAULT_TIMEOUT_MS)),
        fields.number_or("electionPriority", DEFAULT_PRIORITY, 32),
        fields.optional("regentIncarnation"),
        fields.optional("regentHaAddress"),
        fields.number_or("regentEpochSeen", -1, 32),
        fields.number_or("regentSetEpoch", -1, 32),
        fields.optional(NOTICE_TOKEN),
    )


def introduction_of(
    command: RegisterBroker,
) -> tuple[BrokerKey, str, str | None, tuple[int, int] | None]:
    """(key, address, incarnation, (last epoch, end offset)) as a registration states them."""
    position = None
    if command.last_epoch is not None and command.end_offset is not None:
        position = (command.last_epoch, command.end_offset)
    key = (command.cluster_name, command.broker_name, command.broker_id)
    return key, command.broker_address, command.incarnation, position


def apply_broker_id(
    request: RemotingCommand, envelope: Envelope, _evidence_of: EvidenceOf
) -> ApplyBrokerId:
    fields = Fields(request.ext)
    return ApplyBrokerId(
        envelope=envelope,
        cluster_name=fields.text("clusterName"),
        broker_name=fields.text("brokerName"),
        applied_broker_id=fields.number("appliedBrokerId"),
        register_check_code=fields.text("registerCheckCode"),
    )


def register_broker(
    request: RemotingCommand, envelope: Envelope, evidence_of: EvidenceOf
) -> RegisterBroker:
    fields = Fields(request.ext)
    broker_name, broker_id = fields.text("brokerName"), fields.number("brokerId")
    incarnation = fields.optional("regentIncarnation")
    heard_epoch, heard_offset = _heard_before(
        evidence_of(broker_name, None), broker_id, incarnation
    )
    return RegisterBroker(
        envelope=envelope,
        cluster_name=fields.text("clusterName"),
        broker_name=broker_name,
        broker_id=broker_id,
        broker_address=fields.text("brokerAddress"),
        ha_address=fields.optional("regentHaAddress"),
        incarnation=incarnation,
        clean=fields.optional_flag("regentClean"),
        last_epoch=fields.optional_number("regentLastEpoch"),
        end_offset=fields.optional_number("regentEndOffset"),
        min_in_sync=fields.optional_number("regentMinInSync"),
        heard_epoch=heard_epoch,
        heard_offset=heard_offset,
    )


def _heard_before(
    evidence: tuple[ReplicaEvidence, ...], broker_id: int, incarnation: str | None
) -> tuple[int, int] | tuple[None, None]:
    """Epoch and confirm offset that another start of this id named. A Java broker's starts have no
    names, but it registers only when it starts, so what is still known is of the start before.
    """
    for row in evidence:
        if row.broker_id == broker_id and (row.incarnation is None) == (incarnation is None):
            if incarnation is not None and row.incarnation == incarnation:
                continue
            end = min(row.confirm_offset, row.max_offset)
            return (row.epoch, end) if row.epoch >= 0 and end >= 0 else (None, None)
    return None, None


# What later forms of a command can hold, as it is where nothing is given.
_LATER_FIELDS: Mapping[type, Mapping[str, object]] = {
    RegisterBroker: {"min_in_sync": None, "heard_epoch": None, "heard_offset": None},
    AlterSyncStateSet: {"lost_members": ()},
    ElectMaster: {"waited_ms": None},
}


def as_active(command: Command, fingerprints: Collection[str]) -> Command:
    """Return `command` without what no active schema has a field for: older releases read beside
    us.
    """
    later = _LATER_FIELDS.get(type(command))
    if later is not None and fingerprint_of(command) not in fingerprints:
        return structs.replace(command, **later)
    return command


def alter_sync_state_set(
    request: RemotingCommand, envelope: Envelope, evidence_of: EvidenceOf
) -> AlterSyncStateSet:
    fields = Fields(request.ext)
    broker_name = fields.text("brokerName")
    master = fields.number("masterBrokerId")
    members, base_epoch = _wanted_set(request.body)
    return AlterSyncStateSet(
        envelope=envelope,
        broker_name=broker_name,
        master_broker_id=master,
        expected_master_epoch=fields.number("masterEpoch", bits=32),
        expected_set_epoch=base_epoch,
        new_sync_state_set=members,
        evidence=evidence_of(broker_name, master),
        lost_members=_lost_members(request.ext.get("regentLostMembers", "")),
    )


def _lost_members(listed: str) -> tuple[int, ...]:
    """The ids between commas, ascending: whom the master proved to hold less than they
    acknowledged.
    """
    if not listed:
        return ()
    parts = listed.split(",", MEMBERS_MAX)
    if len(parts) > MEMBERS_MAX:
        raise BadRequest(f"the field regentLostMembers has more than {MEMBERS_MAX} members")
    ids = {number for part in parts if (number := whole_number(part)) is not None}
    if any(whole_number(part) is None for part in parts):
        raise BadRequest(
            f"the field regentLostMembers holds something else than ids: {listed[:40]!r}"
        )
    return tuple(sorted(ids))


def _wanted_set(body: bytes) -> tuple[tuple[int, ...], int]:
    """The body of 1001: the wanted members, ascending, and the epoch of the set they are based
    on.
    """
    wanted = _json(body, "the wanted SyncStateSet")
    members = wanted.get("syncStateSet") if isinstance(wanted, dict) else None
    epoch = wanted.get("syncStateSetEpoch", 0) if isinstance(wanted, dict) else None
    if not isinstance(members, list) or not all(_is_id(member) for member in members):
        raise BadRequest("the body has no list syncStateSet of broker ids")
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not -(1 << 31) <= epoch < 1 << 31:
        raise BadRequest("the body has no number syncStateSetEpoch")
    if len(members) > MEMBERS_MAX:
        raise BadRequest(f"more than {MEMBERS_MAX} members")
    return tuple(sorted(set(members))), epoch


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _json(body: bytes, what: str) -> object:
    if not body:
        raise BadRequest(f"the body with {what} is missing")
    try:
        return fastjson.loads(body)
    except ValueError as error:
        raise BadRequest(f"the body with {what} is not JSON: {error}") from None


def elect_master(
    request: RemotingCommand, envelope: Envelope, evidence_of: EvidenceOf
) -> ElectMaster:
    fields = Fields(request.ext)
    broker_name = fields.text("brokerName", "")
    broker_id = fields.number("brokerId", -1)
    designate = fields.flag("designateElect")
    # An operator's wish says nothing about whether the wanted broker lives.
    asker = None if designate or broker_id < 0 else broker_id
    return ElectMaster(
        envelope=envelope,
        cluster_name=fields.text("clusterName", ""),
        broker_name=broker_name,
        broker_id=broker_id,
        designate=designate,
        expected_master_epoch=None,
        expected_set_epoch=None,
        evidence=evidence_of(broker_name, asker),
    )


def clean_broker_data(
    request: RemotingCommand, envelope: Envelope, evidence_of: EvidenceOf
) -> CleanBrokerData:
    fields = Fields(request.ext)
    broker_name = fields.text("brokerName")
    listed = request.ext.get("brokerControllerIdsToClean", "").strip()
    cluster_name = fields.text("clusterName", "")
    # A replica that was given another cluster's name is heard under that one (RULES 5.7,
    # row 3).
    evidence = evidence_of(broker_name, None, cluster_name)
    return CleanBrokerData(
        envelope=envelope,
        cluster_name=cluster_name,
        broker_name=broker_name,
        broker_ids=_listed_ids(listed) if listed else None,
        clean_living=fields.flag("isCleanLivingBroker"),
        # A sender under that id lives, also when another start of it is registered; and a replica
        # that a controller which just began to listen could not hear yet may live.
        evidence=tuple(
            structs.replace(row, alive=True) if row.reason in MAY_LIVE else row for row in evidence
        ),
    )


def _listed_ids(listed: str) -> tuple[int, ...]:
    """The ids between semicolons, ascending; those after the last id stand for nothing, as in
    Java.
    """
    found = (
        [whole_number(part.strip()) for part in listed.rstrip("; ").split(";")]
        if listed.strip("; ")
        else []
    )
    ids = {one for one in found if one is not None}
    if None in found:
        raise BadRequest("brokerControllerIdsToClean holds something else than ids", 2009)
    if len(ids) > MEMBERS_MAX:
        raise BadRequest("brokerControllerIdsToClean is out of range", 2009)
    return tuple(sorted(ids))


BROKER_BUILDERS: Mapping[int, Callable[[RemotingCommand, Envelope, EvidenceOf], Command]] = {
    RequestCode.CONTROLLER_APPLY_BROKER_ID: apply_broker_id,
    RequestCode.CONTROLLER_REGISTER_BROKER: register_broker,
    RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: alter_sync_state_set,
    RequestCode.CONTROLLER_ELECT_MASTER: elect_master,
    RequestCode.CLEAN_BROKER_DATA: clean_broker_data,
}
"""Requests of brokers and mqadmin that become commands. All of them are for the active controller
only.
"""


def wanted_set_names(request: RemotingCommand) -> list[str]:
    """The names a 1006 asks for; code 1 for a missing or empty list (RULES 3.7)."""
    names = _json(request.body, "the names of broker sets")
    if not isinstance(names, list) or not names:
        raise BadRequest("the body names no broker set")
    return [name for name in names if isinstance(name, str)]
