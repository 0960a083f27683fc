"""How long a leader has waited for former members that do not come back (setting atRiskWaitMs)."""

from events.envelope import ReplicaEvidence
from processors.fold.state import BrokerSet, Replica
from processors.liveness.at_risk_wait import AtRiskWaits


def dark(*members: int, unclean: tuple[int, ...] = (1, 2, 3)) -> BrokerSet:
    replicas = tuple(
        Replica(i, f"h{i}:1", "c", is_registered=True, clean=i not in unclean) for i in (1, 2, 3)
    )
    return BrokerSet(
        "C", "a", 4, replicas, sync_state_set=members, unclean_members=unclean, has_had_master=True
    )


def alive(*ids: int) -> tuple[ReplicaEvidence, ...]:
    return tuple(ReplicaEvidence(i, i in ids, "heartbeat") for i in (1, 2, 3))


def test_the_one_that_went_missing_last_counts() -> None:
    waits = AtRiskWaits()
    assert waits.waited_ms(dark(), alive(2, 3), 1_000) == 0
    assert waits.waited_ms(dark(), alive(2), 5_000) == 0
    assert waits.waited_ms(dark(), alive(2), 9_000) == 4_000
    assert waits.waited_ms(dark(), alive(2, 3), 9_500) == 8_500


def test_a_set_whose_members_may_come_back_waits_for_no_time() -> None:
    assert AtRiskWaits().waited_ms(dark(1, unclean=(2,)), alive(3), 1_000) is None


def test_who_is_all_there_waits_for_nobody_and_begins_anew() -> None:
    waits = AtRiskWaits()
    waits.waited_ms(dark(), alive(2, 3), 1_000)
    assert waits.waited_ms(dark(), alive(1, 2, 3), 2_000) is None
    assert waits.waited_ms(dark(), alive(2, 3), 3_000) == 0
    waits.forget("a")
    assert waits.waited_ms(dark(), alive(2, 3), 4_000) == 0
