"""RULES 15: each shipped defect. The wire is as Java's, the behaviour is right."""

import pytest

from processors.controller import effects as fx
from tests.conformance.rows import Row, Shown, Table
from tests.support.control_history import History, seen, with_master, with_replicas
from tests.support.controller_rig import CLUSTER, SET, Log, Rig

DEAD = {"alive": False, "reason": "connection_closed"}
NAMES = {"clusterName": CLUSTER, "brokerName": SET}
DEFECT = Table("15")

DEFECT.shown(
    "row-1-close-of-an-old-connection",
    "tests/unit/processors/liveness/test_replicas.py::test_a_heartbeat_binds_its_connection_anew",
    "tests/unit/processors/controller/test_core.py::test_a_late_close_of_an_old_connection_harms_nobody",
)


@DEFECT.row(
    "row-2-offsets-cut-to-32-bits",
    shipped=[2, 2, 2],
    ours=[3, 3, 3],
    because=("S7: 64-bit offsets"),
)
def _():
    found = []
    for gap in (2**31, 2**32, 2**62):
        history = with_master(1, 2, 3)
        history.elect(-1, seen(1, **DEAD), seen(2, offset=7), seen(3, offset=7 + gap))
        found.append(history.set.master_broker_id)
    return found


DEFECT.shown(
    "row-3-negated-predicate",
    "tests/unit/processors/liveness/test_triggers.py::test_a_silent_master_is_replaced",
    "tests/unit/processors/liveness/test_triggers.py::test_a_living_master_is_left_alone",
)
DEFECT.shown(
    "row-4-scan-runs-once",
    "tests/unit/processors/liveness/test_triggers.py::test_a_silent_master_is_replaced",
    "tests/unit/processors/liveness/test_replicas.py::test_the_timeout_is_the_replicas_own",
)


@DEFECT.row(
    "row-5-epoch-by-three-per-failure",
    shipped=(4, 3),
    ours=(2, 1),
    because=("D2: one failure is one change"),
)
def _():
    """The epoch after three tries, and how many of them changed something."""
    history = with_master(1)
    changed = [bool(history.elect(-1).changes) for _ in range(3)]
    return history.set.master_epoch, sum(changed)


DEFECT.shown(
    "row-5-and-is-not-asked-again",
    "tests/unit/processors/controller/test_core.py::"
    "test_nobody_electable_is_asked_again_only_when_the_evidence_changes",
)


@DEFECT.row(
    "row-6-first-election-of-anybody",
    shipped=[0, 0, 0],
    ours=[2010, 2010, 2012],
    because="S7: a master is registered and alive",
)
def _():
    """By an unregistered id, by an unassigned one, designated on a dead broker."""
    history = with_replicas(1)
    history.apply_id(2)
    designated = with_replicas(1).elect(1, seen(1, **DEAD), designate=True)
    return [history.elect(2).code, with_replicas(1).elect(9).code, designated.code]


@DEFECT.row(
    "row-7-stuck-for-ever",
    shipped=[2004, 2012],
    ours=[2004, 0],
    because=("D2: nothing was decided, so nothing moved"),
)
def _():
    history = with_replicas(1)
    return [history.elect(-1).code, history.elect(1).code]


@DEFECT.row(
    "row-8-clean-living-forgets-the-list", shipped=[], ours=[1, 3], because=("S9: the list counts")
)
def _():
    history = with_master(1, 2, 3)
    history.clean((2,), seen(2), living=True)
    return [replica.broker_id for replica in history.folder.state.sets["broker-a"].replicas]


@DEFECT.row("row-9-half-a-set", shipped=[0, 3], ours=[2014, 5], because="S9: ids never restart")
def _():
    """Every member is cleaned, 3 is left; a newcomer takes 4, and the next one an id that 3's disk
    knows.
    """
    history = with_master(1, 2)
    history.clean((1, 2))
    assert history.apply_id(4).accepted
    return [history.apply_id(2).code, history.set.next_broker_id]


@DEFECT.row(
    "row-10-clean-keeps-the-sets-epoch",
    shipped=(2, 2003),
    ours=(3, 2001),
    because="S3: a wish based on the set before is refused as such",
)
def _():
    """The set's epoch, and what its master hears that still counts the cleaned one in."""
    history = with_master(1, 2)
    base = history.set.sync_state_set_epoch
    history.clean((2,))
    epoch = history.set.sync_state_set_epoch
    return epoch, history.alter((1, 2, 3), seen(1), seen(3), set_epoch=base).code


@DEFECT.row("row-11-decided-on-a-stale-state", shipped=0, ours=2000, because="D1: compare and set")
def _():
    """The first answer was lost; what its issuer asks next rests on the state before."""
    history = with_master(1, 2, 3)
    saw = history.set.master_epoch
    history.elect(-1, seen(1, **DEAD), seen(2), seen(3))
    return history.elect(-1, seen(1, **DEAD), seen(2), seen(3), master_epoch=saw).code


DEFECT.shown(
    "row-11-a-timeout-is-unknown",
    "tests/unit/processors/controller/test_core.py::test_no_answer_from_the_log_is_told_as_unknown",
    "tests/unit/processors/controller/test_core.py::"
    "test_a_retry_with_the_same_command_id_gets_the_first_outcome",
)
DEFECT.shown(
    "row-12-no-grace-at-start",
    "tests/unit/processors/liveness/test_triggers.py::"
    "test_a_master_never_heard_gets_a_full_timeout_after_the_takeover",
)


@DEFECT.row(
    "row-13-leaked-ids",
    shipped=([1, 2], 0),
    ours=([1, 2], 1),
    because="S9: an id that nobody registered with is told apart, and can be cleaned",
)
def _():
    """A broker of Java's loses the answer to 1013, deletes its file and takes the next id."""
    history = with_replicas()
    history.apply_id(1, "h1:10911;1")
    history.apply_id(2, "h1:10911;2"), history.register_java(2)
    unclaimed = [r.broker_id for r in history.set.replicas if not r.is_registered]
    return [r.broker_id for r in history.set.replicas], len(unclaimed)


@DEFECT.row(
    "row-13-ours-lose-no-id",
    shipped=3,
    ours=2,
    because=("S12: the temporary file outlives a lost answer"),
)
def _():
    """The next id after the answer to 1013 was lost once: ours repeats it with the same code."""
    history = with_replicas()
    history.apply_id(1, "h1:10911;1"), history.apply_id(1, "h1:10911;1")
    return history.set.next_broker_id


DEFECT.shown(
    "row-14-lost-notices",
    "tests/unit/processors/controller/test_elections.py::"
    "test_the_new_leader_pushes_roles_the_former_may_not_have_pushed",
    "tests/unit/processors/controller/test_core.py::test_a_replica_that_comes_back_is_told_who_is_master",
)
DEFECT.shown(
    "row-15-a-scan-that-dies",
    "tests/unit/processors/log/test_watch.py::"
    "test_a_worker_that_crashed_and_a_watch_that_fails_end_it",
)
DEFECT.shown(
    "row-16-heartbeats-only-to-probed-addresses",
    "tests/unit/processors/controller/test_core.py::"
    "test_a_standby_forwards_to_the_leader_it_knows_and_gives_its_answer_back",
    "tests/unit/processors/liveness/test_replicas.py::"
    "test_a_registration_is_a_sign_of_life_and_tells_the_position",
)


class TwoControllers:
    """c1 leads. Of a set of Java brokers 2 heartbeats to both, the master 1 to c2 alone: c1 is not
    in its list.
    """

    def __init__(self) -> None:
        log, peers = Log(), {"c1": "c1:9878", "c2": "c2:9878"}
        self.leader = Rig("c1", log, peers).lead()
        self.standby = Rig("c2", log, peers, seed=2)
        for broker in (1, 2):
            apply = NAMES | {
                "appliedBrokerId": str(broker),
                "registerCheckCode": f"b{broker}:10911;1",
            }
            assert self.leader.request(1013, apply, conn=broker).code == 0
            self.leader.request(
                1003,
                NAMES | {"brokerId": str(broker), "brokerAddress": f"b{broker}:10911"},
                conn=broker,
            )
        assert self.leader.elect(1).code == 0
        self.relays = 0

    def pass_time(self, seconds: int, brokers: tuple[int, ...]) -> int | None:
        """Who is master after `brokers` have heartbeated for so long."""
        for _ in range(seconds):
            for broker in brokers:
                beat = NAMES | {
                    "brokerId": str(broker),
                    "brokerAddr": f"b{broker}:10911",
                    "epoch": "1",
                    "maxOffset": "5",
                }
                for rig in (self.leader, self.standby)[broker == 1 :]:
                    rig.request(904, beat, conn=broker, oneway=True)
            for _ in range(10):
                self._tick()
        return self.leader.state.sets[SET].master_broker_id

    def _tick(self) -> None:
        leader, standby = self.leader, self.standby
        for rig in (leader, standby):
            rig.tick(100)
            rig.catch_up()
        for told in leader.take(fx.TellPeer):
            standby.request(19001, told.command.ext, conn=98, oneway=True)
        for one in standby.take(fx.ForwardToLeader):
            self.relays += 1
            leader.perform(
                leader.core.on_request(99, "c2:1", one.request, leader.now_ms, leader.wall_ms)
            )
            (answer,) = [reply.response for reply in leader.take(fx.Reply) if reply.conn_id == 99]
            standby.perform(standby.core.on_reply_from_leader(one.token, answer, standby.now_ms))


@DEFECT.row(
    "row-16-a-leader-that-its-list-does-not-name",
    shipped=[2, 2],
    ours=[1, 2],
    because="D5, D8: what a standby hears it hands on to the leader",
)
def _():
    """The master after a minute, and after it fell silent."""
    two = TwoControllers()
    two.pass_time(5, (1, 2))
    assert two.leader.alter("1,2", two.leader.state.sets[SET].sync_state_set_epoch).code == 0
    first = two.pass_time(60, (1, 2))
    return [first, two.pass_time(12, (2,))]


@DEFECT.row("row-16-and-those-it-hears-itself-are-not-handed-on", shipped=True)
def _():
    two = TwoControllers()
    two.pass_time(60, (2,))
    return 1 <= two.relays <= 5


@DEFECT.row(
    "row-17-local-settings-inside-the-state",
    shipped=[1, 2],
    ours=[2, 2],
    because="D3: settings that rules read are state",
)
def _():
    """Who leads on two nodes; with RocketMQ each reads enableElectUncleanMaster in a file of its
    own.
    """
    from processors.fold.folder import Folder

    history = with_master(1)
    history.setting("enableElectUncleanMaster", "true")
    history.elect(-1, seen(2))
    other = Folder()
    for offset, record in enumerate(history.records):
        other.apply(offset, record)
    return [folder.state.sets["broker-a"].master_broker_id for folder in (history.folder, other)]


@DEFECT.row("seen-a-demoted-masters-burst", shipped=[2002, 2002])
def _():
    """1001 with its own id and the new epoch: harmless, and answered."""
    history = with_master(1, 2)
    history.elect(2, seen(1), seen(2), designate=True)
    return [history.alter((1,), seen(1), seen(2), master=1).code for _ in range(2)]


@DEFECT.row("seen-a-new-masters-equal-sets", shipped=[2013, 2013])
def _():
    history = with_master(1, 2)
    history.elect(2, seen(1), seen(2), designate=True)
    same = history.set.sync_state_set
    return [history.alter(same, seen(1), seen(2)).code for _ in range(2)]


@pytest.mark.parametrize("row", DEFECT.rows)
def test_row(row: Row | Shown) -> None:
    row.check()


def test_every_defect_has_a_row() -> None:
    numbers = {
        int(str(row.id).split("-")[2]) for row in DEFECT.rows if str(row.id).startswith("15-row-")
    }
    assert numbers == set(range(1, 18))


def test_a_history_keeps_its_invariants_in_every_row() -> None:
    """`History` checks them after each record: here that it would notice."""
    with pytest.raises(AssertionError):
        broken = History()
        broken.folder.state = broken.folder.state.with_set(
            with_master(1).set.__class__("c", "other", 0)
        )
        broken.append(b"")
