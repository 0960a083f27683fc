"""Decides whether a broker set comes over from another controller as it stands there.

Responsible for what such a set must look like and what it must not undercut (S6, S7, S9).
Refuses to know how it was read, and whether its brokers have already turned to us.
"""

from events.changes import BrokerSetImported
from events.commands import ImportBrokerSet
from processors.fold.refusals import Decision, Refusal
from processors.fold.rules import rules_of
from processors.fold.state import (
    BROKER_ID_MAX,
    EPOCH_MAX,
    FIRST_BROKER_ID,
    REPLICAS_MAX,
    TEXT_CHARS_MAX,
    BrokerSet,
    ControllerState,
)


def import_broker_set(state: ControllerState, command: ImportBrokerSet) -> Decision:
    """Take the set over: its master goes on in its epoch, and nobody gets a new id."""
    if not rules_of(state.rules_version).imports_sets:
        return Decision(Refusal.IMPORT_UNKNOWN)
    if not _is_sound(command):
        return Decision(Refusal.IMPORT_INVALID)
    highest = max(command.master_epoch, command.evidence_epoch)
    before = state.sets.get(command.broker_name)
    if before is not None and _undercuts(before, command, highest):
        return Decision(Refusal.IMPORT_CONFLICT)
    imported = BrokerSetImported(
        command.broker_name,
        command.cluster_name,
        command.next_broker_id,
        tuple(sorted(command.replicas, key=lambda replica: replica.broker_id)),
        command.master_broker_id,
        command.master_epoch,
        tuple(sorted(command.sync_state_set)),
        command.sync_state_set_epoch,
        highest,
        command.source,
    )
    return Decision(changes=(imported,))


def _is_sound(command: ImportBrokerSet) -> bool:
    return _names_fit(command) and _replicas_fit(command) and _epochs_fit(command)


def _names_fit(command: ImportBrokerSet) -> bool:
    names = (command.cluster_name, command.broker_name, *(r.address for r in command.replicas))
    codes = (command.source, *(replica.register_check_code for replica in command.replicas))
    return all(names) and all(len(text) <= TEXT_CHARS_MAX for text in (*names, *codes))


def _replicas_fit(command: ImportBrokerSet) -> bool:
    """Ids stand once each, below the next one; members are replicas, and the master is a member."""
    ids = {replica.broker_id for replica in command.replicas}
    members = set(command.sync_state_set)
    return (
        len(ids) == len(command.replicas)
        and len(members) == len(command.sync_state_set)
        and 1 <= len(ids) <= REPLICAS_MAX
        and min(ids) >= FIRST_BROKER_ID
        and max(ids) < command.next_broker_id <= BROKER_ID_MAX
        and members <= ids
        and (command.master_broker_id is None or command.master_broker_id in members)
    )


def _epochs_fit(command: ImportBrokerSet) -> bool:
    """Epoch 0 had no election, so neither a master nor members; the next epoch must still fit."""
    begun = command.master_broker_id is not None or bool(command.sync_state_set)
    return (
        (1 if begun else 0) <= command.master_epoch < EPOCH_MAX
        and -1 <= command.evidence_epoch < EPOCH_MAX
        and (1 if begun else 0) <= command.sync_state_set_epoch < EPOCH_MAX
    )


def _undercuts(before: BrokerSet, command: ImportBrokerSet, highest: int) -> bool:
    """Whether the import would replace a set that lives here, or let ids or epochs restart."""
    if not before.imported and not before.tombstone:
        return True
    if (
        command.next_broker_id < before.next_broker_id
        or command.master_epoch < before.master_epoch
        or highest < before.highest_epoch_seen
        or command.sync_state_set_epoch < before.sync_state_set_epoch
    ):
        return True
    return _reuses_epoch(before, command)


def _reuses_epoch(before: BrokerSet, command: ImportBrokerSet) -> bool:
    """Whether an epoch would stand for two masters, or for two sets (S13).

    What was imported and not touched since may be read again: with the same epochs it must say
    the same. The epochs of a tombstone were ours, so a master that goes on stands above them.
    """
    if before.imported:
        other_master = command.master_broker_id != before.master_broker_id
        other_members = tuple(sorted(command.sync_state_set)) != before.sync_state_set
    else:
        other_master = command.master_broker_id is not None
        other_members = True
    epoch_seen = before.master_epoch if before.imported else before.highest_epoch_seen
    return (other_master and command.master_epoch <= epoch_seen) or (
        other_members and command.sync_state_set_epoch <= before.sync_state_set_epoch
    )
