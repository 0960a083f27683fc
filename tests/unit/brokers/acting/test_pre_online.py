"""A master on its way back: members whose link comes late, or goes again."""

from __future__ import annotations

from brokers.acting import effects as fx
from brokers.acting.pre_online import LINK_WAIT_MS, TOLD_AGAIN_MS
from tests.support.acting_rig import ActingRig, group, of

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


def test_being_told_again_does_not_make_the_wait_for_a_link_longer() -> None:
    rig = told_master(1)
    pushes(rig, rig.config.member_wait_ms + 3 * LINK_WAIT_MS)
    (without,) = [one for one in of(rig.done, fx.Report) if one.kind == "PreOnlineWithoutMember"]
    assert without.fields["tables"], "its tables are fetched without the link"
    assert of(rig.done, fx.FetchTables)
