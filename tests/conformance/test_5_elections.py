"""RULES 5.5 and 7: elections and their policy."""

import pytest

from processors.fold.refusals import RESPONSE_CODES
from tests.conformance.rows import Row, Shown, Table
from tests.support.control_history import History, seen, verdicts, with_master, with_replicas

UNCLEAN = "enableElectUncleanMaster"
DEAD = {"alive": False, "reason": "connection_closed"}
JAVA = {"incarnation": None}


def result(history: History, outcome) -> tuple[int, int | None, int]:
    """Code, master and master epoch after an election."""
    broker_set = history.folder.state.sets.get("broker-a")
    if broker_set is None:
        return outcome.code, None, 0
    return outcome.code, broker_set.master_broker_id, broker_set.master_epoch


def elected(history: History, *arguments, **options) -> tuple[int, int | None, int]:
    return result(history, history.elect(*arguments, **options))


ELECT = Table("5.5")


@ELECT.row("row-1", shipped=(2010, None, 0))
def _():
    return elected(History(), 1)


@ELECT.row("row-2", shipped=(0, 2, 1))
def _():
    return elected(with_replicas(1, 2), 2)


@ELECT.row("row-3", shipped=(0, 2, 2))
def _():
    return elected(with_master(1, 2), 2, seen(1, **DEAD), seen(2))


@ELECT.row("row-3-learner-or-not", shipped=(0, 1, 1))
def _():
    """Learners are unknown to the controller: a learner of Java's that asks first is elected."""
    return elected(with_replicas(1), 1)


@ELECT.row("row-4", shipped=((2011, 1, 1), (1, 2)))
def _():
    history = with_master(1, 2)
    return elected(history, 2, seen(1), seen(2)), history.set.sync_state_set


@ELECT.row("row-5-java", shipped=((0, 2, 2), (2,), 3))
def _():
    history = java_set(1, 2, 3)
    first = elected(history, -1, seen(1, **DEAD), seen(2, **JAVA), seen(3, **JAVA))
    return first, history.set.sync_state_set, history.set.sync_state_set_epoch


@ELECT.row(
    "row-5",
    shipped=(2,),
    ours=(2, 3),
    because="design 5: live members of ours hold all that was acknowledged (S1)",
)
def _():
    history = with_master(1, 2, 3)
    history.elect(-1, seen(1, **DEAD), seen(2), seen(3))
    return history.set.sync_state_set


def java_set(*members: int) -> History:
    """Java brokers, the first of `members` is master and all of them in the set."""
    history = History()
    for broker_id in (1, 2, 3):
        history.apply_id(broker_id), history.register_java(broker_id)
    history.elect(members[0])
    history.alter(members, *(seen(i, **JAVA) for i in members))
    return history


@ELECT.row("row-6", shipped=((2004, None, 2), (1, 2)))
def _():
    history = with_master(1, 2)
    return elected(history, -1, seen(3)), history.set.sync_state_set


@ELECT.row("row-7", shipped=(2012, 1, 1))
def _():
    return elected(with_master(1, 2), 3, seen(3))


@ELECT.row(
    "first-by-an-unregistered-id",
    shipped=(0, 2, 1),
    ours=(2010, None, 0),
    because="S7, 15 row 6: a master needs an address, so a registration",
)
def _():
    history = with_replicas(1)
    history.apply_id(2)
    return elected(history, 2)


@ELECT.row(
    "first-by-an-unassigned-id", shipped=(0, 9, 1), ours=(2010, None, 0), because="S7, 15 row 6"
)
def _():
    return elected(with_replicas(1), 9)


@ELECT.row(
    "first-designated-on-a-dead-broker",
    shipped=(0, 1, 1),
    ours=(2012, None, 0),
    because="S7: among those the evidence calls alive",
)
def _():
    return elected(with_replicas(1, 2), 1, seen(1, **DEAD), seen(2), designate=True)


@ELECT.row("first-designated-on-a-live-broker", shipped=(0, 2, 1))
def _():
    return elected(with_replicas(1, 2), 2, seen(2, epoch=0), designate=True)


@ELECT.row(
    "minus-1-before-any-election",
    shipped=((2004, None, 1), (2012, None, 1)),
    ours=((2004, None, 0), (0, 1, 1)),
    because="15 row 7: nobody is stuck for ever",
)
def _():
    history = with_replicas(1)
    new = seen(1, epoch=0)
    return elected(history, -1, new), elected(history, 1, new)


@ELECT.row("minus-1-before-any-election-unclean-on", shipped=(0, 1, 1))
def _():
    history = with_replicas(1)
    history.setting(UNCLEAN, "true")
    return elected(history, -1, seen(1, epoch=0))


@ELECT.row("2-asks-while-1-is-live", shipped=(2011, 1, 1))
def _():
    return elected(with_master(1), 2, seen(1), seen(2))


@ELECT.row("2-asks-and-another-member-is-better", shipped=(0, 3, 2))
def _():
    return elected(with_master(1, 2, 3), 2, seen(1, **DEAD), seen(2, offset=5), seen(3, offset=9))


@ELECT.row("2-asks-no-master-only-1-in-the-set", shipped=(0, 1, 3))
def _():
    history = with_master(1)
    history.elect(-1)
    return elected(history, 2, seen(1), seen(2))


@ELECT.row("admin-names-one-outside-the-set", shipped=((2012, 1, 1), (1,)))
def _():
    history = with_master(1)
    return elected(history, 2, seen(1), seen(2), designate=True), history.set.sync_state_set


@ELECT.row(
    "admin-names-one-outside-the-set-unclean-on",
    shipped=((0, 2, 2), (2,), ("AT_RISK", "DESIGNATED", "UNCLEAN")),
)
def _():
    """The labels are ours: what may cost messages says so (S7)."""
    history = with_master(1)
    history.setting(UNCLEAN, "true")
    outcome = history.elect(2, seen(1), seen(2), designate=True)
    return result(history, outcome), history.set.sync_state_set, outcome.labels


@ELECT.row("admin-names-the-live-master", shipped=(2011, 1, 1))
def _():
    return elected(with_master(1, 2), 1, seen(1), seen(2), designate=True)


@ELECT.row("admin-deposes-a-live-master", shipped=((0, 2, 2), ("DESIGNATED",)))
def _():
    history = with_master(1, 2)
    outcome = history.elect(2, seen(1), seen(2), designate=True)
    return result(history, outcome), outcome.labels


@ELECT.row(
    "admin-names-minus-1",
    shipped=(2004, None, 2),
    ours=(2004, 1, 1),
    because="5.5 is a defect there: nobody is deposed for nobody",
)
def _():
    return elected(with_master(1), -1, seen(1), designate=True)


@ELECT.row(
    "minus-1-repeated",
    shipped=(2004, None, 4),
    ours=(2004, None, 2),
    because="15 row 5: one failure moves the epoch once",
)
def _():
    history = with_master(1)
    history.elect(-1), history.elect(-1)
    return elected(history, -1)


@ELECT.row("all-members-dead-another-lives", shipped=[(2004, None, 2), (2012, None, 2), (0, 2, 3)])
def _():
    history = with_master(1, 2)
    return [
        elected(history, -1, seen(3)),
        elected(history, 3, seen(3)),
        elected(history, 2, seen(3)),
    ]


@ELECT.row(
    "master-restarted",
    shipped=(2011, 1, 1),
    ours=(0, 1, 2),
    because="S6: a recorded master that restarted never goes on in its epoch",
)
def _():
    history = with_master(1, 2)
    history.register(1, "again", last_epoch=1, end_offset=9000)
    return elected(history, 1, seen(2))


@ELECT.row(
    "epoch-above-all-reported",
    shipped=2,
    ours=8,
    because="S7: brokers bring epochs of another controller's time",
)
def _():
    history = with_master(1, 2)
    history.elect(-1, seen(1, **DEAD), seen(2), seen(3, epoch=7, incarnation="before"))
    return history.set.master_epoch


@ELECT.row(
    "issuer-acted-on-another-state",
    shipped=(0, 2, 2),
    ours=(2000, 1, 1),
    because="D1: compare and set; shipped code decides on one thread",
)
def _():
    return elected(with_master(1, 2), -1, seen(1, **DEAD), seen(2), master_epoch=0)


@ELECT.row(
    "all-members-unclean",
    shipped=[(2011, 1), (2011, 1)],
    ours=[(2012, None), (0, 2)],
    because="S5: all of them are waited for, then the longest wins",
)
def _():
    history = with_master(1, 2)
    history.register(1, "u1", clean=False, last_epoch=1, end_offset=50)
    history.register(2, "u2", clean=False, last_epoch=1, end_offset=90)
    first = elected(history, 1)
    second = elected(history, 1, seen(2, offset=90, incarnation="u2"))
    return [first[:2], second[:2]]


POLICY = Table("7")
BOTH = (seen(2), seen(3))


def winner(*evidence, members=(1, 2, 3), unclean=False, **options) -> int | None:
    """Who is elected after the master 1 of that set died."""
    history = with_master(*members)
    if unclean:
        history.setting(UNCLEAN, "true")
    history.elect(options.pop("broker_id", -1), seen(1, **DEAD), *evidence, **options)
    return history.set.master_broker_id


@POLICY.row("round-a-before-round-b", shipped=(2, 3, None))
def _():
    far = seen(3, epoch=9, offset=10**12)
    return (
        winner(seen(2), far, members=(1, 2), unclean=True),
        winner(far, members=(1, 2), unclean=True),
        winner(far, members=(1, 2)),
    )


@POLICY.row("step-1", shipped=(None, 3))
def _():
    return winner(seen(2, **DEAD), seen(3, **DEAD)), winner(seen(2, **DEAD), seen(3))


@POLICY.row("step-2", shipped=[(2011, 1, 1), (2011, 1, 1), (0, 2, 2)])
def _():
    everyone = (seen(1), seen(2, offset=10**9))
    return [
        elected(with_master(1, 2), -1, *everyone),
        elected(with_master(1, 2), 1, *everyone, designate=True),
        elected(with_master(1, 2), 2, *everyone, designate=True),
    ]


@POLICY.row("step-3", shipped=(3, 1))
def _():
    """The preferred id or nobody: then nothing changes."""
    longer = seen(2, offset=10**9)
    return (
        winner(longer, seen(3), broker_id=3, designate=True),
        winner(longer, broker_id=3, designate=True),
    )


@POLICY.row("step-3-only-when-designated", shipped=2)
def _():
    return winner(seen(2, offset=10**9), seen(3), broker_id=3)


@POLICY.row("step-4-epoch", shipped=3)
def _():
    return winner(seen(2, epoch=1, offset=900), seen(3, epoch=2, offset=5))


@POLICY.row("step-4-offset", shipped=3)
def _():
    return winner(seen(2, offset=8), seen(3, offset=9))


@POLICY.row("step-4-priority", shipped=3)
def _():
    return winner(seen(2, priority=7), seen(3, priority=3))


@POLICY.row(
    "step-4-priority-before-offset",
    shipped=2,
    ours=3,
    because=("S7: every member holds all that was acknowledged, so the operator's wish goes first"),
)
def _():
    return winner(seen(2, offset=10**9, priority=7), seen(3, priority=3))


@POLICY.row("step-4-unclean-offset-before-priority", shipped=3)
def _():
    """Outside the set the order is RocketMQ's: acknowledged bytes may be missing there."""
    return winner(
        seen(2, offset=5, priority=1), seen(3, offset=9, priority=9), members=(1,), unclean=True
    )


@POLICY.row("step-4-tie", shipped=2)
def _():
    return winner(*BOTH)


@POLICY.row(
    "64-bit-offsets",
    shipped=[2, 2],
    ours=[3, 3],
    because=("15 row 2: shipped code cuts to 32 bits"),
)
def _():
    return [winner(seen(2, offset=5), seen(3, offset=5 + gap)) for gap in (2**31 + 1, 2**32)]


@POLICY.row("learner", shipped=(0, 3, 2))
def _():
    """Nothing on the wire tells a learner, so nothing stops an unclean election of one."""
    history = with_master(1)
    history.setting(UNCLEAN, "true")
    return elected(history, -1, seen(3))


@POLICY.row("verdicts", shipped={1: "NOT_ALIVE", 2: "LOWER_OFFSET", 3: "CHOSEN"})
def _():
    """Each candidate's reason stands in the outcome: that is ours, and decides nothing."""
    history = with_master(1, 2, 3)
    return verdicts(history.elect(-1, seen(1, **DEAD), seen(2, offset=5), seen(3, offset=7)))


@pytest.mark.parametrize("row", [*ELECT.rows, *POLICY.rows])
def test_row(row: Row | Shown) -> None:
    row.check()


def test_every_refusal_has_a_response_code() -> None:
    assert all(isinstance(int(code), int) for code in RESPONSE_CODES.values())
