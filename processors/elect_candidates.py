"""
The replicas of a set as an election sees them: the record, joined with the evidence.

Responsible for who counts as alive, which numbers count, and the row that an outcome keeps of
each. Refuses to know who wins.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from events.envelope import ELECTION_PRIORITY_DEFAULT, ReplicaEvidence
from events.outcomes import CandidateVerdict
from processors.rules import Rules
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
    # Of several about one replica the first counts.
    known = {entry.broker_id: entry for entry in reversed(evidence)}
    members = broker_set.sync_state_set
    # Lists here and below, not generators: the fold comes by for each replica of each decision.
    return tuple(
        [
            _candidate(replica, known.get(replica.broker_id), asking_id, members)
            for replica in broker_set.replicas
        ]
    )


def find(candidates: Iterable[Candidate], broker_id: int) -> Candidate | None:
    """Return the candidate with that id, or None."""
    for candidate in candidates:
        if candidate.broker_id == broker_id:
            return candidate
    return None


def reported_epochs(
    candidates: tuple[Candidate, ...], evidence: Iterable[ReplicaEvidence], rules: Rules
) -> tuple[int, ...]:
    """Return the epochs that brokers of the set reported, as far as this decision knows (S7)."""
    of_replicas = [candidate.epoch for candidate in candidates]
    if not rules.epoch_above_all_evidence:
        return tuple(of_replicas)
    return (*of_replicas, *[entry.epoch for entry in evidence])


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


def _candidate(
    replica: Replica, evidence: ReplicaEvidence | None, asking_id: int, members: tuple[int, ...]
) -> Candidate:
    broker_id, epoch, max_offset = replica.broker_id, replica.last_epoch, replica.end_offset
    # Its first heartbeat may come after its question (`controller.md` 16, row 8).
    is_alive = broker_id == asking_id
    if evidence is None:
        priority, liveness = ELECTION_PRIORITY_DEFAULT, NOT_ALIVE
    else:
        priority = evidence.election_priority
        is_of_this_start = evidence.incarnation == replica.incarnation
        # Heartbeats of an earlier start are void (S5): what it registered with counts then.
        if is_of_this_start and evidence.epoch >= 0:
            epoch, max_offset = evidence.epoch, evidence.max_offset
        if evidence.alive:
            is_alive = is_alive or is_of_this_start or evidence.reason == REASON_ASKED
            liveness = STALE_INCARNATION
        else:
            liveness = STALE_INCARNATION if evidence.reason == REASON_STALE else NOT_ALIVE
    return Candidate(
        broker_id,
        replica,
        broker_id in members,
        is_alive,
        ALIVE if is_alive else liveness,
        epoch,
        max_offset,
        priority,
    )
