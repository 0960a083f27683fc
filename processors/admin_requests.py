"""Operators' requests of ours, and RocketMQ's 1009, to commands.

Responsible for: reading the bodies of 1009, 19004, 19005 and 19006, and building the one command each stands for.
Refuses to know: whether the command will be accepted (the fold), and who may ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules, ChangeSettings
from events.envelope import Envelope
from processors import gateway, settings_in_force
from processors.gateway import BadRequest, EvidenceOf
from processors.properties import PropertiesRejected, parse

SETTINGS_MAX = 100
VALUE_CHARS_MAX = 1_024


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
    try:
        return parse(request.body)
    except PropertiesRejected as error:
        raise BadRequest(f"string2Properties error: {error}") from None


def wanted_settings(request: RemotingCommand) -> dict[str, str]:
    """The recorded settings that a 1009 or 19004 asks to change, names and values as they are recorded."""
    if request.code == RequestCode.UPDATE_CONTROLLER_CONFIG:
        known = settings_in_force.names()
        wanted: object = {k: v for k, v in properties_of(request).items() if k in known}
    else:
        wanted = json_object(request).get("settings")
    if not isinstance(wanted, dict) or not all(isinstance(one, str) for one in wanted.values()):
        raise BadRequest('the body has no object "settings" of texts')
    if len(wanted) > SETTINGS_MAX or any(len(one) > VALUE_CHARS_MAX for one in wanted.values()):
        raise BadRequest(f"more than {SETTINGS_MAX} settings, or a value of more than {VALUE_CHARS_MAX} characters")
    return {
        settings_in_force.canonical_name(name): settings_in_force.canonical_value(value)
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
    return ActivateRules(envelope, wanted_rules(request), COMMAND_FINGERPRINTS)


ADMIN_BUILDERS: Mapping[int, Callable[[RemotingCommand, Envelope, EvidenceOf], object]] = {
    RequestCode.UPDATE_CONTROLLER_CONFIG: change_settings,
    RequestCode.REGENT_CHANGE_SETTINGS: change_settings,
    RequestCode.REGENT_ACTIVATE_RULES: activate_rules,
}
"""Operators' requests that become commands. All of them are for the active controller only."""

COMMAND_BUILDERS: Mapping[int, Callable[[RemotingCommand, Envelope, EvidenceOf], object]] = {
    **gateway.BROKER_BUILDERS,
    **ADMIN_BUILDERS,
}
"""Every request that becomes a command."""
