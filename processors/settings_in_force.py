"""The settings that are recorded in the log, as the controller's shell-less parts read them (controller.md 11.1).

Responsible for: the value in force of each, as a number or a flag, and what a change from outside may name.
Refuses to know: which values are valid (`state.setting_is_valid`), and what the settings do.
"""

from __future__ import annotations

from collections.abc import Mapping

from processors.state import SETTING_DEFAULTS, ControllerState

SCAN_BROKERS = "scanNotActiveBrokerInterval"
SCAN_MASTERS = "scanInactiveMasterInterval"
ELECT_RETRIES = "electMasterMaxRetryCount"
NOTIFY_ROLES = "notifyBrokerRoleChanged"
PROCESS_READS = "processReadEvent"
MASS_SILENCE_HOLD_MS = "massSilenceHoldMs"
COMMANDS_PER_SET_PER_SECOND = "commandsPerSetPerSecond"

_OTHER_NAMES: Mapping[str, str] = {"isProcessReadEvent": PROCESS_READS}
"""Java shows one name and reads another."""
# For logs whose rules do not know these settings yet.
_BEFORE_THEY_WERE_RECORDED: Mapping[str, str] = {
    SCAN_BROKERS: "5000",
    SCAN_MASTERS: "5000",
    ELECT_RETRIES: "3",
    NOTIFY_ROLES: "true",
    PROCESS_READS: "false",
    MASS_SILENCE_HOLD_MS: "10000",
    COMMANDS_PER_SET_PER_SECOND: "50",
}


def canonical_name(name: str) -> str:
    """The name under which a setting is recorded."""
    return _OTHER_NAMES.get(name, name)


def canonical_value(value: str) -> str:
    """The value as it is recorded: Java reads ` TRUE ` as true."""
    stripped = value.strip()
    return stripped.lower() if stripped.lower() in ("true", "false") else stripped


def in_force(state: ControllerState) -> dict[str, str]:
    """Every setting with the value that counts now, by name."""
    return dict(sorted({**_BEFORE_THEY_WERE_RECORDED, **SETTING_DEFAULTS, **state.settings}.items()))


def names() -> frozenset[str]:
    """Every name under which a change is understood."""
    return frozenset({*_BEFORE_THEY_WERE_RECORDED, *SETTING_DEFAULTS, *_OTHER_NAMES})


def text(state: ControllerState, name: str) -> str:
    """The value in force of one setting."""
    found = state.settings.get(name) or SETTING_DEFAULTS.get(name)
    return _BEFORE_THEY_WERE_RECORDED[name] if found is None else found


def number(state: ControllerState, name: str) -> int:
    """The value in force of a setting that counts something."""
    return int(text(state, name))


def flag(state: ControllerState, name: str) -> bool:
    """The value in force of a setting that is on or off."""
    return text(state, name) == "true"
