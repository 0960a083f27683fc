"""Remembers who holds all that was acknowledged although it is no member any more (design S14).

Responsible for what a decision does to this memory, whatever it decided. Refuses to know why.

Why whoever is remembered holds everything: a member holds all that was acknowledged as long as it
is one (S1: its acknowledgement was needed, also while a proposal to leave it out was open, S3). It
is remembered from the decision that left it out, and only while the set has fewer members than its
master acknowledges with, so nothing was acknowledged since. Whoever leads next from among members
or remembered ones holds everything itself, so what it copies to others takes nothing acknowledged
away. The first decision that gives the set its minimum ends the memory: from there on members may
acknowledge without those that were left out. A set without a master acknowledges nothing. A replica
that lost data, or that may have, is not clean and not remembered; after an election at risk nobody
is, because it may have given up what was acknowledged. A master that did not tell its minimum, as
Java's do not, may acknowledge alone: its set remembers nobody.
"""

from typing import Any

from msgspec.structs import replace

from events.changes import (
    BrokerIdApplied,
    BrokerRegistered,
    Change,
    MasterAtRisk,
    MasterElected,
    MembersRemembered,
    MinimumTold,
    PositionsShown,
    SyncStateSetAltered,
)
from processors.fold.evolve import evolve_set
from processors.fold.refusals import Decision
from processors.fold.state import BrokerSet


def remembering(before: BrokerSet | None, decision: Decision) -> Decision:
    """Return `decision`, which changes a set, with what it does to the memory as its last change.

    `before` is the set as it was decided about, None when the decision begins it.
    """
    if before is not None and _leaves_the_memory(before, decision.changes):
        return decision
    after: Any = before
    at_risk = False
    for change in decision.changes:
        after = evolve_set(after, change)
        at_risk = at_risk or isinstance(change, MasterAtRisk)
    former = _former(before, after)
    remembered = () if at_risk else _remembered(before, after)
    if (remembered, former) == (after.remembered, after.former):
        return decision
    memory = MembersRemembered(after.broker_name, remembered, former)
    return replace(decision, changes=(*decision.changes, memory))


def _leaves_the_memory(before: BrokerSet, changes: tuple[Change, ...]) -> bool:
    """Return whether it is plain that nothing is remembered or forgotten by `changes`.

    Nobody was remembered, every member of before and after is written down as one, and nobody is
    left out of a set that falls below its minimum. Most decisions are such, and to apply each twice
    is what this saves; where it is not plain, the set is looked at before and after.
    """
    former = before.former
    if before.remembered or (before.has_had_master and not former):
        return False
    was = members = before.sync_state_set
    master, told = before.master_broker_id, False
    change: Any  # `kind` says what it has.
    for change in changes:
        kind = type(change)
        if kind is SyncStateSetAltered:
            members = change.sync_state_set
        elif kind is MasterElected:
            members, master = change.sync_state_set, change.master_broker_id
        elif kind is MinimumTold:
            told = True
        elif (
            kind is not PositionsShown
            and kind is not BrokerRegistered
            and kind is not BrokerIdApplied
        ):
            return False
    if members == was:
        return True
    for broker_id in members:
        if broker_id not in former:
            return False
    for broker_id in was:
        if broker_id not in members:
            break
    else:
        return True
    return not told and master is not None and len(members) >= before.minimum_of(master)


def _former(before: BrokerSet | None, after: BrokerSet) -> tuple[int, ...]:
    known = {replica.broker_id for replica in after.replicas}
    members = set(after.former) | set(after.sync_state_set)
    if before is not None:
        members |= set(before.sync_state_set)
        if before.has_had_master and not before.former:
            # Older rules did not write down who was a member: anybody may have been.
            members |= {replica.broker_id for replica in before.replicas if replica.is_registered}
    return tuple(sorted(members & known))


def _remembered(before: BrokerSet | None, after: BrokerSet) -> tuple[int, ...]:
    minimum = after.min_in_sync()
    if before is None or (minimum is not None and len(after.sync_state_set) >= minimum):
        return ()
    holders = {*before.remembered, *before.sync_state_set} - set(after.sync_state_set)
    sound = {
        replica.broker_id for replica in after.replicas if replica.clean and replica.is_registered
    }
    return tuple(sorted(holders & sound))
