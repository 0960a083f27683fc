"""Replicas as an election sees them: who is alive, and which numbers count."""

import pytest

from processors.fold.candidates import REASON_STALE, assess, not_considered
from processors.fold.state import BrokerSet, Replica
from tests.support.control_history import seen

OURS = Replica(
    1, "h1:1", "code", "h1:2", "i1", is_regent=True, is_registered=True, last_epoch=3, end_offset=30
)
JAVA = Replica(2, "", "code", is_registered=True)
SET = BrokerSet("c", "b", 3, (OURS, JAVA), sync_state_set=(1,), has_had_master=True)

LIVENESS = [
    ("a heartbeat of this start", seen(1), -1, "ALIVE"),
    ("a heartbeat of another start", seen(1, incarnation="i0"), -1, "STALE_INCARNATION"),
    ("a heartbeat without a start", seen(1, incarnation=None), -1, "STALE_INCARNATION"),
    ("not alive", seen(1, alive=False), -1, "NOT_ALIVE"),
    ("stale for the issuer", seen(1, alive=False, reason=REASON_STALE), -1, "STALE_INCARNATION"),
    ("asked, before its first heartbeat", seen(1, incarnation=None, reason="asked"), -1, "ALIVE"),
    ("asking, called dead", seen(1, alive=False), 1, "ALIVE"),
    ("asking, nothing known", None, 1, "ALIVE"),
    ("nothing known", None, -1, "NOT_ALIVE"),
]


@pytest.mark.parametrize(
    ("evidence", "asking", "liveness"),
    [row[1:] for row in LIVENESS],
    ids=[row[0] for row in LIVENESS],
)
def test_who_counts_as_alive(evidence, asking, liveness):
    assert assess(SET, [evidence] if evidence else [], asking)[0].liveness == liveness


def test_a_java_broker_is_alive_by_any_heartbeat():
    assert assess(SET, [seen(2, incarnation=None)])[1].is_alive


@pytest.mark.parametrize(
    ("evidence", "numbers"),
    [
        (seen(1, epoch=5, offset=7), (5, 7)),
        (seen(1, epoch=5, offset=7, incarnation="i0"), (3, 30)),
        (seen(1, epoch=-1, offset=-1), (3, 30)),
        (None, (3, 30)),
    ],
    ids=["heartbeat", "heartbeat of another start", "empty heartbeat", "nothing known"],
)
def test_which_numbers_count(evidence, numbers):
    candidate = assess(SET, [evidence] if evidence else [])[0]
    assert (candidate.epoch, candidate.max_offset) == numbers


def test_every_replica_is_a_candidate_in_the_order_of_ids():
    found = assess(SET, [seen(9), seen(2, incarnation=None)])
    assert [(c.broker_id, c.in_set) for c in found] == [(1, True), (2, False)]


def test_the_row_of_a_candidate_has_what_was_known_of_it():
    row = not_considered(assess(SET, []))[1]
    assert (row.broker_id, row.address, row.verdict) == (2, None, "NOT_CONSIDERED")
    assert (row.in_set, row.alive, row.clean, row.chosen) == (False, False, True, False)
