from __future__ import annotations

from collections.abc import Iterator

import pytest

from processors.controller import gauges
from processors.controller.context import CoreConfig, CoreContext
from processors.controller.gauges import (
    ROLE_CANDIDATE,
    ROLE_FOLLOWER,
    ROLE_LEADER,
    ROLE_UNKNOWN,
    Gauges,
    figures_of,
)
from processors.fold.folder import Folder
from tests.support.controller_rig import Log, Rig, ids


def of(rig: Rig, **changed: int) -> Gauges:
    rig.tick()
    asked = {"end_offset": 0, "published_offset": -1, "pending": 0, **changed}
    return last(figures_of(rig.core._context, **asked))


def last(steps: Iterator[Gauges | None]) -> Gauges:
    """What comes after all the turns for others."""
    *turns, found = steps
    assert not any(turns) and found is not None
    return found


def test_a_leader_knows_its_sets_and_who_lives() -> None:
    found = of(Rig().lead().three())
    assert (found.role, found.leader_known, found.term) == (ROLE_LEADER, True, 1)
    assert dict(found.living) == {("C", "a"): 3}
    assert (found.sets, found.sets_without_master, found.unclaimed_ids) == (1, 0, 0)


def test_replicas_that_are_gone_do_not_count_and_their_silence_neither() -> None:
    rig = Rig().lead().three()
    for _ in range(20):
        rig.pass_time(500)
        rig.heartbeat(2)
    found = of(rig)
    assert dict(found.living) == {("C", "a"): 1} and found.silence_max_ms <= 25


def test_sets_that_wait_for_an_operator_are_counted() -> None:
    rig = Rig().lead().three()
    assert of(rig).sets_operator_needed == 0
    rig.pass_time(20_000)
    assert of(rig).sets_operator_needed == 1


def test_an_id_that_nobody_claimed_is_counted() -> None:
    rig = Rig().lead()
    names = {"clusterName": "C", "brokerName": "a"}
    rig.request(1013, names | {"appliedBrokerId": "1", "registerCheckCode": "h:1;1"})
    found = of(rig)
    assert (found.unclaimed_ids, found.sets_without_master) == (1, 1)


def test_a_standby_follows_and_one_that_hears_nobody_is_a_candidate() -> None:
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    beat = {"controllerId": "c1", "active": "true", "able": "true", "term": "1"}
    standby.request(19001, beat, oneway=True)
    assert of(standby).role == ROLE_FOLLOWER
    standby.auto = False
    standby.pass_time(30_000)
    assert of(standby).role == ROLE_CANDIDATE
    assert of(leader).role == ROLE_LEADER


def test_before_the_cluster_is_formed_nothing_is_known() -> None:
    context = CoreContext(CoreConfig("c1", "h:1", "x"), Folder(), ids())
    found = last(figures_of(context, end_offset=0, published_offset=-1, pending=0))
    assert (found.role, found.applied_offset, found.end_offset) == (ROLE_UNKNOWN, -1, 0)


def test_the_end_of_the_log_is_never_before_what_was_applied() -> None:
    rig = Rig().lead()
    assert of(rig, end_offset=0).end_offset == rig.folder.offset + 1
    assert of(rig, end_offset=99).end_offset == 99


def test_others_get_their_turn_between_many_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "SETS_AT_ONCE", 2)
    rig = Rig().lead()
    for number in range(5):
        names = {"clusterName": "C", "brokerName": f"s{number}"}
        rig.request(1013, names | {"appliedBrokerId": "1", "registerCheckCode": "h:1;1"})
    steps = list(rig.core.figures(rig.now_ms))
    assert steps[:-1] == [None, None] and steps[-1] is not None and steps[-1].unclaimed_ids == 5
