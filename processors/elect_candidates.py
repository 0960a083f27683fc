"""
The replicas of a set as an election sees them: the record, joined with the evidence.

Responsible for who counts as alive, which numbers count, and the row that an outcome keeps of
each. Refuses to know who wins.
"""

from collections.abc import Iterable
from typing import NamedTuple

from events.envelope import ELECTION_PRIORITY_DEFAULT, ReplicaEvidence
from events.outcomes import CandidateVerdict
from processors.rules import Rules
from processors.state import NO_BROKER_ID, BrokerSet, Replica

ALIVE = "ALIVE"
NOT_ALIVE = "NOT_ALIVE"
STALE_INCARNATION = "STALE_INCARNATION"

REASON_ASKED = "asked"
REASON_STALE = "stale_incarnation"


class Candidate(NamedTuple):
    """
    One replica as an election sees it: the record, joined with the evidence.

    A tuple, because the fold makes one for each replica of each decision.
    """

    replica: Replica
    in_set: bool
    liveness: str
    epoch: int
    max_offset: int
    priority: int

    @property
    def broker_id(self) -> int:
        """Its controller id."""
        return self.replica.broker_id

    @property
    def is_alive(self) -> bool:
        """Whether its present incarnation counts as alive."""
        return self.liveness == ALIVE


def assess(
    broker_set: BrokerSet, evidence: Iterable[ReplicaEvidence], asking_id: int = NO_BROKER_ID
) -> tuple[Candidate, ...]:
    """Return every replica of the set with what counts about it; who asks is alive."""
    known: dict[int, ReplicaEvidence] = {}
    for entry in evidence:
        known.setdefault(entry.broker_id, entry)
    return tuple(
        _candidate(broker_set, replica, known.get(replica.broker_id), asking_id)
        for replica in broker_set.replicas
    )


def reported_epochs(
    candidates: tuple[Candidate, ...], evidence: Iterable[ReplicaEvidence], rules: Rules
) -> tuple[int, ...]:
    """Return the epochs that brokers of the set reported, as far as this decision knows (S7)."""
    of_replicas = tuple(candidate.epoch for candidate in candidates)
    if not rules.epoch_above_all_evidence:
        return of_replicas
    return (*of_replicas, *(entry.epoch for entry in evidence))


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
    broker_set: BrokerSet, replica: Replica, evidence: ReplicaEvidence | None, asking_id: int
) -> Candidate:
    in_set = replica.broker_id in broker_set.sync_state_set
    liveness = _liveness(replica, evidence, asking_id)
    if evidence is None:
        priority = ELECTION_PRIORITY_DEFAULT
        return Candidate(
            replica, in_set, liveness, replica.last_epoch, replica.end_offset, priority
        )
    # Heartbeats of an earlier start are void (S5): what it registered with counts then.
    counts = evidence.incarnation == replica.incarnation and evidence.epoch >= 0
    return Candidate(
        replica,
        in_set,
        liveness,
        evidence.epoch if counts else replica.last_epoch,
        evidence.max_offset if counts else replica.end_offset,
        evidence.election_priority,
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
