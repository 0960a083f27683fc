"""Incidents with known answers: a master that falls silent, one that is killed, one without a
follower. Knows no rule.
"""

from msgspec.structs import replace

from events.envelope import ReplicaEvidence
from lakehouse.answers.what_if_rules import Scene, Silence
from tests.support.control_history import NAME, History, seen, with_master
from tests.unit.lakehouse.gold.gold_cases import at

TIMEOUT_MS = 10_000
EXPIRED, REFUSED = "heartbeat_expired", "probe_refused"


def gone(
    broker_id: int, reason: str = EXPIRED, silent_ms: int = TIMEOUT_MS + 100, offset: int = 1000
) -> ReplicaEvidence:
    """Evidence of a replica that counts as gone."""
    return replace(seen(broker_id, alive=False, reason=reason, offset=offset), silent_ms=silent_ms)


def silence(from_ms: int, until_ms: int, broker_id: int = 1, *, restarted: bool = False) -> Silence:
    """A silence as the leader reports it."""
    return Silence(
        broker_id, from_ms, until_ms, TIMEOUT_MS, until_ms - from_ms > TIMEOUT_MS, restarted
    )


def silent_master(reason: str = EXPIRED, silent_ms: int = TIMEOUT_MS + 100) -> tuple[History, int]:
    """Broker 1 leads and is gone, broker 2 follows it; the offset of that election."""
    past = with_master(1, 2, 3)
    offset = len(past.records)
    assert past.elect(-1, gone(1, reason, silent_ms), seen(2), seen(3), master_epoch=1).accepted
    return past, offset


def scene(
    *evidence: ReplicaEvidence,
    silences: tuple[Silence, ...] = (),
    members: tuple[int, ...] = (1, 2, 3),
) -> Scene:
    """Broker 1 leads these members; at second 100 this is known of the replicas."""
    return Scene(with_master(*members).folder.state, NAME, at(100), evidence, silences)
