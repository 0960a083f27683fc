"""A planned hand-over as decisions: who can take over, when the controller is asked, when this
broker goes on.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokers.service.role.hand_over import (
    LAG_BYTES_MAX,
    Facts,
    HandOver,
    Refused,
    Slave,
    Stage,
    candidates,
)

QUIET = Facts("MASTER", 3, 1, 1_000, 1_000, 1_000, 0)


def attempt() -> HandOver:
    return HandOver(2, 3, 0, drain_ms=500, limit_ms=1_500)


def test_members_that_are_close_behind_can_take_over_lowest_id_first() -> None:
    end = LAG_BYTES_MAX + 1_000
    slaves = [Slave(4, True, end), Slave(2, True, 1_000), Slave(3, False, end), Slave(5, True, 999)]
    assert candidates(slaves, end, None) == (2, 4)
    assert candidates(slaves, end, 4) == (4,)


@pytest.mark.parametrize(
    ("slaves", "wanted", "said"),
    [
        ([], None, "no other member is in sync"),
        ([Slave(2, False, 10)], None, "no other member is in sync"),
        ([Slave(2, True, -1)], None, "no other member is caught up"),
        ([Slave(2, True, -1), Slave(3, True, LAG_BYTES_MAX)], 2, "replica 2 is not caught up"),
        ([Slave(2, False, 10)], 2, "replica 2 is not in sync"),
        ([Slave(2, True, 10)], 9, "replica 9 is not linked"),
    ],
)  # fmt: skip
def test_who_cannot_take_over_is_refused_with_the_reason(
    slaves: list[Slave], wanted: int | None, said: str
) -> None:
    with pytest.raises(Refused) as refused:
        candidates(slaves, LAG_BYTES_MAX, wanted)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "behind", [{"target_acked": 999}, {"confirm_offset": 999}, {"unfinished": 1}]
)
def test_the_controller_is_asked_only_when_everybody_has_everything(behind: dict[str, int]) -> None:
    one = attempt()
    assert one.look(replace(QUIET, **behind), 1) is Stage.DRAINING
    assert one.look(QUIET, 2) is Stage.ASKING


def test_waiting_for_the_members_has_an_end() -> None:
    one = attempt()
    assert one.look(replace(QUIET, target_acked=0), 499) is Stage.DRAINING
    assert (
        one.look(replace(QUIET, target_acked=0), 500) is Stage.RESUMED
        and "in time" in one.reason
        and one.over
    )


def test_a_target_that_is_gone_while_draining_ends_the_attempt_at_once() -> None:
    one = attempt()
    assert (
        one.look(replace(QUIET, target_acked=None), 1) is Stage.RESUMED
        and "replica 2" in one.reason
    )


def test_links_that_close_while_the_controller_decides_say_nothing() -> None:
    # The election itself closes them.
    one = attempt()
    one.look(QUIET, 1)
    assert one.look(replace(QUIET, target_acked=None), 2) is Stage.ASKING


def test_it_is_done_when_the_target_leads_in_a_new_epoch() -> None:
    one = attempt()
    one.look(QUIET, 1)
    assert one.look(Facts("SLAVE", 4, 2, 1_000, 1_000, None, 0), 2) is Stage.DONE and one.over
    one.refused("too late")
    assert one.stage is Stage.DONE


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (Facts("SLAVE", 4, 3, 1_000, 1_000, None, 0), "replica 3 leads, in epoch 4"),
        (Facts("FENCED", 4, None, 1_000, 1_000, None, 0), "nobody leads, in epoch 4"),
        (Facts("MASTER", 4, 1, 1_000, 1_000, 1_000, 0), "replica 1 leads, in epoch 4"),
    ],
)
def test_another_outcome_of_the_election_ends_the_attempt(now: Facts, said: str) -> None:
    one = attempt()
    one.look(QUIET, 1)
    assert one.look(now, 2) is Stage.RESUMED and one.reason == said


def test_a_refusal_ends_the_attempt_and_the_first_reason_stays() -> None:
    one = attempt()
    one.look(QUIET, 1)
    one.refused("the controller answered 2012")
    one.refused("again")
    assert one.stage is Stage.RESUMED and one.reason == "the controller answered 2012"
    assert one.look(QUIET, 5) is Stage.RESUMED


def test_a_controller_that_does_not_answer_ends_the_attempt_in_time() -> None:
    one = attempt()
    one.look(QUIET, 1)
    assert one.look(QUIET, 1_499) is Stage.ASKING
    assert one.look(QUIET, 1_500) is Stage.RESUMED
