"""A master on its way back: members whose link comes late, or goes again."""

from __future__ import annotations

import pytest

from brokers.acting import effects as fx
from brokers.acting.ha_links import HaLink
from brokers.acting.holding_back import HOLD_MS
from brokers.acting.pre_online import LINK_WAIT_MS, TAKE_MS, TOLD_AGAIN_MS, WORD_LASTS_MS
from brokers.acting.reverse_sync import Places, Tables
from brokers.service.tables.data_version import DataVersion
from tests.support.acting_rig import ADDRESSES, ActingRig, group, of

TICK_MS = 200


def told_master(*others: int) -> ActingRig:
    """Its members have been told where it takes links, and none has made one."""
    rig = ActingRig(0, total_replicas=len(others) + 1)
    rig.start()
    rig.hear(group(*others))
    for push in of(rig.done, fx.PushHaInfo):
        rig.note(rig.core.pushed(push.token, True, rig.now_ms, 0.5))
    rig.done.clear()
    return rig


def pushes(rig: ActingRig, for_ms: int) -> list[tuple[int, str]]:
    """(when, to whom) in this time, all of them taken."""
    began_ms, found = rig.now_ms, []
    while rig.now_ms - began_ms < for_ms:
        for push in of(rig.tick(TICK_MS), fx.PushHaInfo):
            found.append((rig.now_ms - began_ms, push.address))
            rig.note(rig.core.pushed(push.token, True, rig.now_ms, 0.5))
    return found


def test_a_member_without_a_link_is_told_again_soon() -> None:
    rig = told_master(1)
    told = pushes(rig, LINK_WAIT_MS - TICK_MS)
    assert [at for at, _ in told] == [TOLD_AGAIN_MS * turn for turn in range(1, 5)]


def test_a_member_that_drops_its_link_is_told_again_and_the_linked_one_is_not() -> None:
    rig = told_master(1, 2)
    rig.linked(1)
    assert {to for _, to in pushes(rig, 3_000)} == {"10.0.0.3:10911"}
    rig.linked(2)
    assert {to for _, to in pushes(rig, 3_000)} == {"10.0.0.2:10911"}
    rig.linked(1, 2)
    assert len(of(rig.done, fx.FetchTables)) == 2 and not pushes(rig, 3_000)


def test_of_one_host_all_are_told_again_for_whose_link_is_missing_is_not_known() -> None:
    """Member 1 dropped its link, and the link of member 2 is taken for it."""
    rig = told_master(1, 2)
    one_host = dict.fromkeys((ADDRESSES[1], ADDRESSES[2]), frozenset({"10.0.0.9"}))
    rig.link(HaLink(2, "10.0.0.9", rig.now_ms, True, rig.now_ms), hosts=one_host)
    assert {to for _, to in pushes(rig, 3_000)} == {ADDRESSES[1], ADDRESSES[2]}


@pytest.mark.parametrize(("ok", "after_ms"), [(False, 100), (True, TAKE_MS + 1), (True, 40_000)])
def test_what_is_on_the_disk_too_late_is_asked_for_once_more(ok: bool, after_ms: int) -> None:
    """Who was told holds back for a while, and acts on when nobody came."""
    rig = told_master(1)
    rig.linked(1)
    for late in (True, False):
        (fetch,) = of(rig.done, fx.FetchTables)
        rig.note(rig.core.fetched(fetch.token, Tables(), rig.now_ms, 0.5))
        (take,) = of(rig.done, fx.TakeTables)
        rig.now_ms += after_ms if late else TAKE_MS
        rig.done.clear()
        rig.note(rig.core.taken(take.token, ok or not late, rig.now_ms, 0.5))
        assert rig.core.isolated is late
        if late:
            (push,) = of(rig.tick(2_000), fx.PushHaInfo)
            rig.linked(1)
            assert not of(rig.done, fx.FetchTables), "it is told first"
            rig.note(rig.core.pushed(push.token, True, rig.now_ms, 0.5))
    assert rig.core.delivers(rig.now_ms)


def test_being_told_again_does_not_make_the_wait_for_a_link_longer() -> None:
    rig = told_master(1)
    pushes(rig, rig.config.member_wait_ms + 3 * LINK_WAIT_MS)
    (without,) = [one for one in of(rig.done, fx.Report) if one.kind == "PreOnlineWithoutMember"]
    assert without.fields["tables"], "its tables are fetched without the link"
    assert of(rig.done, fx.FetchTables)


def offsets(place: int) -> Tables:
    return Tables(Places(DataVersion(0, place, place), {("T@g", 0): place}))


def goes_on(
    rig: ActingRig,
    for_ms: int,
    *named: int,
    linked: tuple[int, ...] = (),
    tables: dict[int, int] | None = None,
) -> ActingRig:
    """Each half second the name server names these. Who is linked takes a word; who has tables
    gives them, with such an offset.
    """
    given = tables or {}
    for _ in range(0, for_ms, 500):
        done = [*rig.hear(group(*named), after_ms=500), *rig.tick(), *rig.linked(*linked)]
        for effect in done:
            if isinstance(effect, fx.PushHaInfo):
                takes = ids()[effect.address] in linked
                done += rig.note(rig.core.pushed(effect.token, takes, rig.now_ms, 0.5))
                done += rig.linked(*linked)
            elif isinstance(effect, fx.FetchTables):
                place = given.get(ids()[effect.address])
                found = None if place is None else offsets(place)
                done += rig.note(rig.core.fetched(effect.token, found, rig.now_ms, 0.5))
    return rig


def ids() -> dict[str, int]:
    return {address: key for key, address in ADDRESSES.items()}


def taken(rig: ActingRig) -> list[tuple[int, int]]:
    """(member, offset) of what is taken."""
    (take,) = of(rig.done, fx.TakeTables)
    places = [(one.member_id, one.tables.offsets) for one in take.tables]
    return [(key, found.places["T@g", 0]) for key, found in places if found is not None]


def test_tables_of_one_that_is_named_no_more_are_fetched_again_before_they_are_taken() -> None:
    """Its name servers began anew: it goes on to act, and its tables are half a minute old."""
    rig = told_master(1, 2)
    goes_on(rig, 30_000, 1, 2, linked=(1, 2), tables={1: 5})
    assert not of(rig.done, fx.TakeTables), "member 2 does not give its own"
    goes_on(rig, 60_000, linked=(1,), tables={1: 9})
    assert taken(rig) == [(1, 9)]


def test_what_one_handed_over_before_it_left_is_taken_all_the_same() -> None:
    rig = told_master(1, 2)
    goes_on(rig, 30_000, 1, 2, linked=(1, 2), tables={1: 5})
    goes_on(rig, 60_000, linked=())
    assert taken(rig) == [(1, 5)]


def test_a_member_that_is_named_no_more_counts_while_it_answers() -> None:
    """A name server that began anew names nobody for a while."""
    rig = told_master(1)
    goes_on(rig, 5_000, linked=(1,))
    assert rig.core.isolated, rig.core.waits_for
    goes_on(rig, 5_000, 1, linked=(1,), tables={1: 7})
    assert taken(rig) == [(1, 7)]


def test_an_empty_set_is_believed_when_nobody_was_named_for_the_whole_time() -> None:
    """And not when it became empty a moment ago, however long the way back takes by then."""
    rig = told_master(1)
    grace_ms = rig.config.grace_ms
    goes_on(rig, 2 * grace_ms, 1, tables={})
    goes_on(rig, grace_ms - 1_000)
    assert rig.core.isolated, "it was named a moment before"
    goes_on(rig, 20_000)
    assert not rig.core.isolated


def test_a_name_server_that_has_just_begun_knows_no_empty_set() -> None:
    rig = ActingRig(0)
    rig.start()
    rig.hear(group())
    rig.hear(group(up_ms=1_000), after_ms=rig.config.grace_ms)
    assert rig.core.isolated
    rig.hear(group(up_ms=rig.config.grace_ms), after_ms=1)
    assert not rig.core.isolated


def test_who_was_told_long_ago_is_told_again_before_its_tables_are_fetched() -> None:
    """It holds back for HOLD_MS only, and would deliver behind the copy."""
    rig = told_master(1, 2)
    goes_on(rig, WORD_LASTS_MS + 1_000, 1, 2, linked=(1,), tables={1: 5, 2: 5})
    rig.done.clear()
    goes_on(rig, 30_000, 1, 2, linked=(1, 2), tables={1: 5, 2: 5})
    words = [type(one) for one in rig.done if getattr(one, "address", "") == ADDRESSES[1]]
    assert words[:2] == [fx.PushHaInfo, fx.FetchTables] and taken(rig) == [(1, 5), (2, 5)]
    assert WORD_LASTS_MS < HOLD_MS


def test_tables_that_come_late_are_old_ones() -> None:
    rig = told_master(1)
    (fetch,) = of(rig.linked(1), fx.FetchTables)
    rig.now_ms += 60_000
    rig.note(rig.core.fetched(fetch.token, offsets(5), rig.now_ms, 0.5))
    assert not of(rig.done, fx.TakeTables)
