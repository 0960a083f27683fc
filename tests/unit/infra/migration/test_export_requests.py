"""The requests, tried on RocketMQ's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from infra.migration.export_requests import (
    BEAT_EVERY,
    Goal,
    clean_requests,
    drive_count,
    drive_requests,
    forget_requests,
)
from tests.support.java_controller_model import JavaControllerModel

NOW = 1_700_000_000_000


def goal(ids: tuple[int, ...], next_id: int, master: int, epoch: int, set_epoch: int) -> Goal:
    return Goal("c", "b", master, next_id, {i: f"h{i}:1" for i in ids}, epoch, set_epoch)


def run(model: JavaControllerModel, wanted: Goal) -> None:
    for ask in drive_requests(wanted, NOW):
        assert model.send(ask) == ask.answers, ask
    model.hang_up()
    for ask in clean_requests(wanted, NOW):
        assert model.send(ask) == ask.answers, ask


@pytest.mark.parametrize(
    "wanted",
    [
        goal((1, 2, 3), 4, 2, 14, 31),
        goal((1, 2, 3), 4, 1, 11, 10),
        goal((3, 7), 8, 7, 300, 12),
        goal((5,), 9, 5, 12, 17),
        goal((1,), 2, 1, 11, 11),
        goal((1,), 2, 1, 11, 1),
        goal((2, 3), 4, 3, 1, 1),
    ],
    ids=str,
)
def test_a_fresh_controller_ends_with_our_ids_no_master_and_only_our_master_in_sync(
    wanted: Goal,
) -> None:
    model = JavaControllerModel()
    run(model, wanted)
    seen = model.seen("b")
    assert seen is not None
    assert {one.broker_id: one.address for one in seen.replicas} == wanted.addresses
    assert seen.master_id is None or wanted.epoch == 1
    assert seen.sync_state_set == (wanted.master_id,)
    assert seen.master_epoch == wanted.epoch and seen.sync_state_set_epoch >= wanted.set_epoch
    assert seen.next_broker_id >= wanted.next_broker_id
    assert not seen.anyone_alive


def test_no_broker_is_told_anything_meanwhile() -> None:
    model = JavaControllerModel()
    run(model, goal((1, 2, 3), 4, 2, 14, 31))
    assert model.told == []


def test_afterwards_only_our_master_can_be_elected_and_in_a_higher_epoch() -> None:
    model, wanted = JavaControllerModel(), goal((1, 2, 3), 4, 2, 14, 31)
    run(model, wanted)
    model.alive |= {("b", 1), ("b", 3)}
    assert model._elect("b", 3, False) == 2012
    model.alive.add(("b", 2))
    assert model._elect("b", 3, False) == 0
    seen = model.seen("b")
    assert seen is not None and (seen.master_id, seen.master_epoch) == (2, 15)


@pytest.mark.parametrize("broken_off_after", [0, 1, 4, 9, 20, 40])
def test_a_run_that_broke_off_is_forgotten_and_driven_anew(broken_off_after: int) -> None:
    model, wanted = JavaControllerModel(), goal((1, 2, 3), 4, 2, 14, 31)
    for ask in drive_requests(wanted, NOW)[: broken_off_after + 1]:
        model.send(ask)
    model.alive.clear()
    seen = model.seen("b")
    assert seen is not None
    for ask in forget_requests(wanted, seen, NOW):
        assert model.send(ask) == ask.answers
    assert model.seen("b") is None
    run(model, wanted)


@given(
    next_id=some.integers(2, 40),
    master=some.integers(1, 39),
    epoch=some.integers(1, 60),
    set_epoch=some.integers(1, 3 * BEAT_EVERY),
)
def test_how_many_there_are_is_known_without_making_them(
    next_id: int, master: int, epoch: int, set_epoch: int
) -> None:
    wanted = goal((master,), max(next_id, master + 1), master, epoch, set_epoch)
    assert drive_count(wanted) == len(drive_requests(wanted, NOW))


def test_the_count_of_what_would_never_end_is_there_at_once() -> None:
    assert drive_count(goal((1,), 2**60, 1, 2**31 - 1, 2**31 - 1)) > 2**60
