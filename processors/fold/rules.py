"""The versions of the rules, each with all that sets it apart from the others (design D3).

Responsible for the table. A released version is frozen: a defect found in it is put right in the
next one, and the golden history of each shows that it decides as it ever did. Refuses to know
how anything is decided: `decide_*` and `elect` ask here at the few places where versions differ.
"""

from collections.abc import Mapping
from typing import NamedTuple

from events.codec import COMMAND_FINGERPRINTS, fingerprint_of
from events.commands import COMMANDS

SETTING_UNCLEAN = "enableElectUncleanMaster"
SETTING_DEDUPE_WINDOW = "dedupeWindowOffsets"
SETTING_AT_RISK_WAIT_MS = "atRiskWaitMs"
SETTING_SCAN_BROKERS = "scanNotActiveBrokerInterval"
SETTING_SCAN_MASTERS = "scanInactiveMasterInterval"
SETTING_ELECT_RETRIES = "electMasterMaxRetryCount"
SETTING_NOTIFY_ROLES = "notifyBrokerRoleChanged"
SETTING_PROCESS_READS = "processReadEvent"
SETTING_MASS_SILENCE_HOLD_MS = "massSilenceHoldMs"
SETTING_COMMANDS_PER_SET_PER_SECOND = "commandsPerSetPerSecond"
DEDUPE_WINDOW_MAX = 1_000_000
_DIGITS_MAX = 7


class Setting(NamedTuple):
    """A setting that is recorded; without bounds it is `true` or `false`."""

    default: str
    least: int | None = None
    most: int = 0

    def is_valid(self, value: str) -> bool:
        """Return whether rules and controllers can read `value`."""
        if self.least is None:
            return value in ("true", "false")
        digits_max = max(_DIGITS_MAX, len(str(self.most)))
        digits = value.isascii() and value.isdigit() and len(value) <= digits_max
        return digits and self.least <= int(value) <= self.most


_FIRST_SETTINGS: Mapping[str, Setting] = {
    SETTING_UNCLEAN: Setting("false"),
    SETTING_DEDUPE_WINDOW: Setting("10000", 1, DEDUPE_WINDOW_MAX),
}
# RocketMQ's names and defaults where it has the setting (RULES 11.1), then ours.
_SETTINGS: Mapping[str, Setting] = {
    **_FIRST_SETTINGS,
    SETTING_SCAN_BROKERS: Setting("5000", 10, 3_600_000),
    SETTING_SCAN_MASTERS: Setting("5000", 10, 3_600_000),
    SETTING_ELECT_RETRIES: Setting("3", 1, 100),
    SETTING_NOTIFY_ROLES: Setting("true"),
    SETTING_PROCESS_READS: Setting("false"),
    SETTING_MASS_SILENCE_HOLD_MS: Setting("10000", 0, 600_000),
    SETTING_COMMANDS_PER_SET_PER_SECOND: Setting("50", 1, 100_000),
}
# How long an election at risk waits for former members that do not come back, a week at most; 0:
# for ever.
_THIRD_SETTINGS: Mapping[str, Setting] = {
    **_SETTINGS,
    SETTING_AT_RISK_WAIT_MS: Setting("0", 0, 604_800_000),
}


class Rules(NamedTuple):
    """One version. Each flag is a place where it differs; `False` is what version 1 does.

    `fingerprints` are the schemas that must be active with it.
    """

    version: int
    settings: Mapping[str, Setting]
    fingerprints: frozenset[str] = frozenset()
    imports_sets: bool = False
    """`ImportBrokerSet` is decided."""
    records_risk: bool = False
    """An election at risk says so in a change, so the state knows it (S5)."""
    epoch_above_all_evidence: bool = False
    """Reports of earlier starts and of cleaned replicas count too: *ever* reported (S7)."""
    java_master_resets_set: bool = False
    """A Java master, dead by now, may have acknowledged what not every member holds: after it the
    set is {master} also when all live members are ours (S1, DESIGN 5).
    """
    tombstone_takes_cluster_name: bool = False
    """A set that begins again belongs to the cluster that begins it, or nobody in it ever counts
    as alive: heartbeats are found by cluster (RULES 4.1, 5.2).
    """
    empty_code_is_nobody: bool = False
    """An imported replica has no check code: nobody proves to be it without one (S9)."""
    remembers: bool = False
    """Who is left out of a set below its minimum stays eligible, and an election at risk waits for
    and compares all that ever were members (S14).
    """
    asks_joiners_only: bool = False
    """Members that are in the set already need not be heard for the set to change (S16)."""
    first_takes_longest: bool = False
    """A first election takes the longest log of those that report."""
    cleans_no_holder: bool = False
    """Cleaning spares who lives or is remembered, also of a whole set, unless told otherwise."""
    epoch_reach: int | None = None
    """How far above the highest epoch known one from outside is believed, of a set with a history
    (S18).
    """
    doubts_sets: bool = False
    """`DoubtBrokerSet` is decided (S11)."""
    notices_going_back: bool = False
    """A former member whose log lies below what it registered with before has lost data (S15)."""


# The schemas of the release that brought rules 2.
_SECOND_FINGERPRINTS = frozenset(
    [
        "008a046b9097202f",
        "04ba089d6025c2bd",
        "0e86fe55b6f0493e",
        "11aa51d0463146f9",
        "1772970eb863f8ef",
        "410186e74ca90cd3",
        "49ecb515f786e26c",
        "4f0a1349cc1ffc82",
        "a9422f668330db81",
        "b874548e82f23959",
    ]
)
_SECOND = {
    "imports_sets": True,
    "records_risk": True,
    "epoch_above_all_evidence": True,
    "java_master_resets_set": True,
    "tombstone_takes_cluster_name": True,
    "empty_code_is_nobody": True,
}

RULES: Mapping[int, Rules] = {
    1: Rules(1, _FIRST_SETTINGS),
    2: Rules(2, _SETTINGS, _SECOND_FINGERPRINTS, **_SECOND),
    3: Rules(
        3,
        _THIRD_SETTINGS,
        frozenset(fingerprint_of(cls) for cls in COMMANDS),
        **_SECOND,
        remembers=True,
        asks_joiners_only=True,
        first_takes_longest=True,
        cleans_no_holder=True,
        epoch_reach=1_000,
        notices_going_back=True,
        doubts_sets=True,
    ),
}
SUPPORTED_RULES: tuple[int, ...] = tuple(RULES)
# What this release forms a new cluster with.
RULES_VERSION = max(RULES)
_OURS = RULES[RULES_VERSION]


def rules_of(version: int) -> Rules:
    """Return the rules of a version that a folder supports; a stand-in for a later one has ours."""
    return RULES.get(version) or _OURS


def schemas_of(version: int) -> tuple[str, ...]:
    """Return what becomes active with a version: all of ours with the newest, and with an earlier
    one no schema that the release which brought it could not read.
    """
    return (
        COMMAND_FINGERPRINTS
        if version == RULES_VERSION
        else tuple(sorted(rules_of(version).fingerprints))
    )
