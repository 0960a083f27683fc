"""The state: its settings and its invariants."""

import pytest
from immutables import Map
from msgspec.structs import replace

from processors.fold.state import (
    BrokerSet,
    ControllerState,
    Replica,
    check_invariants,
    setting_is_valid,
)

ONE = Replica(1, "h1:1", "code", is_registered=True)
TWO = Replica(2, "h2:1", "code", is_registered=True)
SOUND = BrokerSet("c", "b", 3, (ONE, TWO), 1, 1, (1, 2), 1, 1, has_had_master=True)


def state_with(broker_set: BrokerSet) -> ControllerState:
    return ControllerState("c", 1, "n0", "h:1", 1, sets=Map({"b": broker_set}))


def test_a_sound_state_breaks_nothing():
    assert check_invariants(ControllerState()) == []
    assert check_invariants(state_with(SOUND)) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"replicas": (TWO, ONE)},
        {"replicas": (ONE, ONE, TWO)},
        {"next_broker_id": 2},
        {"sync_state_set": (2, 1)},
        {"sync_state_set": (1, 1)},
        {"sync_state_set": (1, 9)},
        {"sync_state_set": (2,)},
        {"replicas": (ONE, replace(TWO, clean=False))},
        {"replicas": (ONE, replace(TWO, is_registered=False))},
        {"master_epoch": 2},
        {"master_epoch": -1},
        {"sync_state_set_epoch": -1},
        {"highest_epoch_seen": 2**31},
        {"unclean_members": (2,)},
        {"unclean_members": (9,)},
        {"master_broker_id": None, "master_restarted": True},
        {"has_had_master": False},
        {"tombstone": True},
        {"replicas": (), "sync_state_set": (), "master_broker_id": None},
        {"broker_name": "other"},
    ],
    ids=str,
)
def test_each_broken_invariant_is_named(broken):
    assert check_invariants(state_with(replace(SOUND, **broken))) != []


def test_a_term_without_a_leader_is_broken():
    assert check_invariants(ControllerState("c", 1)) != []


def test_settings_have_defaults():
    state = ControllerState()
    assert not state.unclean_allowed
    assert state.dedupe_window_offsets == 10_000


def test_only_known_settings_with_readable_values_are_valid():
    assert setting_is_valid("enableElectUncleanMaster", "true")
    assert setting_is_valid("dedupeWindowOffsets", "1")
    assert not setting_is_valid("anything", "1")


def test_a_tombstone_is_no_live_set():
    stone = BrokerSet("c", "b", 3, tombstone=True)
    assert check_invariants(state_with(stone)) == []
    assert state_with(stone).live_set("b") is None
    assert state_with(SOUND).live_set("b") == SOUND
    assert state_with(SOUND).live_set("other") is None


def test_with_set_replaces_the_set_of_that_name_and_nothing_else():
    before = state_with(SOUND)
    other = replace(SOUND, broker_name="x")
    after = before.with_set(other)
    assert dict(after.sets) == {"b": SOUND, "x": other}
    assert replace(after, sets=before.sets) == before
