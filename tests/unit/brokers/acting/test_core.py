"""One broker of a set without controllers: confirmed and not, taken for dead, back in its place."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.acting_state import ACTING_VERSION_STEP, ActingState
from brokers.acting.config import ActingConfig
from brokers.acting.core import COPY_MS
from brokers.acting.holding_back import HOLD_MAX_MS, HOLD_MS
from brokers.acting.messages import HaInfo, MinIdNotice, Place, Registered
from brokers.acting.pre_online import PreOnline
from brokers.acting.reverse_sync import Tables
from tests.support.acting_rig import (
    ADDRESSES,
    HA,
    NAME_SERVER,
    SILENT,
    ActingRig,
    group,
    ha_link,
    of,
)


def test_a_master_that_nobody_confirms_delivers_for_ten_seconds() -> None:
    rig = ActingRig(0).online(1)
    rig.link()
    rig.hear(SILENT, after_ms=9_000)
    assert rig.core.delivers(rig.now_ms)
    assert [one.on for one in of(rig.tick(1_100), fx.SpecialServices)] == [False]
    rig.hear(group(0, 1))
    assert not rig.core.delivers(rig.now_ms)  # it registered again: somebody may have acted
    rig.come_back(0, 1)
    assert rig.core.delivers(rig.now_ms) and not rig.core.fenced


def test_links_make_a_confirmation_last_and_are_none() -> None:
    rig = ActingRig(0).online(1)
    rig.link()
    rig.tick(11_000)
    rig.linked(1)
    rig.tick(200)
    assert not rig.core.delivers(rig.now_ms)


def test_a_master_goes_on_while_every_replica_is_linked() -> None:
    rig = ActingRig(0, total_replicas=3).online(1, 2)
    for _ in range(30):
        rig.hear(SILENT, after_ms=1_000)
        rig.linked(1, 2)
        rig.tick()
        assert rig.core.delivers(rig.now_ms)
    rig.now_ms += 10_001
    assert not rig.core.delivers(rig.now_ms)  # before any tick: the process may have stood still


@pytest.mark.parametrize(("numbers", "goes_on"), [({"10.0.0.2"}, True), (set(), False)])
def test_a_link_of_a_member_behind_a_name_counts_where_the_name_was_looked_up(
    numbers: set[str], goes_on: bool
) -> None:
    rig = ActingRig(0).online(1)
    rig.hear(group(0, _1="broker-a-1:10911"))
    hosts = {"broker-a-1:10911": frozenset(numbers)}
    for _ in range(12):
        rig.hear(SILENT, after_ms=1_000)
        rig.link(ha_link(1, rig.now_ms), hosts=hosts)
    assert rig.core.delivers(rig.now_ms) is goes_on


def test_a_master_that_was_named_a_moment_ago_is_not_fenced() -> None:
    rig = ActingRig(0).online(1)
    effects = rig.hear(group(1), after_ms=2_000)
    assert not of(effects, fx.Fence) and of(effects, fx.Register)
    assert not rig.core.delivers(rig.now_ms) and not rig.core.isolated
    rig.register()
    rig.come_back(1)
    assert rig.core.delivers(rig.now_ms)


def test_a_master_that_was_taken_for_dead_is_fenced_and_comes_back() -> None:
    rig = ActingRig(0).online(1)
    effects = rig.hear(group(1), after_ms=20_000)
    assert of(effects, fx.Fence) and rig.core.fenced and rig.core.isolated
    rig.come_back(1)
    assert not rig.core.fenced and rig.core.delivers(rig.now_ms)
    assert of(rig.done, fx.Register)


def test_a_master_behind_a_pause_asks_before_it_registers() -> None:
    """Its turn came while it stood still, and meanwhile it was dropped and somebody acted."""
    rig = ActingRig(0).online(1)
    effects = rig.tick(40_000)
    assert of(effects, fx.AskMembers) and not of(effects, fx.Register)
    effects = rig.hear(group(1))
    assert of(effects, fx.Fence) and not of(effects, fx.Register)


def test_what_was_asked_before_the_registration_says_nothing() -> None:
    rig = ActingRig(0)
    rig.start()
    rig.come_back(1)
    rig.now_ms += 5_000
    assert not of(rig.hear(group(1)), fx.Fence)  # it is still registering
    asked_ms = rig.now_ms
    rig.register()
    found = rig.core.members_answered("n1:9876", group(1), asked_ms - 1, rig.now_ms, 0.5)
    assert not of(found, fx.Fence)


def test_another_broker_under_the_own_id_fences_at_once() -> None:
    rig = ActingRig(0).online(1)
    assert of(rig.hear(group(1, _0="10.9.9.9:1")), fx.Fence)
    assert "10.9.9.9:1" in rig.core.waits_for


def test_a_master_stays_as_long_as_one_name_server_names_it() -> None:
    rig = ActingRig(0, ("n1", "n2"), total_replicas=1)
    rig.start()
    rig.register()
    rig.hear(group(0, 1), "n1")
    assert not of(rig.hear(group(1), "n2", after_ms=20_000), fx.Fence)


def test_who_begins_to_act_makes_its_tables_newer_first() -> None:
    rig = ActingRig(1).online(0)
    rig.register(Registered(ADDRESSES[0], HA[0]))
    effects = rig.hear(group(1))
    assert [type(one) for one in effects][-3:] == [
        fx.BumpVersions, fx.SpecialServices, fx.ForgetMaster,
    ]  # fmt: skip
    assert of(effects, fx.BumpVersions)[0].step == ACTING_VERSION_STEP
    assert rig.core.acts and rig.core.min_id == 1 and rig.core.follows is None


def test_heartbeats_and_registrations_have_their_times() -> None:
    rig = ActingRig(0, total_replicas=1)
    rig.start()
    rig.register()
    kinds = [type(one) for _ in range(60) for one in rig.tick(1_000)]
    assert (kinds.count(fx.SendHeartbeat), kinds.count(fx.AskMembers)) == (60, 60)
    assert kinds.count(fx.Register) == 2


def test_906_is_answered_by_masters_and_followed_by_slaves() -> None:
    master, slave = ActingRig(0).online(1), ActingRig(1).online(0)
    told, effects = master.core.exchange(HaInfo(), 4_096, master.now_ms)
    assert told == HaInfo(HA[0], 4_096, ADDRESSES[0], delivers=True) and not effects
    assert slave.core.exchange(HaInfo(), 0, slave.now_ms) == (HaInfo(), [])
    _, effects = slave.core.exchange(told, 0, slave.now_ms)
    assert effects == [fx.FollowMaster(ADDRESSES[0], HA[0]), fx.StoreFlushedOffset(4_096)]
    assert master.core.exchange(told, 0, master.now_ms) == (HaInfo(), [])


def services(effects: list[fx.Effect]) -> list[bool]:
    return [one.on for one in of(effects, fx.SpecialServices)]


MASTER_BACK, SLAVE_BACK = HaInfo(HA[0], 0, ADDRESSES[0]), HaInfo(comes_back=True)


@pytest.mark.parametrize("word", [MASTER_BACK, SLAVE_BACK])
def test_who_acts_holds_back_for_one_that_comes_back_and_not_for_ever(word: HaInfo) -> None:
    rig = ActingRig(2, total_replicas=3).online(0)
    rig.hear(group(2))
    assert rig.core.acts and rig.core.delivers(rig.now_ms)
    _, effects = rig.core.exchange(word, 0, rig.now_ms)
    assert services(effects) == [False] and not rig.core.delivers(rig.now_ms)
    assert rig.core.acts, "it goes on to serve clients"
    rig.hear(group(2), after_ms=HOLD_MS)
    assert not rig.core.delivers(rig.now_ms)
    assert services(rig.hear(group(2), after_ms=1)) == [True]


def test_who_says_it_comes_back_again_and_again_keeps_nothing_for_ever() -> None:
    rig = ActingRig(1).online(0)
    rig.hear(group(1))
    for _ in range(HOLD_MAX_MS // 5_000 + 1):
        rig.core.exchange(MASTER_BACK, 0, rig.now_ms)
        rig.hear(group(1), after_ms=5_000)
    assert rig.core.delivers(rig.now_ms)
    rig.now_ms += HOLD_MS
    rig.hear(group(1), after_ms=1)
    assert services(rig.core.exchange(MASTER_BACK, 0, rig.now_ms)[1]) == [False]


def test_who_begins_to_act_anew_holds_back_for_nobody_of_before() -> None:
    rig = ActingRig(1).online(0)
    rig.hear(group(1))
    rig.core.exchange(MASTER_BACK, 0, rig.now_ms)
    rig.hear(group(0, 1))
    assert services(rig.hear(group(1), after_ms=1_000)) == [True]
    assert rig.core.delivers(rig.now_ms)


@pytest.mark.parametrize("rig", [ActingRig(0), ActingRig(1)])
def test_who_does_not_act_has_nothing_to_hold_back(rig: ActingRig) -> None:
    rig.online(1 - rig.config.place.broker_id)
    assert not services(rig.core.exchange(SLAVE_BACK, 0, rig.now_ms)[1])


def linked_slave() -> ActingRig:
    rig = ActingRig(1).online(0)
    rig.register(Registered(ADDRESSES[0], HA[0]))
    rig.core.own_link(True, HA[0], rig.now_ms, rig.now_ms, 0.5)
    return rig


def test_a_slave_does_not_act_while_the_link_to_its_master_speaks() -> None:
    rig = linked_slave()
    assert not services(rig.hear(group(1), after_ms=1_000)) and not rig.core.acts
    notice = MinIdNotice(1, ADDRESSES[1], ADDRESSES[0])
    assert of(rig.core.min_id_notice(notice, rig.now_ms), fx.AskMembers)
    assert services(rig.hear(group(1), after_ms=rig.config.not_active_ms)) == [True]


@pytest.mark.parametrize("up", [True, False])
def test_a_link_that_is_down_is_no_sign(up: bool) -> None:
    rig = linked_slave()
    rig.core.own_link(up, HA[0], rig.now_ms, rig.now_ms, 0.5)
    assert services(rig.hear(group(1))) == ([] if up else [True])


def test_who_acts_asks_the_master_and_delivers_nothing_while_that_one_does() -> None:
    rig = ActingRig(1).online(0)
    rig.hear(group(1))
    rig.done.clear()
    rig.tick(COPY_MS)
    (ask,) = of(rig.done, fx.AskHaInfo)
    assert ask.address == ADDRESSES[0]
    answer = HaInfo(HA[0], 0, ADDRESSES[0])
    assert not rig.core.ha_info_told(ask.token, answer, rig.now_ms, 0.5), "it comes back"
    rig.tick(COPY_MS)
    delivers = HaInfo(HA[0], 0, ADDRESSES[0], delivers=True)
    (_, again) = of(rig.done, fx.AskHaInfo)
    assert services(rig.core.ha_info_told(again.token, delivers, rig.now_ms, 0.5)) == [False]
    assert rig.core.acts and not rig.core.delivers(rig.now_ms)
    assert services(rig.hear(group(1), after_ms=rig.config.not_active_ms + 1)) == [True]


def acting_and_linked(up: bool = True) -> ActingRig:
    """A slave that acts, behind whose back a master has come and linked it."""
    rig = ActingRig(1).online(0)
    rig.core.log_ends(100, rig.now_ms)
    rig.hear(group(1))
    rig.core.own_link(up, HA[0], rig.now_ms, rig.now_ms, 0.5)
    assert rig.core.delivers(rig.now_ms)
    return rig


def test_who_acts_delivers_nothing_while_a_master_writes_into_its_log() -> None:
    rig = acting_and_linked()
    assert not rig.core.log_ends(100, rig.now_ms), "a link alone says nothing: it comes back"
    assert services(rig.core.log_ends(101, rig.now_ms)) == [False]
    assert rig.core.acts and not rig.core.delivers(rig.now_ms), "it goes on to serve clients"
    rig.core.own_link(True, HA[0], rig.now_ms + 9_000, rig.now_ms, 0.5)
    assert not services(rig.hear(group(1), after_ms=rig.config.not_active_ms))
    assert services(rig.hear(group(1), after_ms=1)) == [True], "it has stopped for long"


def test_what_a_master_wrote_leaves_when_its_link_is_gone() -> None:
    rig = acting_and_linked()
    assert services(rig.core.log_ends(101, rig.now_ms)) == [False]
    rig.core.own_link(False, "", rig.now_ms, rig.now_ms, 0.5)
    assert services(rig.hear(group(1))) == [True]


def test_what_came_before_the_link_was_gone_holds_nobody_back() -> None:
    rig = acting_and_linked(up=False)
    assert not rig.core.log_ends(101, rig.now_ms) and rig.core.delivers(rig.now_ms)


def test_the_log_of_a_slave_that_does_not_act_grows_and_nothing_follows() -> None:
    rig = ActingRig(1).online(0)
    rig.core.own_link(True, HA[0], rig.now_ms, rig.now_ms, 0.5)
    assert not rig.core.log_ends(1, rig.now_ms) and not rig.core.log_ends(2, rig.now_ms)


def test_who_acts_delivers_nothing_behind_a_pause_though_no_tick_has_come() -> None:
    rig = ActingRig(1, total_replicas=3).online(0, 2)
    rig.hear(group(1, 2))
    rig.core.log_ends(100, rig.now_ms)
    rig.now_ms += rig.config.not_active_ms
    assert not rig.core.log_ends(100, rig.now_ms) and rig.core.delivers(rig.now_ms)
    rig.now_ms += 30_000
    assert services(rig.core.log_ends(100, rig.now_ms)) == [False], "another one may act by now"


@pytest.mark.parametrize(("own", "acts"), [(2, [False, False]), (1, [True, True])])
def test_a_name_server_that_has_just_begun_takes_nobodys_turn(own: int, acts: list[bool]) -> None:
    """It is told of the slaves one after the other, by chance of the larger one first."""
    rig = ActingRig(own, total_replicas=3).online(*{0, 1, 2} - {own})
    rig.hear(group(1, 2, up_ms=10**6))
    rig.tick()
    rig.done.clear()
    seen = []
    for answer in (group(2, up_ms=1_000), group(1, 2, up_ms=2_000)):
        rig.hear(answer, after_ms=1_000)
        seen.append(rig.core.acts)
    assert seen == acts and not of(rig.done, fx.SpecialServices)


def test_who_does_not_come_back_to_a_new_name_server_has_left() -> None:
    rig = ActingRig(2, total_replicas=3).online(0, 1)
    rig.hear(group(1, 2))
    rig.hear(group(2, up_ms=4_999), after_ms=1_000)
    assert not rig.core.acts
    rig.hear(group(2, up_ms=5_000), after_ms=1_000)
    assert rig.core.acts and rig.core.delivers(rig.now_ms)


def test_a_slave_behind_one_that_acts_copies_its_places() -> None:
    rig = ActingRig(2, total_replicas=3).online(0, 1)
    assert not of(rig.tick(60_000), fx.FetchTables), "the master lives: its tables are copied"
    rig.hear(group(1, 2))
    (fetch,) = of(rig.tick(), fx.FetchTables)
    assert fetch.address == ADDRESSES[1] and not of(rig.tick(COPY_MS - 1), fx.FetchTables)
    (take,) = of(rig.core.fetched(fetch.token, Tables(), rig.now_ms, 0.5), fx.TakeTables)
    assert [one.member_id for one in take.tables] == [1]
    assert not rig.core.taken(take.token, True, rig.now_ms, 0.5)
    assert not rig.core.fetched(fetch.token, None, rig.now_ms, 0.5)
    rig.hear(group(2))
    assert not rig.core.fetched(fetch.token, Tables(), rig.now_ms, 0.5), "it acts by now"


def test_a_slave_that_slept_while_another_one_acted_takes_over_first() -> None:
    rig = ActingRig(1, total_replicas=3).online(0, 2)
    rig.hear(group(1, 2))
    assert rig.core.delivers(rig.now_ms)
    rig.hear(group(2), after_ms=60_000)
    rig.register()
    rig.hear(group(1, 2))
    assert not rig.core.delivers(rig.now_ms) and not rig.core.isolated
    rig.come_back(1, 2)
    assert rig.core.delivers(rig.now_ms)


def test_an_answer_that_comes_late_says_nothing_of_now() -> None:
    """The process stood still with it in its socket: nobody is there, as of a minute ago."""
    rig = ActingRig(0)
    rig.start()
    asked_ms = rig.now_ms
    rig.now_ms += 60_000
    late = rig.core.members_answered(NAME_SERVER, group(), asked_ms, rig.now_ms, 0.5)
    assert rig.core.isolated and not of(rig.note(late), fx.WentOnline)
    rig.hear(group(1))
    assert of(rig.done, fx.PushHaInfo)


def test_a_static_address_stays() -> None:
    state = ActingState(1, static_ha_address=True)
    assert state.follow(ADDRESSES[0], HA[0]) == [fx.FollowMaster(ADDRESSES[0], None)]


def test_a_notice_for_another_set_is_not_taken() -> None:
    rig = ActingRig(1).online(0)
    notice = MinIdNotice(1, ADDRESSES[1], ADDRESSES[0], broker_name="other")
    assert not rig.core.min_id_notice(notice, rig.now_ms)
    assert PreOnline.__doc__


@pytest.mark.parametrize(
    "settings",
    [{"name_servers": ()}, {"name_servers": ("n", "n")}, {"total_replicas": 0}, {"call_ms": 0}],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object]) -> None:
    known: dict[str, object] = {"name_servers": ("n",)}
    with pytest.raises(ValueError):
        ActingConfig(Place("c", "b", 0, "a:1"), "a:2", **(known | settings))  # type: ignore[arg-type]
