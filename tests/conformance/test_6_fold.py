"""RULES 4.1, 6 and 17: what each event does to the state, and what a fold must keep."""

import pytest
from immutables import Map

from events.changes import (
    BrokerIdApplied,
    BrokerRegistered,
    BrokersCleaned,
    MasterCleared,
    MasterElected,
    SyncStateSetAltered,
)
from events.codec import encode
from events.commands import ApplyBrokerId
from processors.fold.evolve import evolve
from processors.fold.folder import Folder
from processors.fold.snapshot_codec import dump, load
from processors.fold.state import BrokerSet, ControllerState
from tests.conformance.rows import Row, Shown, Table
from tests.support.control_history import CLUSTER, NAME, History, seen, with_master, with_replicas

DEAD = {"alive": False, "reason": "connection_closed"}
EMPTY = ControllerState()
EVENTS = Table("6")


@EVENTS.row("initial-state", shipped=(1, 0, 0, (), None))
def _():
    fresh = BrokerSet(CLUSTER, NAME)
    return (
        fresh.next_broker_id,
        fresh.master_epoch,
        fresh.sync_state_set_epoch,
        fresh.sync_state_set,
        fresh.master_broker_id,
    )


@EVENTS.row("alter", shipped=((1, 3), 3, 1))
def _():
    history = with_master(1, 2)
    history.alter((1, 3), seen(1), seen(3))
    return history.set.sync_state_set, history.set.sync_state_set_epoch, history.set.master_epoch


@EVENTS.row("alter-unknown-set", shipped=True)
def _():
    return evolve(EMPTY, SyncStateSetAltered("x", (1,), 1, (1,), (), "PROPOSED", (), 1)) == EMPTY


@EVENTS.row("apply-set-exists", shipped=([1, 2], 3))
def _():
    history = with_replicas(1)
    history.apply_id(2)
    return [r.broker_id for r in history.set.replicas], history.set.next_broker_id


@EVENTS.row("apply-assigned", shipped=True)
def _():
    history = with_replicas(1)
    before = history.set
    history.apply_id(1)
    return history.set == before


@EVENTS.row("apply-new-set", shipped=(2, 0, 0, (), None))
def _():
    history = History()
    history.apply_id(1)
    now = history.set
    return (
        now.next_broker_id,
        now.master_epoch,
        now.sync_state_set_epoch,
        now.sync_state_set,
        now.master_broker_id,
    )


@EVENTS.row(
    "apply-overwrites-a-leftover",
    shipped=([4], 2),
    ours=([3, 4], 5),
    because="15 row 9: half a set never comes to be",
)
def _():
    history = with_master(1, 2)
    history.clean((1, 2))
    history.apply_id(4)
    return [r.broker_id for r in history.set.replicas], history.set.next_broker_id


@EVENTS.row("update-address", shipped=("h2:7", "h2:10911;secret"))
def _():
    history = with_replicas(1, 2)
    history.register(2, broker_address="h2:7")
    return history.set.replica(2).address, history.set.replica(2).register_check_code


@EVENTS.row(
    "update-address-unknown-set",
    shipped="null error",
    ours=True,
    because="17: a fold is total, what concerns nobody changes nothing",
)
def _():
    return (
        evolve(EMPTY, BrokerRegistered("x", 1, "h:1", None, None, True, -1, -1, False, 0)) == EMPTY
    )


@EVENTS.row("elected", shipped=(2, 2, (2,), 3))
def _():
    history = with_master(1, 2)
    history.elect(-1, seen(1, **DEAD), seen(2))
    now = history.set
    return now.master_broker_id, now.master_epoch, now.sync_state_set, now.sync_state_set_epoch


@EVENTS.row("not-elected", shipped=(None, 2, (1, 2), 2))
def _():
    history = with_master(1, 2)
    history.elect(-1)
    now = history.set
    return now.master_broker_id, now.master_epoch, now.sync_state_set, now.sync_state_set_epoch


@EVENTS.row("elect-unknown-set", shipped=(True, True))
def _():
    elected = evolve(EMPTY, MasterElected("x", 1, "h:1", 1, (1,), 1, 1))
    return elected == EMPTY, evolve(EMPTY, MasterCleared("x", 1, 1, "NOBODY", 1)) == EMPTY


@EVENTS.row(
    "clean-all", shipped=None, ours=(4, 2, 3), because=("S9: a tombstone keeps next id and epochs")
)
def _():
    history = with_master(1, 2)
    history.clean(None, living=True)
    assert history.folder.state.live_set(NAME) is None
    return history.set.next_broker_id, history.set.master_epoch, history.set.sync_state_set_epoch


@EVENTS.row("clean-ids", shipped=([1, 3], (1,), 1, 1))
def _():
    history = with_master(1, 2)
    history.clean((2,))
    now = history.set
    return (
        [r.broker_id for r in now.replicas],
        now.sync_state_set,
        now.master_broker_id,
        now.master_epoch,
    )


@EVENTS.row("clean-unknown-set", shipped=True)
def _():
    return evolve(EMPTY, BrokersCleaned("x", (1,), True)) == EMPTY


@EVENTS.row(
    "epochs-are-counted-by-the-fold",
    shipped=False,
    ours=True,
    because="17: a change carries its results, so an answer equals what the fold yields",
)
def _():
    history = with_master(1, 2)
    change = history.elect(-1, seen(1, **DEAD), seen(2)).changes[0]
    now = (history.set.master_epoch, history.set.sync_state_set_epoch)
    return (change.master_epoch, change.sync_state_set_epoch) == now


@EVENTS.row(
    "unknown-events-are-ignored",
    shipped="ignored",
    ours="UNKNOWN_SCHEMA",
    because=("D3: bytes without an active schema are a refusal at their offset, for all alike"),
)
def _():
    history = with_master(1)
    return history.append(b"\xc3\x01" + bytes(8) + b"of a later release").outcome.refusal


MUST = Table("17")


@MUST.row("evidence-stands-in-the-command", shipped=True)
def _():
    """The same record on a node that sees nobody gives the same outcome."""
    history = with_master(1, 2)
    history.elect(-1, seen(1, **DEAD), seen(2))
    folder = Folder()
    for offset, record in enumerate(history.records):
        folder.apply(offset, record)
    return folder.digest == history.folder.digest


@MUST.row("void-when-another-event-came-between", shipped=[0, 2000, 2001])
def _():
    """Of three that saw the same state the first decides."""
    history = with_master(1, 2, 3)
    epoch, base = history.set.master_epoch, history.set.sync_state_set_epoch
    everyone = (seen(1, **DEAD), seen(2), seen(3))
    codes = [history.elect(-1, *everyone, master_epoch=epoch).code]
    codes.append(history.elect(-1, *everyone, master_epoch=epoch).code)
    codes.append(history.alter((2,), *everyone[1:], set_epoch=base).code)
    return codes


@MUST.row("only-the-current-leader-counts", shipped=[2007, 0])
def _():
    history = with_replicas(1)
    late = history.envelope()
    history.claim(1, "n1")
    codes = [history.do(ApplyBrokerId(late, CLUSTER, NAME, 2, "h2:1;x")).code]
    return [*codes, history.apply_id(2).code]


@MUST.row("the-fold-is-total", shipped=[False, False, False])
def _():
    history = History()
    return [history.append(data).outcome.accepted for data in (b"", b"\x00" * 40, b"\xc3\x01")]


@MUST.row("clean-then-late-events", shipped=[2010, 2010, 2013, 2009])
def _():
    history = with_master(1, 2)
    history.clean(None, living=True)
    return [
        history.register(1).code,
        history.elect(1).code,
        history.alter((1, 2), seen(1), seen(2), master=1).code,
        history.clean((2,)).code,
    ]


@MUST.row("snapshot-has-check-codes-epochs-and-next-ids", shipped=(0, 2014, True))
def _():
    """A repeated apply is known after a snapshot too."""
    history = with_master(1, 2)
    history.folder = load(dump(history.folder))
    same, other = history.apply_id(1).code, history.apply_id(1, "h1:1;other").code
    return same, other, history.set.master_epoch == 1


@MUST.row("a-state-that-was-cut-off-is-not-gone-on-from", shipped=True)
def _():
    history = with_master(1, 2)
    claim = encode(ApplyBrokerId(history.envelope(), CLUSTER, NAME, 4, "h4:1;x"))
    from processors.fold.folder import HoleInLog

    with pytest.raises(HoleInLog):
        history.folder.apply(history.folder.next_offset + 1, claim)
    return isinstance(history.folder.state.sets, Map)


@MUST.row("replays-of-changes-are-no-new-ids", shipped=2)
def _():
    applied = BrokerIdApplied(NAME, CLUSTER, 1, "h:1", "h:1;x", 2)
    return evolve(evolve(EMPTY, applied), applied).sets[NAME].next_broker_id


MUST.shown(
    "answers-after-the-event-is-applied",
    "tests/unit/processors/wire/test_answers.py::"
    "test_an_accepted_alter_has_the_new_epoch_in_header_and_body",
)
MUST.shown(
    "a-full-timeout-after-a-leader-change",
    "tests/unit/processors/liveness/test_triggers.py::"
    "test_a_master_never_heard_gets_a_full_timeout_after_the_takeover",
)


@pytest.mark.parametrize("row", [*EVENTS.rows, *MUST.rows])
def test_row(row: Row | Shown) -> None:
    row.check()
