"""The election policy: RULES 7 and design S7."""

import pytest

from processors.fold.candidates import assess
from processors.fold.elect import elect
from processors.fold.state import BrokerSet, Replica
from tests.support.control_history import seen

DEFAULT = 2_147_483_647


def replica(broker_id: int, **other) -> Replica:
    values = {"incarnation": f"i{broker_id}", "is_regent": True, "is_registered": True} | other
    return Replica(broker_id, f"h{broker_id}:1", "code", "h:2", **values)


def broker_set(*members: int, replicas=(1, 2, 3), master: int | None = None, **other) -> BrokerSet:
    return BrokerSet(
        "c",
        "b",
        9,
        tuple(replica(i) for i in replicas),
        master,
        1,
        members,
        1,
        1,
        has_had_master=True,
        **other,
    )


def run(of: BrokerSet, *evidence, broker_id=-1, designate=False, unclean=False):
    asking = -1 if designate else broker_id
    return elect(
        of,
        assess(of, evidence, asking),
        broker_id=broker_id,
        designate=designate,
        unclean_allowed=unclean,
    )


def reasons(election) -> dict[int, str]:
    return {row.broker_id: row.verdict for row in election.verdicts}


ORDER = [
    # id, evidence of 1 and 2 as (priority, epoch, offset), winner, reason against the other
    ("priority", (2, 9, 9), (1, 1, 1), 2, "LOWER_PRIORITY"),
    ("epoch", (1, 1, 9), (1, 2, 1), 2, "LOWER_EPOCH"),
    ("offset", (1, 1, 8), (1, 1, 9), 2, "LOWER_OFFSET"),
    ("full tie", (1, 1, 9), (1, 1, 9), 1, "HIGHER_ID"),
    ("defect 2: offsets 2 GiB apart", (1, 1, 0), (1, 1, 2**31), 2, "LOWER_OFFSET"),
    ("defect 2: offsets 4 GiB apart", (1, 1, 5), (1, 1, 5 + 2**32), 2, "LOWER_OFFSET"),
    ("defect 2: offsets 8 EiB apart", (1, 1, 0), (1, 1, 2**63 - 1), 2, "LOWER_OFFSET"),
]


@pytest.mark.parametrize(
    ("first", "second", "winner", "reason"),
    [row[1:] for row in ORDER],
    ids=[row[0] for row in ORDER],
)
def test_order_within_the_set(first, second, winner, reason):
    evidence = [
        seen(broker_id, priority=priority, epoch=epoch, offset=offset)
        for broker_id, (priority, epoch, offset) in ((1, first), (2, second))
    ]
    election = run(broker_set(1, 2, replicas=(1, 2)), *evidence)
    assert election.winner == winner
    assert reasons(election) == {winner: "CHOSEN", 3 - winner: reason}


UNCLEAN_ORDER = [
    ("epoch", (1, 1, 9), (2, 2, 1), 2, "LOWER_EPOCH"),
    ("offset", (1, 1, 8), (2, 1, 9), 2, "LOWER_OFFSET"),
    ("priority", (2, 1, 9), (1, 1, 9), 2, "LOWER_PRIORITY"),
    ("full tie", (1, 1, 9), (1, 1, 9), 1, "HIGHER_ID"),
]


@pytest.mark.parametrize(
    ("first", "second", "winner", "reason"),
    [row[1:] for row in UNCLEAN_ORDER],
    ids=[row[0] for row in UNCLEAN_ORDER],
)
def test_order_outside_the_set(first, second, winner, reason):
    evidence = [
        seen(broker_id, priority=priority, epoch=epoch, offset=offset)
        for broker_id, (priority, epoch, offset) in ((1, first), (2, second))
    ]
    election = run(broker_set(3), *evidence, unclean=True)
    assert election.winner == winner
    assert election.members == (winner,)
    assert reasons(election) == {winner: "CHOSEN", 3 - winner: reason, 3: "NOT_ALIVE"}
    assert set(election.labels) == {"AT_RISK", "UNCLEAN"}


def test_step_1_nobody_alive_is_nobody():
    election = run(broker_set(1, 2, 3))
    assert election.winner is None
    assert set(reasons(election).values()) == {"NOT_ALIVE"}


def test_round_b_only_when_round_a_finds_nobody():
    election = run(broker_set(1, 2), seen(2, offset=1), seen(3, offset=9), unclean=True)
    assert election.winner == 2
    assert election.labels == ()
    assert reasons(election)[3] == "NOT_IN_SET"


def test_no_round_b_with_unclean_off():
    election = run(broker_set(1, 2), seen(3))
    assert election.winner is None
    assert reasons(election) == {1: "NOT_ALIVE", 2: "NOT_ALIVE", 3: "NOT_IN_SET"}


def test_step_2_the_old_master_stays_when_it_is_alive():
    election = run(broker_set(1, 2, master=2), seen(1, offset=10**9), seen(2, offset=1))
    assert election.master_kept
    assert election.winner is None
    assert not any(row.chosen for row in election.verdicts)


def test_step_3_a_preferred_member_is_taken_whatever_the_order():
    election = run(
        broker_set(1, 2, 3, master=1),
        seen(1),
        seen(2, offset=0, priority=DEFAULT),
        seen(3),
        broker_id=2,
        designate=True,
    )
    assert election.winner == 2
    assert election.members == (1, 2, 3)


def test_evidence_of_an_earlier_start_does_not_make_alive():
    election = run(broker_set(1, 2), seen(1, incarnation="older"), seen(2, offset=0))
    assert election.winner == 2
    assert reasons(election)[1] == "STALE_INCARNATION"


def test_stale_evidence_is_named_also_when_the_issuer_saw_it():
    stale = seen(1, alive=False, reason="stale_incarnation")
    assert reasons(run(broker_set(1, 2), stale, seen(2)))[1] == "STALE_INCARNATION"


def test_who_asks_is_alive_without_a_heartbeat():
    assert run(broker_set(1, 2), broker_id=2).winner == 2
    assert run(broker_set(1, 2), seen(2, alive=False), broker_id=2).winner == 2
    assert run(broker_set(1, 2), seen(2, incarnation=None, reason="asked")).winner == 2


def test_who_is_designated_is_not_alive_by_being_named():
    assert run(broker_set(1, 2), broker_id=2, designate=True).winner is None


def test_numbers_of_an_earlier_start_are_void():
    of = BrokerSet(
        "c",
        "b",
        3,
        (replica(1, last_epoch=1, end_offset=5), replica(2, last_epoch=1, end_offset=6)),
        None,
        1,
        (1, 2),
        1,
        1,
        has_had_master=True,
    )
    void = seen(1, incarnation="older", epoch=9, offset=99)
    first = assess(of, [void], 1)[0]
    assert (first.epoch, first.max_offset) == (1, 5)
    assert run(of, void, seen(2, offset=6), broker_id=1).winner == 2


def test_of_two_entries_for_one_replica_the_first_counts():
    election = run(broker_set(1, 2), seen(1, alive=False), seen(1), seen(2))
    assert election.winner == 2


def test_evidence_about_strangers_is_ignored():
    assert reasons(run(broker_set(1, 2), seen(2), seen(77))) == {
        1: "NOT_ALIVE",
        2: "CHOSEN",
        3: "NOT_ALIVE",
    }


def test_who_never_registered_cannot_stand():
    of = BrokerSet(
        "c",
        "b",
        3,
        (replica(1), replica(2, is_registered=False)),
        None,
        1,
        (1,),
        1,
        1,
        has_had_master=True,
    )
    election = run(of, seen(1, alive=False), seen(2), unclean=True)
    assert election.winner is None
    assert reasons(election)[2] == "NOT_REGISTERED"


@pytest.mark.parametrize("unclean", [False, True])
@pytest.mark.parametrize("designate", [False, True])
@pytest.mark.parametrize("broker_id", [-1, 1, 3, 9])
@pytest.mark.parametrize("alive", [(), (1,), (2, 3), (1, 2, 3)], ids=str)
def test_every_replica_gets_one_verdict_and_at_most_one_is_chosen(
    unclean, designate, broker_id, alive
):
    for of in (
        broker_set(1, 2, master=1),
        broker_set(1, 2, master=1, master_restarted=True),
        broker_set(),
        broker_set(unclean_members=(1, 2)),
    ):
        evidence = [seen(i) for i in alive]
        election = run(of, *evidence, broker_id=broker_id, designate=designate, unclean=unclean)
        assert list(reasons(election)) == [1, 2, 3]
        assert all(reasons(election).values())
        chosen = [row.broker_id for row in election.verdicts if row.chosen]
        assert chosen == ([] if election.winner is None else [election.winner])
        assert election.winner is None or election.winner in election.members
