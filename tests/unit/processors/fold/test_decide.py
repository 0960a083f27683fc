"""The guards before all rules, and that every kind of command has rules."""

import pytest

from events.commands import COMMANDS, ClaimLeadership, ElectMaster
from processors.fold import decide
from processors.fold.refusals import Refusal
from processors.fold.state import ControllerState
from tests.support.control_history import CLUSTER, NAME, History, seen, with_master


def elect(history: History, **envelope):
    return ElectMaster(history.envelope(**envelope), CLUSTER, NAME, -1, False)


def test_before_the_cluster_is_formed_nothing_is_decided():
    command = elect(History())
    assert decide.decide(ControllerState(), command).refusal is Refusal.NOT_FORMED


def test_a_command_of_another_cluster_is_refused():
    history = with_master(1)
    assert history.do(elect(history, cluster_id="other")).refusal == "WRONG_CLUSTER"
    claim = ClaimLeadership(history.envelope(cluster_id="other"), 1, "n9", "h:1", "r")
    assert history.do(claim).refusal == "WRONG_CLUSTER"


@pytest.mark.parametrize("term", [-1, 0, 1, 3])
def test_d6_a_command_without_the_current_term_decides_nothing(term):
    history = with_master(1, 2, 3)
    history.claim(1)
    outcome = history.do(elect(history, term=term))
    assert (outcome.code, outcome.refusal, outcome.changes) == (2007, "STALE_TERM", ())
    assert history.set.master_broker_id == 1


def test_d6_a_paused_leader_that_wakes_up_can_append_but_decides_nothing():
    history = with_master(1, 2, 3)
    asleep = history.folder.state.term
    history.claim(asleep, "n1")
    late = history.alter((1, 2), seen(1), seen(2))
    assert late.accepted
    woken = elect(history, term=asleep, issuer="n0")
    assert history.do(woken).refusal == "STALE_TERM"


def test_without_a_leader_term_0_speaks_for_nobody():
    history = History(led=False)
    assert history.do(elect(history)).refusal == "STALE_TERM"


def test_a_claim_needs_no_term():
    history = History()
    claim = ClaimLeadership(history.envelope(term=99), 1, "n1", "h:1", "r")
    assert history.do(claim).accepted


def test_every_kind_of_command_has_rules():
    """`rule` ends in `assert_never`; here each kind reaches its own."""
    from events.envelope import Envelope

    for cls in COMMANDS:
        samples = {
            "envelope": Envelope(bytes(16), "c", 1, "n", 0, ""),
            "broker_ids": None,
            "settings": {},
            "fingerprints": (),
            "new_sync_state_set": (),
            "register_check_code": "x",
            "sync_state_set": (1,),
            "replicas": (),
            "source": "s",
            "cluster_name": "c",
            "broker_name": "b",
        }
        fields = [f for f in cls.__struct_fields__ if f != "evidence"]
        numbers = {"designate": False, "clean_living": False}
        command = cls(*(samples.get(f, numbers.get(f, 1)) for f in fields[: _required(cls)]))
        assert decide.rule(ControllerState(), command) is not None


def _required(cls) -> int:
    return len(cls.__struct_fields__) - len(cls.__struct_defaults__)
