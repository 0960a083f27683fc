"""Decides every command: refusal, or the changes it makes (design D2).

Responsible for the guards that stand before all rules, and for finding the rules of a kind.
Refuses to know offsets, digests and repeats: those are the fold's.
"""

from typing import assert_never

from events.commands import (
    ActivateRules,
    AlterSyncStateSet,
    ApplyBrokerId,
    ChangeSettings,
    ClaimLeadership,
    CleanBrokerData,
    ClusterFormed,
    Command,
    DoubtBrokerSet,
    ElectMaster,
    ImportBrokerSet,
    RegisterBroker,
)
from processors.fold import (
    decide_cluster,
    decide_doubt,
    decide_elect,
    decide_import,
    decide_replicas,
    decide_sync_set,
)
from processors.fold.decide_remembered import remembering
from processors.fold.refusals import Decision, Refusal
from processors.fold.rules import rules_of
from processors.fold.state import ControllerState


def decide(state: ControllerState, command: Command) -> Decision:
    """Return what `command` does to `state`. Total: whatever decodes gets an answer."""
    refusal = guard(state, command)
    return rule(state, command) if refusal is None else Decision(refusal)


def guard(state: ControllerState, command: Command) -> Refusal | None:
    """Return why `command` may not be decided at all: wrong log, or not by the leader (D6)."""
    envelope = command.envelope
    # Nearly every command, so it is asked first: of this cluster, by its leader.
    if envelope.cluster_id == state.cluster_id and envelope.term == state.term > 0:
        return None
    if isinstance(command, ClusterFormed):
        return None
    if not state.is_formed:
        return Refusal.NOT_FORMED
    if envelope.cluster_id != state.cluster_id:
        return Refusal.WRONG_CLUSTER
    if isinstance(command, ClaimLeadership):
        return None
    # Term 0 has no leader, so nobody may speak for it.
    return Refusal.STALE_TERM


def rule(state: ControllerState, command: Command) -> Decision:
    """Return what the rules of its kind make of a command that passed the guard."""
    match command:
        case AlterSyncStateSet():
            decided = decide_sync_set.alter_sync_state_set(state, command)
        case ElectMaster():
            decided = decide_elect.elect_master(state, command)
        case RegisterBroker():
            decided = decide_replicas.register_broker(state, command)
        case ApplyBrokerId():
            decided = decide_replicas.apply_broker_id(state, command)
        case CleanBrokerData():
            decided = decide_replicas.clean_broker_data(state, command)
        case ClaimLeadership():
            return decide_cluster.claim_leadership(state, command)
        case ClusterFormed():
            return decide_cluster.form_cluster(state, command)
        case ChangeSettings():
            return decide_cluster.change_settings(state, command)
        case ImportBrokerSet():
            decided = decide_import.import_broker_set(state, command)
        case DoubtBrokerSet():
            return decide_doubt.doubt_broker_set(state, command)
        case ActivateRules():
            return decide_cluster.activate_rules(state, command)
        case _:
            assert_never(command)
    if decided.changes and rules_of(state.rules_version).remembers:
        return remembering(state.sets.get(command.broker_name), decided)
    return decided
