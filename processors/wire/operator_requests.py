"""Operators' requests of ours, and RocketMQ's 1009, to commands.

Responsible for: reading the bodies of 1009, 19004, 19005 and 19006, and building the one command
each stands for.
Refuses to know: whether the command will be accepted (the fold), and permissions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadRequest, Fields
from events.commands import ActivateRules, ChangeSettings, Command, ImportBrokerSet
from events.envelope import Envelope, ImportedReplica
from events.properties import PropertiesRejected, parse
from processors.fold.rules import schemas_of
from processors.settings import recorded
from processors.wire import requests
from processors.wire.requests import EvidenceOf

CAUSE_BROKER = "broker_request"
CAUSE_OPERATOR = "operator_request"
SETTINGS_MAX = 100
VALUE_CHARS_MAX = 1_024
PROPERTIES_BYTES_MAX = 65_536


def json_object(request: RemotingCommand) -> dict[str, object]:
    """The body, which is one JSON object. Raises BadRequest."""
    try:
        found = fastjson.loads(request.body)
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadRequest("the body is no JSON object")
    return found


def properties_of(request: RemotingCommand) -> dict[str, str]:
    """The properties a 1009 carries. Raises BadRequest in Java's words first."""
    if len(request.body) > PROPERTIES_BYTES_MAX:
        # It is read in the loop, in Python: a megabyte would hold up every decision for a second.
        raise BadRequest(
            f"string2Properties error: {len(request.body)} bytes, allowed are "
            f"{PROPERTIES_BYTES_MAX}"
        )
    try:
        return parse(request.body)
    except PropertiesRejected as error:
        raise BadRequest(f"string2Properties error: {error}") from None


def wanted_settings(request: RemotingCommand) -> dict[str, str]:
    """The recorded settings that a 1009 or 19004 asks to change, names and values as they are
    recorded.
    """
    if request.code == RequestCode.UPDATE_CONTROLLER_CONFIG:
        known = recorded.names()
        wanted: object = {k: v for k, v in properties_of(request).items() if k in known}
    else:
        wanted = json_object(request).get("settings")
    if not isinstance(wanted, dict) or not all(isinstance(one, str) for one in wanted.values()):
        raise BadRequest('the body has no object "settings" of texts')
    if len(wanted) > SETTINGS_MAX or any(len(one) > VALUE_CHARS_MAX for one in wanted.values()):
        raise BadRequest(
            f"more than {SETTINGS_MAX} settings, or a value of more than {VALUE_CHARS_MAX} "
            "characters"
        )
    return {
        recorded.canonical_name(name): recorded.canonical_value(value)
        for name, value in sorted(wanted.items())
    }


def change_settings(
    request: RemotingCommand, envelope: Envelope, _evidence_of: EvidenceOf
) -> ChangeSettings:
    return ChangeSettings(envelope=envelope, settings=wanted_settings(request))


def wanted_rules(request: RemotingCommand) -> int:
    """The rules version that a 19005 asks for."""
    version = json_object(request).get("rules_version")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= 1_000_000:
        raise BadRequest('the body has no number "rules_version"')
    return version


def activate_rules(
    request: RemotingCommand, envelope: Envelope, _evidence_of: EvidenceOf
) -> ActivateRules:
    version = wanted_rules(request)
    return ActivateRules(envelope, version, schemas_of(version))


def import_broker_set(
    request: RemotingCommand, envelope: Envelope, _evidence_of: EvidenceOf
) -> ImportBrokerSet:
    """19006: the body holds the command's own fields; whether they fit together is for the
    rules.
    """
    fields = json_object(request)
    rows = fields.get("replicas")
    if not isinstance(rows, list) or len(rows) > requests.MEMBERS_MAX:
        raise BadRequest('the body has no list "replicas"')
    members = fields.get("sync_state_set")
    if not isinstance(members, list) or len(members) > requests.MEMBERS_MAX:
        raise BadRequest('the body has no list "sync_state_set"')
    master = fields.get("master_broker_id")
    return ImportBrokerSet(
        envelope=envelope,
        cluster_name=_text(fields, "cluster_name"),
        broker_name=_text(fields, "broker_name"),
        next_broker_id=_whole(fields, "next_broker_id"),
        master_broker_id=None if master is None else _whole(fields, "master_broker_id"),
        master_epoch=_whole(fields, "master_epoch", bits=32),
        sync_state_set=tuple(_whole({"member": one}, "member") for one in members),
        sync_state_set_epoch=_whole(fields, "sync_state_set_epoch", bits=32),
        replicas=tuple(_replica(row) for row in rows),
        source=_text(fields, "source"),
        evidence_epoch=_whole(fields, "evidence_epoch", bits=32),
    )


def _replica(row: object) -> ImportedReplica:
    if not isinstance(row, dict):
        raise BadRequest("a replica is no JSON object")
    return ImportedReplica(
        broker_id=_whole(row, "broker_id"),
        address=_text(row, "address"),
        register_check_code=_text(row, "register_check_code"),
    )


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str) or len(value) > VALUE_CHARS_MAX:
        raise BadRequest(f"{name} is no text of at most {VALUE_CHARS_MAX} characters")
    return value


def _whole(fields: dict[str, object], name: str, bits: int = 64) -> int:
    value = fields.get(name, -1 if name == "evidence_epoch" else None)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRequest(f"{name} is no whole number")
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise BadRequest(f"{name} does not fit {bits} bits")
    return value


ADMIN_BUILDERS: Mapping[int, Callable[[RemotingCommand, Envelope, EvidenceOf], Command]] = {
    RequestCode.UPDATE_CONTROLLER_CONFIG: change_settings,
    RequestCode.REGENT_CHANGE_SETTINGS: change_settings,
    RequestCode.REGENT_ACTIVATE_RULES: activate_rules,
    RequestCode.REGENT_IMPORT_SET: import_broker_set,
}
"""Operators' requests that become commands. All of them are for the active controller only."""

COMMAND_BUILDERS: Mapping[int, Callable[[RemotingCommand, Envelope, EvidenceOf], Command]] = {
    **requests.BROKER_BUILDERS,
    **ADMIN_BUILDERS,
}
"""Every request that becomes a command."""


def cause_of(request: RemotingCommand) -> str:
    """Operators name designated elections and cleanings; everything else comes from brokers."""
    operator = (
        request.code in ADMIN_BUILDERS
        or request.code == RequestCode.CLEAN_BROKER_DATA
        or Fields(request.ext).flag("designateElect")
    )
    return CAUSE_OPERATOR if operator else CAUSE_BROKER
