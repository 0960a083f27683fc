"""RULES 5.6: what a master may make of its SyncStateSet, row by row."""

import pytest

from tests.conformance.rows import Row, Shown, Table
from tests.support.control_history import History, seen, with_master
from tests.support.controller_rig import SET, Rig

EVERYONE = (seen(1), seen(2), seen(3))
ALTER = Table("5.6")


def altered(history: History, members: tuple[int, ...], *evidence, **options) -> int:
    """The code of a wish, every replica alive unless said otherwise."""
    return history.alter(members, *(evidence or EVERYONE), **options).code


@ALTER.row("row-1", shipped=2013)
def _():
    return History().alter((1, 2), *EVERYONE, master=1).code


@ALTER.row("row-2", shipped=[2013, 2013])
def _():
    history = with_master(1, 2)
    return [altered(history, (1, 2)), altered(history, (2, 1, 1))]


@ALTER.row("row-2-before-3-4-5", shipped=2013)
def _():
    return altered(with_master(1, 2), (1, 2), master=3, master_epoch=77, set_epoch=77)


@ALTER.row("row-3", shipped=[2002, 2002])
def _():
    other = altered(with_master(1, 2), (1, 2, 3), master=2)
    history = with_master(1, 2)
    history.elect(-1)
    return [other, altered(history, (1, 2, 3), master=1)]


@ALTER.row(
    "row-3-master-restarted",
    shipped=0,
    ours=2002,
    because="S6: a recorded master that restarted never goes on in its epoch",
)
def _():
    history = with_master(1, 2)
    history.register(1, "again")
    return altered(history, (1, 2, 3), seen(1, incarnation="again"), seen(2), seen(3))


@ALTER.row("row-3-before-4", shipped=2002)
def _():
    return altered(with_master(1, 2), (1, 2, 3), master=2, master_epoch=77)


@ALTER.row("row-4", shipped=2000)
def _():
    return altered(with_master(1, 2), (1, 2, 3), master_epoch=77)


@ALTER.row("row-4-before-5", shipped=2000)
def _():
    return altered(with_master(1, 2), (1, 2, 3), master_epoch=0, set_epoch=0)


@ALTER.row("row-5", shipped=[2001, 2001])
def _():
    return [altered(with_master(1, 2), (1, 2, 3), set_epoch=epoch) for epoch in (0, 77)]


@ALTER.row("row-5-before-6", shipped=2001)
def _():
    return altered(with_master(1, 2), (1, 9), set_epoch=0)


@ALTER.row("row-6", shipped=2003)
def _():
    return altered(with_master(1, 2), (1, 9))


@ALTER.row(
    "row-6-id-without-registration",
    shipped=0,
    ours=2003,
    because=("S9: an id that nobody came with is no replica; shipped code registers with the id"),
)
def _():
    history = with_master(1, 2)
    history.apply_id(4)
    return altered(history, (1, 4), *EVERYONE, seen(4, incarnation=None))


@ALTER.row("row-7", shipped=[2006, 2006])
def _():
    dead = seen(3, alive=False, reason="heartbeat_expired")
    return [
        altered(with_master(1, 2), (1, 2, 3), seen(1), seen(2)),
        altered(with_master(1, 2), (1, 2, 3), seen(1), seen(2), dead),
    ]


@ALTER.row("rows-6-7-first-bad-member", shipped=[2006, 2003])
def _():
    return [altered(with_master(1), (1, 2, 9), seen(1)), altered(with_master(1), (1, 2, 9))]


@ALTER.row(
    "row-7-the-master-itself",
    shipped=2006,
    ours=0,
    because="D8: who asks is alive, whatever its heartbeats say",
)
def _():
    return altered(with_master(1), (1, 2), seen(2))


@ALTER.row(
    "row-7-of-an-earlier-start",
    shipped=0,
    ours=2006,
    because="S5: heartbeats of an earlier start are void",
)
def _():
    history = with_master(1, 2)
    history.register(3, "again")
    return altered(history, (1, 2, 3))


@ALTER.row("row-8", shipped=2013)
def _():
    return altered(with_master(1, 2, 3), (2, 3))


@ALTER.row("row-8-empty", shipped=2013)
def _():
    return altered(with_master(1, 2), ())


@ALTER.row("otherwise", shipped=(0, (1, 2, 3), 3, 1))
def _():
    history = with_master(1, 2)
    code = altered(history, (3, 1, 2))
    return (
        code,
        history.set.sync_state_set,
        history.set.sync_state_set_epoch,
        history.set.master_epoch,
    )


@ALTER.row("no-minimum-size", shipped=(0, (1,)))
def _():
    history = with_master(1, 2, 3)
    return altered(history, (1,), seen(1)), history.set.sync_state_set


@ALTER.row(
    "based-on-a-set-that-an-unclean-start-voided",
    shipped=0,
    ours=2001,
    because="S5: what it acknowledged before its power was lost counts for nothing",
)
def _():
    history = with_master(1, 2)
    base = history.set.sync_state_set_epoch
    history.register(3, "after power loss", clean=False)
    return altered(
        history,
        (1, 2, 3),
        seen(1),
        seen(2),
        seen(3, incarnation="after power loss"),
        set_epoch=base,
    )


@ALTER.row(
    "answer-to-an-accepted-one", shipped=("3", b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}')
)
def _():
    rig = Rig().lead().three()
    answer = rig.alter("1,2", rig.state.sets[SET].sync_state_set_epoch)
    return answer.ext["newSyncStateSetEpoch"], answer.body


@ALTER.row("answer-to-a-refused-one", shipped=(2002, "0", b""))
def _():
    rig = Rig().lead().three()
    answer = rig.alter("1,2", 2, master=2)
    return answer.code, answer.ext["newSyncStateSetEpoch"], answer.body


@ALTER.row("no-master-epoch-or-no-body", shipped=[1, 1])
def _():
    rig = Rig().lead().three()
    body = b'{"syncStateSet":[1],"syncStateSetEpoch":2}'
    names = {"brokerName": SET, "masterBrokerId": "1"}
    answers = (rig.request(1001, names, body), rig.request(1001, names | {"masterEpoch": "1"}))
    return [answer.code for answer in answers if answer]


@pytest.mark.parametrize("row", ALTER.rows)
def test_row(row: Row | Shown) -> None:
    row.check()
