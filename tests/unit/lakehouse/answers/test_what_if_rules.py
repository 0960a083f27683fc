"""One incident again: when it is called for, and who wins."""

from dataclasses import replace as with_fields

import pytest
from msgspec.structs import replace

from lakehouse.answers.what_if_rules import (
    NOBODY_ALIVE,
    POLICIES,
    Scene,
    Silence,
    Timers,
    behind_bytes,
    due_ms,
    judge,
)
from processors.fold.state import ControllerState
from tests.support.control_history import seen
from tests.unit.lakehouse.answers.what_if_cases import REFUSED, gone, scene, silence
from tests.unit.lakehouse.gold.gold_cases import at

RECORDED = POLICIES["recorded"]
NOW = at(100)
HEARD = NOW - 10_100
"""When the master of these scenes was last heard."""


@pytest.mark.parametrize(
    ("timers", "due"),
    [
        (Timers(), NOW),
        (Timers(10_000), NOW),
        (Timers(5_000), NOW - 5_000),
        (Timers(30_000), NOW + 20_000),
        (Timers(probes=False), NOW),
    ],
)
def test_an_election_by_silence_moves_with_the_timeout_and_what_came_late_stays_late(
    timers: Timers, due: int
) -> None:
    assert due_ms(scene(gone(1), seen(2), seen(3)), timers) == due


def test_the_timeout_that_was_told_is_taken_from_the_silence_where_it_is_known() -> None:
    short = silence(NOW - 3_200, NOW + 500)
    known = scene(gone(1, silent_ms=3_200), seen(2), silences=(replace_timeout(short, 3_000),))
    assert due_ms(known, Timers(6_000)) == NOW + 3_000
    unknown = scene(gone(1, silent_ms=3_200), seen(2))
    assert due_ms(unknown, Timers(6_000)) == NOW + 2_801


def replace_timeout(one: Silence, timeout_ms: int) -> Silence:
    return with_fields(one, timeout_ms=timeout_ms)


def test_a_refused_probe_waits_for_nobody_and_without_probes_for_the_timeout() -> None:
    killed = scene(gone(1, REFUSED, 400), seen(2), seen(3))
    assert due_ms(killed, Timers(5_000)) == NOW
    assert due_ms(killed, Timers(5_000, probes=False)) == NOW + 4_601
    assert due_ms(killed, Timers(probes=False)) == NOW + 9_601


@pytest.mark.parametrize("timeout_ms", [None, 2_000, 10_000, 60_000])
def test_with_any_timeout_the_rules_elect_the_same_replica_when_nothing_else_differs(
    timeout_ms: int | None,
) -> None:
    timers, found = Timers(timeout_ms), scene(gone(1), seen(2), seen(3))
    judged = judge(found, due_ms(found, timers), timers, RECORDED)
    assert (judged.winner, judged.reason, judged.labels, judged.behind_bytes) == (
        2,
        "elected",
        (),
        0,
    )


def test_a_master_that_is_heard_before_the_longer_timeout_keeps_its_set() -> None:
    found = scene(gone(1), seen(2), seen(3), silences=(silence(HEARD, NOW + 4_000),))
    later = judge(found, due_ms(found, Timers(20_000)), Timers(20_000), RECORDED)
    assert (later.at_ms, later.winner, later.reason) == (
        NOW + 4_000,
        1,
        "the master was heard again before",
    )
    sooner = judge(found, due_ms(found, Timers(12_000)), Timers(12_000), RECORDED)
    assert (sooner.at_ms, sooner.winner, sooner.reason) == (NOW + 2_000, 2, "elected")


def test_a_master_that_came_back_as_another_start_is_elected_or_not_at_that_moment() -> None:
    found = scene(
        gone(1), seen(2), seen(3), silences=(silence(HEARD, NOW + 4_000, restarted=True),)
    )
    judged = judge(found, due_ms(found, Timers(20_000)), Timers(20_000), RECORDED)
    assert (judged.at_ms, judged.winner, judged.reason) == (NOW + 4_000, 1, "elected")


def test_replicas_that_are_silent_at_the_other_moment_are_not_elected() -> None:
    away = silence(NOW - 6_000, NOW - 1_000, broker_id=2)
    found = scene(gone(1), seen(2), seen(3), silences=(away,))
    # a second of silence
    assert judge(found, due_ms(found, Timers(5_000)), Timers(5_000), RECORDED).winner == 2
    early = scene(
        gone(1), seen(2), seen(3), silences=(silence(NOW - 9_900, NOW - 1_000, broker_id=2),)
    )
    assert judge(early, due_ms(early, Timers(3_000)), Timers(3_000), RECORDED).winner == 2
    long_away = scene(
        gone(1), seen(2), seen(3), silences=(silence(NOW - 15_000, NOW - 1_000, broker_id=2),)
    )
    assert judge(long_away, due_ms(long_away, Timers(5_000)), Timers(5_000), RECORDED).winner == 3


def test_when_all_are_gone_nobody_is_called() -> None:
    found = scene(gone(1), gone(2), gone(3))
    judged = judge(found, due_ms(found, Timers(5_000)), Timers(5_000), RECORDED)
    assert (judged.winner, judged.reason) == (None, NOBODY_ALIVE)


def test_policies() -> None:
    taste = scene(gone(1), seen(2, priority=5, offset=900), seen(3, offset=1000))
    assert judge(taste, NOW, Timers(), RECORDED).winner == 2
    assert judge(taste, NOW, Timers(), POLICIES["longest"]).winner == 3
    outside = scene(gone(1, offset=1500), seen(2, offset=900), members=(1,))
    assert judge(outside, NOW, Timers(), RECORDED).reason == "MASTER_NOT_AVAILABLE"
    unclean = judge(outside, NOW, Timers(), POLICIES["unclean"])
    assert (unclean.winner, unclean.labels, unclean.behind_bytes) == (
        2,
        ("AT_RISK", "UNCLEAN"),
        600,
    )
    allowed = replace(
        outside.state, settings=outside.state.settings.set("enableElectUncleanMaster", "true")
    )
    assert judge(scene_with(outside, allowed), NOW, Timers(), POLICIES["clean"]).winner is None


def scene_with(one: Scene, state: ControllerState) -> Scene:
    return with_fields(one, state=state)


def test_bytes_behind_are_known_only_with_the_winners_offset() -> None:
    assert behind_bytes([gone(1, offset=1500), seen(2, offset=900)], 2) == 600
    assert behind_bytes([gone(1, offset=1500), seen(2, offset=-1)], 2) == 0
    assert behind_bytes([], 2) == 0
