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
    known = {}
    for entry in reversed(evidence):
        known[entry.broker_id] = entry
    members = broker_set.sync_state_set
    # Loops here and below: the fold comes by for each replica of each decision, and to begin a
    # comprehension costs as much as three turns of it.
    found = []
    for replica in broker_set.replicas:
        found.append(_candidate(replica, known.get(replica.broker_id), asking_id, members))
    return tuple(found)


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
    epochs = []
    for candidate in candidates:
        epochs.append(candidate.epoch)
    if rules.epoch_above_all_evidence:
        for entry in evidence:
            epochs.append(entry.epoch)
    return tuple(epochs)


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
    liveness = _liveness(replica, evidence, asking_id)
    priority = ELECTION_PRIORITY_DEFAULT
    if evidence is not None:
        priority = evidence.election_priority
        # Heartbeats of an earlier start are void (S5): what it registered with counts then.
        if evidence.epoch >= 0 and evidence.incarnation == replica.incarnation:
            epoch, max_offset = evidence.epoch, evidence.max_offset
    return Candidate(
        broker_id,
        replica,
        broker_id in members,
        liveness == ALIVE,
        liveness,
        epoch,
        max_offset,
        priority,
    )


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
