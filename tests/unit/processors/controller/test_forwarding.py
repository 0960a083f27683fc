"""Requests for the leader that came to a standby (design D5)."""

from brokers.remoting.command import RemotingCommand
from processors.controller.forwarding import LEADERLESS_WAIT_MS, RETRY_AFTER_MS, ForwardingDesk
from processors.controller.waiting import Waiter
from tests.support.controller_rig import ids


def waiter(code: int = 1013, **ext: str) -> Waiter:
    return Waiter(1, "10.0.0.1:5", RemotingCommand.request(code, dict(ext)))


def desk(one: Waiter) -> ForwardingDesk:
    made = ForwardingDesk(2_500)
    made.park(one, ids(), 0)
    return made


def test_a_command_gets_an_id_so_that_every_repeat_is_harmless() -> None:
    ((_, request, timeout_ms),) = desk(waiter()).to_send(100)
    assert request.ext["regentCommandId"] == next(ids()).hex()
    assert request.ext["regentForwardedFor"] == "10.0.0.1:5"
    assert timeout_ms == 2_400


def test_an_id_of_the_callers_own_is_kept_and_reads_need_none() -> None:
    ((_, request, _),) = desk(waiter(regentCommandId="ab" * 16)).to_send(0)
    assert request.ext["regentCommandId"] == "ab" * 16
    ((_, read, _),) = desk(waiter(1004)).to_send(0)
    assert "regentCommandId" not in read.ext


def test_what_came_back_unanswered_is_sent_again_under_the_same_id() -> None:
    made = desk(waiter())
    ((token, first, _),) = made.to_send(0)
    one = made.came_back(token)
    assert one is not None and made.came_back(token) is None
    made.park_again(one, 10)
    assert made.to_send(10 + RETRY_AFTER_MS - 1) == []
    ((_, second, _),) = made.to_send(10 + RETRY_AFTER_MS)
    assert second.ext == first.ext


def test_a_request_nobody_saw_expires_early_and_one_that_was_sent_late() -> None:
    unseen = desk(waiter())
    assert unseen.expired(LEADERLESS_WAIT_MS - 1) == []
    assert [one.sent for one in unseen.expired(LEADERLESS_WAIT_MS)] == [False]
    seen = desk(waiter())
    ((token, _, _),) = seen.to_send(0)
    one = seen.came_back(token)
    assert one is not None
    seen.park_again(one, 1)
    assert seen.expired(LEADERLESS_WAIT_MS) == []
    assert [late.sent for late in seen.expired(2_500)] == [True]


def test_a_new_leader_takes_all_that_waits() -> None:
    made = desk(waiter())
    assert len(made.release()) == 1
    assert made.release() == [] and made.to_send(0) == []


def test_a_request_at_the_leader_is_answered_at_its_deadline_whoever_keeps_the_calls_time() -> None:
    desk = ForwardingDesk(1_000)
    desk.park(waiter(), ids(), 0)
    ((token, _, timeout_ms),) = desk.to_send(0)
    assert timeout_ms == 1_000 and desk.expired(999) == []
    (late,) = desk.expired(1_000)
    assert late.sent and desk.came_back(token) is None and desk.expired(2_000) == []
