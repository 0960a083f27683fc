"""RULES 5.7, with the edge cases of 6: forgetting replicas, and what stays of a set."""

import pytest

from tests.conformance.rows import Row, Shown, Table
from tests.support.control_history import History, seen, with_master, with_replicas
from tests.support.controller_rig import SET, Rig

ALIVE = (seen(1), seen(2), seen(3))
CLEAN = Table("5.7")


def masterless() -> History:
    """Three replicas, all in the set; the master died and nobody took over."""
    history = with_master(1, 2, 3)
    history.elect(-1)
    assert history.set.master_broker_id is None
    return history


def ids(history: History) -> list[int]:
    return [replica.broker_id for replica in history.set.replicas]


@CLEAN.row("row-1", shipped=[2009, 2009])
def _():
    """Dead or alive: a recorded master blocks."""
    return [with_master(1, 2).clean(None, *evidence).code for evidence in (ALIVE, ())]


@CLEAN.row("row-4-blank-ids", shipped=2009)
def _():
    return History().clean(None).code


@CLEAN.row("row-2", shipped=2009)
def _():
    rig = Rig().lead().three()
    return cleaned(rig, "1;x")


def cleaned(rig: Rig, listed: str, living: str = "false", name: str = SET) -> int:
    ext = {
        "clusterName": "C",
        "brokerName": name,
        "brokerControllerIdsToClean": listed,
        "isCleanLivingBroker": living,
        "invokeTime": "7",
    }
    answer = rig.request(1011, ext)
    assert answer is not None
    assert not answer.body
    return answer.code


@CLEAN.row("row-3", shipped=[2009, 2009, 0])
def _():
    return [
        with_master(1, 2).clean((2,), seen(2)).code,
        with_master(1, 2).clean((2, 3), seen(3)).code,
        with_master(1, 2)
        .clean((2,), seen(1), seen(2, alive=False, reason="heartbeat_expired"))
        .code,
    ]


@CLEAN.row("row-3-of-whichever-start", shipped=2009)
def _():
    """Any sign of life counts: forgetting is the danger."""
    return with_master(1, 2).clean((2,), seen(2, incarnation="another")).code


@CLEAN.row("row-3-a-start-that-is-not-registered-yet", shipped=2009)
def _():
    """At a running controller: it heartbeats, and the registration it is known by is an earlier
    start's.
    """
    rig = Rig().lead().three()
    beat = {
        "clusterName": "C",
        "brokerName": SET,
        "brokerId": "3",
        "brokerAddr": "b3:10911",
        "regentIncarnation": "another",
    }
    rig.request(904, beat, conn=3, oneway=True)
    return cleaned(rig, "3")


@CLEAN.row("row-3-alive-in-the-cluster-of-the-request", shipped=[2009, 0])
def _():
    """A replica whose file names another cluster than its set's is heard under that name; then it
    falls silent.
    """
    rig = Rig().lead().three()
    rig.close_connection(3)
    rig.probe_result("b3:10911", "refused")
    names = {"clusterName": "other", "brokerName": SET}
    beat = names | {"brokerId": "3", "brokerAddr": "b3:10911", "heartbeatTimeoutMills": "500"}
    rig.request(904, beat, conn=33, oneway=True)

    def clean() -> int:
        answer = rig.request(1011, names | {"brokerControllerIdsToClean": "3"})
        assert answer is not None
        return answer.code

    first = clean()
    rig.pass_time(600)
    return [first, clean()]


@CLEAN.row("row-2-holes-and-what-only-looks-like-an-id", shipped=[2009, 2009, 2009, 2009])
def _():
    return [
        cleaned(Rig().lead().three(), listed, living="true")
        for listed in ("1;;3", ";3", "1_0", "3.0")
    ]


@CLEAN.row("row-4", shipped=[2009, 2009, 2009])
def _():
    gone = with_replicas(1)
    gone.clean(None)
    return [
        History().clean((1,)).code,
        History().clean(None, living=True).code,
        gone.clean((1,)).code,
    ]


@CLEAN.row("row-5-ids", shipped=(0, [1, 3], (1, 3), 4))
def _():
    history = with_master(1, 2, 3)
    code = history.clean((2,)).code
    return code, ids(history), history.set.sync_state_set, history.set.next_broker_id


@CLEAN.row(
    "row-5-whole-set",
    shipped=(0, False),
    ours=(0, True),
    because="S9: a tombstone keeps next id and epochs",
)
def _():
    history = with_replicas(1, 2)
    code = history.clean(None).code
    return code, history.folder.state.sets.get("broker-a") is not None


@CLEAN.row(
    "living-with-ids", shipped=(0, []), ours=(0, [2, 3]), because="15 row 8: the list of ids counts"
)
def _():
    history = with_master(1, 2, 3)
    return history.clean((1,), *ALIVE, living=True).code, ids(history)


@CLEAN.row(
    "living-with-what-is-no-id",
    shipped=0,
    ours=2009,
    because="15 row 8: the list is read, so it can be wrong",
)
def _():
    return cleaned(Rig().lead().three(), "1;x", living="true")


@CLEAN.row("living-without-ids", shipped=(0, True))
def _():
    history = with_master(1, 2, 3)
    code = history.clean(None, *ALIVE, living=True).code
    return code, history.folder.state.live_set("broker-a") is None


@CLEAN.row(
    "blank-ids-no-master-living-slaves",
    shipped=(0, True),
    ours=(2009, False),
    because=(
        "replicas that live could never register again: isCleanLivingBroker says that it is meant"
    ),
)
def _():
    history = masterless()
    code = history.clean(None, *ALIVE).code
    return code, history.folder.state.live_set("broker-a") is None


@CLEAN.row("ids-that-nobody-has", shipped=(0, ()))
def _():
    outcome = with_master(1).clean((77,))
    return outcome.code, outcome.changes


@CLEAN.row("an-unclaimed-id", shipped=(0, [1, 2, 3], 5))
def _():
    """A lost answer to 1013 leaves an id without a broker (15 row 13): it can be cleaned."""
    history = with_master(1, 2)
    history.apply_id(4)
    assert not history.set.replica(4).is_registered
    code = history.clean((4,)).code
    return code, ids(history), history.set.next_broker_id


@CLEAN.row("an-unclaimed-id-that-was-in-truth-taken", shipped=2010)
def _():
    """Its broker comes back as a newcomer, never under an id that was forgotten."""
    history = with_master(1, 2)
    history.apply_id(4), history.clean((4,))
    return history.register(4).code


EDGES = Table("6-clean")


@EDGES.row("an-id-outside-the-set", shipped=([1, 2], (1, 2), 1, 4, 2))
def _():
    history = with_master(1, 2)
    history.clean((3,))
    now = history.set
    return (
        ids(history),
        now.sync_state_set,
        now.master_broker_id,
        now.next_broker_id,
        now.sync_state_set_epoch,
    )


@EDGES.row(
    "a-member",
    shipped=((1, 2), 3),
    ours=((1, 2), 4),
    because="15 row 10: the set's epoch moves, so its master asks anew",
)
def _():
    history = with_master(1, 2, 3)
    before = history.set.sync_state_set_epoch
    history.clean((3,))
    assert before == 2
    return history.set.sync_state_set, history.set.sync_state_set_epoch + 1


@EDGES.row(
    "the-master",
    shipped=(1, 1, (2, 3)),
    ours=(None, 2, (2, 3)),
    because="15 row 10: no mastership without a replica; both epochs move",
)
def _():
    history = with_master(1, 2, 3)
    history.clean((1,))
    return history.set.master_broker_id, history.set.master_epoch, history.set.sync_state_set


@EDGES.row(
    "the-master-then-an-election", shipped=(2, 2), ours=(2, 3), because=("15 row 10, as above")
)
def _():
    history = with_master(1, 2, 3)
    history.clean((1,))
    history.elect(-1, seen(2), seen(3))
    return history.set.master_broker_id, history.set.master_epoch


@EDGES.row(
    "every-member-but-not-every-replica",
    shipped=(2010, 4, 2, 0),
    ours=(0, 4, 5, 2),
    because="15 row 9: the set goes on to exist, so ids and epochs do not restart",
)
def _():
    """What registration says to 3, the next id, the one after a newcomer took it, and the epoch."""
    history = with_master(1, 2)
    history.clean((1, 2))
    code, next_id = history.register(3, "again").code, history.set.next_broker_id
    assert history.apply_id(next_id).accepted
    return code, next_id, history.set.next_broker_id, history.set.master_epoch


@EDGES.row(
    "every-member-gone-who-leads",
    shipped=(2010, None),
    ours=(2012, None),
    because="15 row 9, S7: the set exists, and who is left may lack what was acknowledged",
)
def _():
    history = with_master(1, 2)
    history.clean((1, 2))
    outcome = history.elect(3)
    return outcome.code, history.set.master_broker_id


@EDGES.row(
    "every-member-gone-unclean-on",
    shipped=(2010, None, False),
    ours=(0, 3, True),
    because="15 row 9: there is a way out, and it says what it may cost",
)
def _():
    history = with_master(1, 2)
    history.clean((1, 2))
    history.setting("enableElectUncleanMaster", "true")
    outcome = history.elect(3)
    return outcome.code, history.set.master_broker_id, "AT_RISK" in outcome.labels


@EDGES.row("whole-set-while-brokers-run", shipped=[2010, 2010, 2013])
def _():
    """They cannot register nor elect; what they still ask as master is refused."""
    history = with_master(1, 2)
    history.clean(None, living=True)
    return [
        history.register(1).code,
        history.elect(1).code,
        history.alter((1,), seen(1), master=1).code,
    ]


@EDGES.row(
    "a-cleaned-replica-that-runs",
    shipped=[2010, 2011, 2003],
    ours=[2010, 2010, 2003],
    because="S7: who has no registration takes no part in elections",
)
def _():
    """It cannot register nor elect, and its master cannot take it in again."""
    history = with_master(1, 2)
    history.clean((2,), living=True)
    return [
        history.register(2).code,
        history.elect(2, seen(1)).code,
        history.alter((1, 2), seen(1), seen(2)).code,
    ]


@EDGES.row(
    "a-cleaned-master-that-runs",
    shipped=[2003, 0, 2],
    ours=[2002, 2010, 2],
    because="15 row 10, S8: its epoch is over, another one leads",
)
def _():
    """What it asks as master, what it asks to be, and who leads after the next election."""
    history = with_master(1, 2, 3)
    history.clean((1,), *ALIVE, living=True)
    codes = [
        history.alter((1, 2), *ALIVE, master=1, master_epoch=1).code,
        history.elect(1, *ALIVE).code,
    ]
    history.elect(-1, *ALIVE)
    return [*codes, history.set.master_broker_id]


@EDGES.row(
    "the-set-begins-again",
    shipped=(1, 1, 1),
    ours=(4, 3, 4),
    because="S9: ids and epochs go on where they stood",
)
def _():
    """Id of the first newcomer, the epoch it leads in, and the epoch of its set."""
    history = with_master(1, 2)
    history.clean(None, living=True)
    newcomer = history.set.next_broker_id
    assert history.apply_id(newcomer).accepted
    history.register(newcomer), history.elect(newcomer)
    return newcomer, history.set.master_epoch, history.set.sync_state_set_epoch


@EDGES.row(
    "a-replica-that-was-waited-for",
    shipped=(0, 2, ()),
    ours=(0, 2, ("AT_RISK",)),
    because="S5: the operator ended the waiting for the other unclean one, and it is said",
)
def _():
    history = with_master(1, 2)
    history.register(1, "u1", clean=False), history.register(2, "u2", clean=False)
    history.clean((1,))
    outcome = history.elect(2)
    return outcome.code, history.set.master_broker_id, outcome.labels


@pytest.mark.parametrize("row", [*CLEAN.rows, *EDGES.rows])
def test_row(row: Row | Shown) -> None:
    row.check()
