"""Sets that come over from another controller: as they stand there, and never below what was."""

import pytest
from msgspec.structs import replace

from events.codec import COMMAND_FINGERPRINTS
from events.commands import ActivateRules
from events.envelope import ImportedReplica
from tests.support.control_history import NAME, History, seen, with_master, with_replicas

JAVA = {"incarnation": None}


def test_a_set_comes_over_as_it_stands():
    history = History()
    outcome = history.import_set(2, 1, 4, next_broker_id=6, evidence_epoch=8)
    assert outcome.accepted
    came = history.set
    assert [r.broker_id for r in came.replicas] == [1, 2, 4]
    assert all(r.is_registered and r.clean and not r.is_regent for r in came.replicas)
    assert (came.next_broker_id, came.master_broker_id, came.sync_state_set) == (6, 2, (1, 2, 4))
    assert (came.master_epoch, came.sync_state_set_epoch, came.highest_epoch_seen) == (7, 9, 8)
    assert came.has_had_master
    assert not came.master_restarted


def test_s6_the_master_goes_on_in_its_epoch():
    history = History()
    history.import_set(1, 2)
    everyone = (seen(1, **JAVA), seen(2, **JAVA))
    assert history.elect(2, *everyone).refusal == "MASTER_STILL_EXIST"
    assert history.alter((1,), *everyone).accepted
    assert history.set.master_epoch == 7


def test_s6_a_java_master_that_registers_again_gets_an_epoch_of_its_own():
    """Its start cannot be told from a question that crossed the import: a new epoch costs
    little.
    """
    history = History()
    history.import_set(1, 2)
    assert history.register_java(1).accepted
    assert history.set.master_restarted
    history.elect(1, seen(1, **JAVA), seen(2, **JAVA))
    assert (history.set.master_broker_id, history.set.master_epoch) == (1, 8)
    assert history.set.sync_state_set == (1,)


def test_s9_the_next_newcomer_gets_the_next_id():
    history = History()
    history.import_set(1, 2, next_broker_id=5)
    assert history.apply_id(3).refusal == "BROKER_ID_INVALID"
    assert history.apply_id(5).accepted


def test_s9_nobody_proves_to_be_an_imported_replica_without_a_code():
    history = History()
    history.import_set(1, 2)
    assert history.apply_id(1, "").refusal == "BROKER_ID_INVALID"
    history = History()
    history.import_set(1, replicas=(ImportedReplica(1, "h1:1", "h1:1;7"),))
    assert history.apply_id(1, "h1:1;7").accepted


def test_s7_the_next_epoch_is_above_what_its_brokers_reported():
    history = History()
    history.import_set(1, 2, evidence_epoch=30)
    history.elect(-1, seen(2, **JAVA))
    assert (history.set.master_broker_id, history.set.master_epoch) == (2, 31)


def test_a_set_without_a_master_waits_for_its_members():
    history = History()
    history.import_set(1, 2, master_broker_id=None)
    assert history.apply_id(3).accepted
    history.register(3)
    assert history.elect(3, seen(3)).refusal == "ELECT_MASTER_FAILED"
    assert history.elect(2, seen(2, **JAVA)).accepted


def test_a_set_that_never_had_an_election_begins_here():
    history = History()
    nothing = {"master_broker_id": None, "sync_state_set": (), "evidence_epoch": -1}
    assert history.import_set(1, 2, master_epoch=0, sync_state_set_epoch=0, **nothing).accepted
    assert not history.set.has_had_master
    assert history.elect(2).accepted
    assert history.set.master_epoch == 1


TWO = (ImportedReplica(1, "h1:1"), ImportedReplica(2, "h2:1"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"broker_name": ""},
        {"cluster_name": ""},
        {"source": "x" * 1025},
        {"replicas": ()},
        {"replicas": (*TWO, TWO[0])},
        {"replicas": (TWO[0], replace(TWO[1], address=""))},
        {"replicas": (TWO[0], replace(TWO[1], address="h" * 1025))},
        {"replicas": (TWO[0], replace(TWO[1], register_check_code="x" * 1025))},
        {"replicas": (*TWO, ImportedReplica(0, "h0:1"))},
        {"replicas": (*TWO, ImportedReplica(-1, "h0:1"))},
        {
            "replicas": tuple(ImportedReplica(i, "h:1") for i in range(1, 130)),
            "next_broker_id": 200,
        },
        {"next_broker_id": 2},
        {"next_broker_id": 2**63 - 1},
        {"sync_state_set": (1, 1)},
        {"sync_state_set": (1, 3)},
        {"sync_state_set": (2,)},
        {"sync_state_set": ()},
        {"master_broker_id": 3},
        {"master_epoch": 0},
        {"master_epoch": -1},
        {"master_epoch": 2**31 - 1},
        {"evidence_epoch": 2**31 - 1},
        {"evidence_epoch": -2},
        {"sync_state_set_epoch": 0},
        {"sync_state_set_epoch": -1},
        {"sync_state_set_epoch": 2**31 - 1},
    ],
    ids=str,
)
def test_what_no_controller_can_hold_is_refused(wrong):
    history = History()
    outcome = history.import_set(1, 2, **wrong)
    assert (outcome.refusal, outcome.code) == ("IMPORT_INVALID", 1)


@pytest.mark.parametrize(
    "living", [with_replicas(1), with_master(1, 2)], ids=["new", "with master"]
)
def test_a_set_that_lives_here_is_not_replaced(living):
    assert living.import_set(1, 2, master_epoch=99).refusal == "IMPORT_CONFLICT"


def tombstone() -> History:
    """Next id 4, epochs 2 and 3, of which 5 was reported."""
    history = with_master(1, 2)
    history.register(3, last_epoch=5)
    history.clean(None, living=True)
    assert history.set.tombstone
    assert (history.set.next_broker_id, history.set.highest_epoch_seen) == (4, 5)
    assert (history.set.master_epoch, history.set.sync_state_set_epoch) == (2, 3)
    return history


@pytest.mark.parametrize(
    ("told", "refusal"),
    [
        ({"master_epoch": 6, "sync_state_set_epoch": 4, "next_broker_id": 4}, None),
        ({"master_epoch": 6, "sync_state_set_epoch": 4, "next_broker_id": 3}, "IMPORT_CONFLICT"),
        ({"master_epoch": 5, "sync_state_set_epoch": 4, "next_broker_id": 4}, "IMPORT_CONFLICT"),
        ({"master_epoch": 6, "sync_state_set_epoch": 3, "next_broker_id": 4}, "IMPORT_CONFLICT"),
        (
            {
                "master_epoch": 2, "master_broker_id": None, "evidence_epoch": 5,
                "sync_state_set_epoch": 4, "next_broker_id": 4,
            },
            None,
        ),
        (
            {
                "master_epoch": 2, "master_broker_id": None, "evidence_epoch": 4,
                "sync_state_set_epoch": 4, "next_broker_id": 4,
            },
            "IMPORT_CONFLICT",
        ),
    ],
    ids=["above", "id below", "epoch not above", "set epoch not above", "no master", "seen below"],
)  # fmt: skip
def test_s9_an_import_never_undercuts_a_tombstone(told, refusal):
    history = tombstone()
    assert history.import_set(1, 2, **{"evidence_epoch": -1, **told}).refusal == refusal
    assert history.set.tombstone == (refusal is not None)


@pytest.mark.parametrize(
    ("told", "refusal"),
    [
        ({}, None),
        ({"master_epoch": 8, "evidence_epoch": 8, "master_broker_id": 2}, None),
        ({"sync_state_set_epoch": 10, "sync_state_set": (1,)}, None),
        ({"next_broker_id": 4}, None),
        ({"master_broker_id": 2}, "IMPORT_CONFLICT"),
        ({"sync_state_set": (1,)}, "IMPORT_CONFLICT"),
        ({"sync_state_set_epoch": 8}, "IMPORT_CONFLICT"),
        ({"master_epoch": 6}, "IMPORT_CONFLICT"),
        ({"next_broker_id": 2, "replicas": TWO[:1], "sync_state_set": (1,)}, "IMPORT_CONFLICT"),
    ],
    ids=str,
)
def test_an_import_may_be_repeated_until_the_set_is_run_from_here(told, refusal):
    """Between the first reading and the brokers' turning, the other controller may still decide."""
    history = History()
    assert history.import_set(1, 2).accepted
    assert history.import_set(1, 2, **told).refusal == refusal


@pytest.mark.parametrize(
    "touch",
    [
        lambda h: h.register_java(1),
        lambda h: h.alter((1,), seen(1, **JAVA)),
        lambda h: h.elect(-1, seen(2, **JAVA)),
        lambda h: h.elect(-1),
        lambda h: h.apply_id(3),
        lambda h: h.clean((2,)),
    ],
    ids=["master registers", "altered", "elected", "cleared", "newcomer", "cleaned"],
)
def test_what_was_decided_here_is_not_imported_over(touch):
    history = History()
    history.import_set(1, 2)
    assert touch(history).changes
    later = {"master_epoch": 50, "evidence_epoch": 50, "sync_state_set_epoch": 50}
    assert history.import_set(1, 2, next_broker_id=50, **later).refusal == "IMPORT_CONFLICT"


def test_rules_1_know_no_import():
    history = History(rules=1)
    assert history.import_set(1, 2).refusal == "UNKNOWN_SCHEMA"
    assert history.do(ActivateRules(history.envelope(), 1, COMMAND_FINGERPRINTS)).accepted
    assert history.import_set(1, 2).refusal == "IMPORT_UNKNOWN"
    assert NAME not in history.folder.state.sets
    assert history.do(ActivateRules(history.envelope(), 2, COMMAND_FINGERPRINTS)).accepted
    assert history.import_set(1, 2).accepted
