"""The replicas of a set as an election sees them: the record, joined with the evidence.

Responsible for who counts as alive, which numbers count, and the row that an outcome keeps of
each. Refuses to know who wins.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from events.envelope import ELECTION_PRIORITY_DEFAULT, ReplicaEvidence
from events.outcomes import CandidateVerdict
from processors.fold.rules import Rules
from processors.fold.state import NO_BROKER_ID, BrokerSet, Replica

ALIVE = "ALIVE"
NOT_ALIVE = "NOT_ALIVE"
STALE_INCARNATION = "STALE_INCARNATION"
POSITION_NOT_SHOWN = "POSITION_NOT_SHOWN"

REASON_ASKED = "asked"
REASON_STALE = "stale_incarnation"
REASON_UNSHOWN = "position_not_shown"
_ABSENT = {REASON_STALE: STALE_INCARNATION, REASON_UNSHOWN: POSITION_NOT_SHOWN}


class Candidate(Struct, frozen=True, gc=False):
    """One replica as an election sees it: the record, joined with the evidence."""

    broker_id: int
    replica: Replica
    in_set: bool
    is_alive: bool
    """Whether its present incarnation counts as alive."""
    liveness: str
    epoch: int
    max_offset: int
    priority: int
    confirm_offset: int = -1
    """What its own heartbeats named; -1 when they named none since it started."""


def assess(
    broker_set: BrokerSet, evidence: Sequence[ReplicaEvidence], asking_id: int = NO_BROKER_ID
) -> tuple[Candidate, ...]:
    """Return every replica of the set with what counts about it; an asking replica is alive."""
    known = by_replica(evidence)
    members = broker_set.sync_state_set
    # Loops here and below: the fold comes by for each replica of each decision, and to begin a
    # comprehension costs as much as three turns of it.
    found = []
    for replica in broker_set.replicas:
        broker_id, confirmed = replica.broker_id, -1
        entry = known.get(broker_id)
        liveness = _liveness(replica, entry, asking_id)
        if entry is None:
            epoch, max_offset, priority = (
                replica.last_epoch,
                replica.end_offset,
                ELECTION_PRIORITY_DEFAULT,
            )
        else:
            priority = entry.election_priority
            # Heartbeats of an earlier start are void (S5): what it registered with counts then.
            if entry.epoch >= 0 and entry.incarnation == replica.incarnation:
                epoch, max_offset, confirmed = entry.epoch, entry.max_offset, entry.confirm_offset
            else:
                epoch, max_offset = replica.last_epoch, replica.end_offset
        is_member, is_alive = broker_id in members, liveness == ALIVE
        found.append(
            Candidate(
                broker_id,
                replica,
                is_member,
                is_alive,
                liveness,
                epoch,
                max_offset,
                priority,
                confirmed,
            )
        )
    return tuple(found)


def by_replica(evidence: Sequence[ReplicaEvidence]) -> dict[int, ReplicaEvidence]:
    """Return what is known of each replica: of several entries about one the first counts."""
    known = {}
    for entry in reversed(evidence):
        known[entry.broker_id] = entry
    return known


def find(candidates: Iterable[Candidate], broker_id: int) -> Candidate | None:
    """Return the candidate with that id, or None."""
    for candidate in candidates:
        if candidate.broker_id == broker_id:
            return candidate
    return None


def highest_epoch(
    known: int, candidates: Iterable[Candidate], evidence: Iterable[ReplicaEvidence], below: int
) -> int:
    """Return the highest epoch `below` a limit that is known or that brokers of the set reported
    (S7).
    """
    highest = known
    for candidate in candidates:
        if highest < candidate.epoch < below:
            highest = candidate.epoch
    for entry in evidence:
        if highest < entry.epoch < below:
            highest = entry.epoch
    return highest


def is_replaced(candidate: Candidate, candidates: Iterable[Candidate]) -> bool:
    """Return whether it will not come back: a later id lives at its address, so its disk is gone.

    Asked where no member can lead, so a stranger who takes an id in a living broker's name moves
    nobody out of the way.
    """
    return not candidate.is_alive and any(
        other.broker_id > candidate.broker_id
        and other.is_alive
        and other.replica.is_registered
        and other.replica.address == candidate.replica.address
        for other in candidates
    )


def nobody_comes_back(
    broker_set: BrokerSet, candidates: tuple[Candidate, ...], *, remembers: bool
) -> bool:
    """Return whether the set had members and has none: they started unclean, were cleaned, their
    disks are gone, or the log lost who they are.

    `remembers`: rules 3 and later, to which a member that was replaced is gone for good, and one
    that was cleaned as long as somebody is left who ever was a member.
    """
    members = broker_set.sync_state_set
    if not members:
        return bool(broker_set.unclean_members or broker_set.uncertain) or (
            remembers and bool(broker_set.former)
        )
    gone = [c for c in candidates if c.in_set and is_replaced(c, candidates)]
    return remembers and len(gone) == len(members)


def awaited_of(
    broker_set: BrokerSet, candidates: tuple[Candidate, ...], *, remembers: bool
) -> tuple[int, ...]:
    """Return whom an election at risk waits for: the unclean members, and all that ever were
    members.

    `remembers`: rules 3 and later; before, the unclean members alone. A replica that is forgotten,
    never registered, or will not come back is not waited for.
    """
    if not remembers:
        return broker_set.unclean_members
    ids = {*broker_set.unclean_members, *broker_set.former}
    return tuple(
        c.broker_id
        for c in candidates
        if c.broker_id in ids and c.replica.is_registered and not is_replaced(c, candidates)
    )


def reach(broker_set: BrokerSet, rules: Rules, limit: int) -> int:
    """Return the epoch from which on a report counts for nothing, at most `limit`.

    A set that begins takes what its brokers bring along; later epochs grow by elections only, so a
    report far above is no epoch of this set, and to follow it would use all epochs up (S18).
    """
    if rules.epoch_reach is None or not broker_set.has_had_master:
        return limit
    far = broker_set.highest_epoch_seen + rules.epoch_reach + 1
    return far if far < limit else limit


def not_considered(candidates: tuple[Candidate, ...]) -> tuple[CandidateVerdict, ...]:
    """Return verdicts for an election that was refused before anyone was looked at."""
    return tuple(verdict_of(c, "NOT_CONSIDERED") for c in candidates)


def verdict_of(candidate: Candidate, verdict: str) -> CandidateVerdict:
    """Return the row that the outcome keeps of `candidate`."""
    replica = candidate.replica
    return CandidateVerdict(
        replica.broker_id,
        replica.address or None,
        candidate.in_set,
        candidate.is_alive,
        replica.clean,
        candidate.epoch,
        candidate.max_offset,
        candidate.priority,
        verdict == "CHOSEN",
        verdict,
    )


def absence_of(candidate: Candidate) -> str:
    """Return why it could not even stand, or nothing."""
    if not candidate.replica.is_registered:
        return "NOT_REGISTERED"
    return "" if candidate.is_alive else candidate.liveness


def _liveness(replica: Replica, evidence: ReplicaEvidence | None, asking_id: int) -> str:
    if replica.broker_id == asking_id:
        # Its first heartbeat may come after its question (RULES 16, row 8), but of a
        # start that told no position only that one says whether it lost data (S15).
        is_unshown = evidence is not None and evidence.reason == REASON_UNSHOWN
        return POSITION_NOT_SHOWN if is_unshown else ALIVE
    if evidence is None:
        return NOT_ALIVE
    if not evidence.alive:
        return _ABSENT.get(evidence.reason, NOT_ALIVE)
    if evidence.reason == REASON_ASKED or evidence.incarnation == replica.incarnation:
        return ALIVE
    return STALE_INCARNATION
