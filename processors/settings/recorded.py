"""The settings that are recorded in the log, as the controller's shell-less parts read them
(RULES 11.1).

Responsible for: the value in force of each, as a number or a flag, what a change from outside may
name, and the words for a value that cannot be. Refuses to know: what the settings do.
"""

from __future__ import annotations

from collections.abc import Mapping

from processors.fold.rules import RULES, SETTING_PROCESS_READS, Setting
from processors.fold.state import SETTING_DEFAULTS, ControllerState

WITHOUT_EFFECT: Mapping[str, str] = {
    SETTING_PROCESS_READS: (
        "no effect: every read is proven to be current before it is answered, whatever this says"
    )
}
"""Settings of RocketMQ's that are recorded and shown, and change nothing here."""
_OTHER_NAMES: Mapping[str, str] = {"isProcessReadEvent": SETTING_PROCESS_READS}
"""Java shows one name and reads another."""


def canonical_name(name: str) -> str:
    """The name under which a setting is recorded."""
    return _OTHER_NAMES.get(name, name)


def canonical_value(value: str) -> str:
    """The value as it is recorded: Java reads ` TRUE ` as true."""
    stripped = value.strip()
    return stripped.lower() if stripped.lower() in ("true", "false") else stripped


def why_invalid(name: str, value: str, rules_version: int) -> str | None:
    """What is wrong with a change under those rules, in words; None when it is valid, or when the
    rules are not known here.
    """
    rules = RULES.get(rules_version)
    if rules is None:
        return None
    setting = rules.settings.get(name)
    if setting is None:
        since = min(
            (version for version, one in RULES.items() if name in one.settings), default=None
        )
        return (
            (f"{name} is no setting")
            if since is None
            else f"{name} can be set from rules {since} on, rules {rules_version} are active"
        )
    return (
        None
        if setting.is_valid(value)
        else (f"{name} cannot be {value!r}, it takes {_range(setting)}")
    )


def _range(setting: Setting) -> str:
    return (
        "true or false"
        if setting.least is None
        else (f"a whole number from {setting.least} to {setting.most}")
    )


def in_force(state: ControllerState) -> dict[str, str]:
    """Every setting with the value that counts now, by name."""
    return dict(sorted({**SETTING_DEFAULTS, **state.settings}.items()))


def names() -> frozenset[str]:
    """Every name under which a change is understood."""
    return frozenset({*SETTING_DEFAULTS, *_OTHER_NAMES})


def text(state: ControllerState, name: str) -> str:
    """The value in force of one setting."""
    return state.settings.get(name) or SETTING_DEFAULTS[name]


def number(state: ControllerState, name: str) -> int:
    """The value in force of a setting that counts something."""
    return int(text(state, name))


def flag(state: ControllerState, name: str) -> bool:
    """The value in force of a setting that is on or off."""
    return text(state, name) == "true"
