"""The configuration as mqadmin shows and changes it (1010 and 1009, controller.md 3.9).

Responsible for: which names are shown with which values, which names nobody may touch, and which
are fixed when a controller starts. Refuses to know: how a change is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping

from processors.fold.state import ControllerState
from processors.settings import recorded
from processors.settings.properties import dump
from processors.settings.rocketmq import STARTUP_NAMES

BLACK_LIST = "configBlackList"
ALWAYS_BLACK = frozenset({BLACK_LIST, "configStorePath", "rocketmqHome"})
DEFAULT_BLACK_LIST = "configBlackList;configStorePath"
SECRET = "******"
_SECRET_PARTS = ("password", "secret", "jaas", "private", ".key", "credential", "token")


def shown(startup: Mapping[str, str], state: ControllerState) -> bytes:
    """Properties text, keys sorted. Never empty, and never with what lets others in."""
    values = {name: _masked(name, value) for name, value in startup.items()}
    values.setdefault(BLACK_LIST, DEFAULT_BLACK_LIST)
    values |= recorded.in_force(state)
    # Java's own name for it in this text.
    values["isProcessReadEvent"] = recorded.text(state, recorded.PROCESS_READS)
    values.pop(recorded.PROCESS_READS, None)
    return dump(values)


def _masked(name: str, value: str) -> str:
    lowered = name.lower()
    return SECRET if value and any(part in lowered for part in _SECRET_PARTS) else value


def touches_black_list(asked: Mapping[str, str], startup: Mapping[str, str]) -> bool:
    """True when one of the names may not be changed by anybody."""
    black = {name.strip() for name in startup.get(BLACK_LIST, DEFAULT_BLACK_LIST).split(";")}
    return any(name in ALWAYS_BLACK or name in black for name in asked)


def fixed_at_start(asked: Mapping[str, str], startup: Mapping[str, str]) -> list[str]:
    """The names with another value than the one this controller started with; unknown names are
    ignored.
    """
    return sorted(
        name
        for name, value in asked.items()
        if (name in startup or name in STARTUP_NAMES)
        and value.strip() != startup.get(name, "").strip()
    )
