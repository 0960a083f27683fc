"""
The replicas of a set as an election sees them: the record, joined with the evidence.

Responsible for who counts as alive, which numbers count, and the row that an outcome keeps of
each. Refuses to know who wins.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from events.envelope import ELECTION_PRIORITY_DEFAULT, ReplicaEvidence
from events.outcomes import CandidateVerdict
from processors.state import NO_BROKER_ID, BrokerSet, Replica

ALIVE = "ALIVE"
NOT_ALIVE = "NOT_ALIVE"
STALE_INCARNATION = "STALE_INCARNATION"

REASON_ASKED = "asked"
REASON_STALE = "stale_incarnation"


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


def assess(
    broker_set: BrokerSet, evidence: Sequence[ReplicaEvidence], asking_id: int = NO_BROKER_ID
) -> tuple[Candidate, ...]:
    """Return every replica of the set with what counts about it; who asks is alive."""
    known = by_replica(evidence)
    members = broker_set.sync_state_set
    # Loops here and below: the fold comes by for each replica of each decision, and to begin a
    # comprehension costs as much as three turns of it.
    found = []
    for replica in broker_set.replicas:
        broker_id = replica.broker_id
        entry = known.get(broker_id)
        liveness = _liveness(replica, entry, asking_id)
        if entry is None:
            epoch, max_offset, priority = replica.last_epoch, replica.end_offset, ELECTION_PRIORITY_DEFAULT
        else:
            priority = entry.election_priority
            # Heartbeats of an earlier start are void (S5): what it registered with counts then.
            if entry.epoch >= 0 and entry.incarnation == replica.incarnation:
                epoch, max_offset = entry.epoch, entry.max_offset
            else:
                epoch, max_offset = replica.last_epoch, replica.end_offset
        is_member, is_alive = broker_id in members, liveness == ALIVE
        found.append(Candidate(broker_id, replica, is_member, is_alive, liveness, epoch, max_offset, priority))
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
    """Return the highest epoch `below` a limit that is known or that brokers of the set reported (S7)."""
    highest = known
    for candidate in candidates:
        if highest < candidate.epoch < below:
            highest = candidate.epoch
    for entry in evidence:
        if highest < entry.epoch < below:
            highest = entry.epoch
    return highest


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
    # Its first heartbeat may come after its question (`controller.md` 16, row 8).
    if replica.broker_id == asking_id:
        return ALIVE
    if evidence is None:
        return NOT_ALIVE
    if not evidence.alive:
        return STALE_INCARNATION if evidence.reason == REASON_STALE else NOT_ALIVE
    if evidence.reason == REASON_ASKED or evidence.incarnation == replica.incarnation:
        return ALIVE
    return STALE_INCARNATION
