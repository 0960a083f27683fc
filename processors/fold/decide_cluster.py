"""Decides what concerns the cluster as a whole: its forming, its leader, its settings and rules.

Responsible for design D3 and D6. Refuses to know broker sets.
"""

import string
from collections.abc import Mapping

from events.changes import ClusterStarted, LeadershipClaimed, RulesActivated, SettingsChanged
from events.commands import ActivateRules, ChangeSettings, ClaimLeadership, ClusterFormed
from processors.fold.refusals import ACCEPTED_WITHOUT_CHANGE, Decision, Refusal
from processors.fold.rules import RULES, rules_of
from processors.fold.state import ControllerState, setting_is_valid

FINGERPRINT_HEX_DIGITS = 16


def form_cluster(state: ControllerState, command: ClusterFormed) -> Decision:
    """Give an empty log to a cluster; of two that try, the second is refused."""
    if state.is_formed:
        return Decision(Refusal.ALREADY_FORMED)
    if not command.envelope.cluster_id:
        return Decision(Refusal.WRONG_CLUSTER)
    if not _settings_are_valid(command.settings, command.rules_version):
        return Decision(Refusal.INVALID_SETTING)
    if not command.fingerprints or not _are_fingerprints(command.fingerprints):
        return Decision(Refusal.INVALID_FINGERPRINTS)
    if not rules_of(command.rules_version).fingerprints.issubset(command.fingerprints):
        return Decision(Refusal.INVALID_FINGERPRINTS)
    started = ClusterStarted(
        command.envelope.cluster_id,
        command.rules_version,
        dict(sorted(command.settings.items())),
        tuple(sorted(set(command.fingerprints))),
    )
    return Decision(changes=(started,))


def claim_leadership(state: ControllerState, command: ClaimLeadership) -> Decision:
    """Make the claimant leader if nobody claimed since the term that it expects."""
    if command.expected_term != state.term:
        return Decision(Refusal.TERM_MOVED)
    claimed = LeadershipClaimed(
        state.term + 1, command.controller_id, command.controller_address, command.release
    )
    return Decision(changes=(claimed,))


def change_settings(state: ControllerState, command: ChangeSettings) -> Decision:
    """Change the named settings; a value that rules cannot read refuses all of them."""
    if not command.settings or not _settings_are_valid(command.settings, state.rules_version):
        return Decision(Refusal.INVALID_SETTING)
    changed = {
        name: value
        for name, value in sorted(command.settings.items())
        if state.setting(name) != value
    }
    return Decision(changes=(SettingsChanged(changed),)) if changed else ACCEPTED_WITHOUT_CHANGE


def activate_rules(state: ControllerState, command: ActivateRules) -> Decision:
    """Move to newer rules or more schemas; active schemas stay active, history needs them."""
    wanted = set(command.fingerprints)
    if not _are_fingerprints(command.fingerprints) or not wanted.issuperset(state.fingerprints):
        return Decision(Refusal.INVALID_FINGERPRINTS)
    # What a version needs is judged by that version; of one that is not here, the fold makes an
    # end.
    target = RULES.get(command.rules_version)
    if target is not None and not wanted.issuperset(target.fingerprints):
        return Decision(Refusal.INVALID_FINGERPRINTS)
    same_schemas = wanted == set(state.fingerprints)
    if command.rules_version < state.rules_version or (
        command.rules_version == state.rules_version and same_schemas
    ):
        return Decision(Refusal.RULES_NOT_NEWER)
    return Decision(changes=(RulesActivated(command.rules_version, tuple(sorted(wanted))),))


def _settings_are_valid(settings: Mapping[str, str], rules_version: int) -> bool:
    return all(setting_is_valid(name, value, rules_version) for name, value in settings.items())


def _are_fingerprints(texts: tuple[str, ...]) -> bool:
    digits = set(string.hexdigits.lower())
    return all(len(text) == FINGERPRINT_HEX_DIGITS and set(text) <= digits for text in texts)
