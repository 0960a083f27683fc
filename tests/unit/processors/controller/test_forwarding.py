"""Requests for the leader that came to a standby (design D5)."""

import pytest

from brokers.remoting.command import RemotingCommand
from processors.controller.forwarding import (
    AWAY_MAX,
    ENOUGH_MS,
    LEADERLESS_WAIT_MS,
    QUIET_MS,
    RETRY_AFTER_MS,
    SPREAD_MS,
    Forwarding,
    HeartbeatRelay,
)
from processors.controller.waiting import Waiter
from tests.support.controller_rig import ids


def waiter(code: int = 1013, **ext: str) -> Waiter:
    return Waiter(1, "10.0.0.1:5", RemotingCommand.request(code, dict(ext)))


def desk(one: Waiter) -> Forwarding:
    made = Forwarding(2_500)
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
    desk = Forwarding(1_000)
    desk.park(waiter(), ids(), 0)
    ((token, _, timeout_ms),) = desk.to_send(0)
    assert timeout_ms == 1_000 and desk.expired(999) == []
    (late,) = desk.expired(1_000)
    assert late.sent and desk.came_back(token) is None and desk.expired(2_000) == []


KEY = ("C", "a", 1)
SETTLED_MS = QUIET_MS + SPREAD_MS


def settled() -> HeartbeatRelay:
    relay = HeartbeatRelay()
    assert relay.begin(KEY, "c1:1", 0, anew=True) is None
    return relay


def said(what: str | None, code: int = 0) -> RemotingCommand:
    return RemotingCommand.request(904).reply(code, {} if what is None else {"regentHeard": what})


def handed_on(
    relay: HeartbeatRelay, now_ms: int, leader: str | None = "c1:1", anew: bool = False
) -> bool:
    token = relay.begin(KEY, leader, now_ms, anew=anew)
    if token is not None:
        relay.answered(token, said("relayed"), now_ms)
    return token is not None


def test_nothing_is_handed_on_to_nobody_or_to_a_leader_that_is_quite_new() -> None:
    relay = settled()
    assert relay.begin(KEY, "c1:1", QUIET_MS - 1, anew=False) is None
    assert handed_on(relay, SETTLED_MS)
    assert not handed_on(relay, SETTLED_MS, leader=None)
    assert handed_on(relay, SETTLED_MS)
    assert not handed_on(relay, SETTLED_MS, leader="c2:1")
    assert handed_on(relay, 2 * SETTLED_MS, leader="c2:1")


def test_every_heartbeat_is_handed_on_while_the_leader_lives_by_it() -> None:
    relay = settled()
    assert [handed_on(relay, SETTLED_MS + at) for at in (0, 1_000, 2_000)] == [True, True, True]


@pytest.mark.parametrize("word", ["here", None])
def test_a_leader_that_hears_the_broker_itself_is_left_alone_for_a_while(word: str | None) -> None:
    relay, now_ms = settled(), SETTLED_MS
    token = relay.begin(KEY, "c1:1", now_ms, anew=False)
    assert token is not None and token < 0
    relay.answered(token, said(word), now_ms)
    assert not handed_on(relay, now_ms + ENOUGH_MS - 1)
    assert handed_on(relay, now_ms + ENOUGH_MS)


def test_a_broker_that_comes_back_may_know_other_controllers() -> None:
    relay = settled()
    token = relay.begin(KEY, "c1:1", SETTLED_MS, anew=False)
    assert token is not None
    relay.answered(token, said("here"), SETTLED_MS)
    assert handed_on(relay, SETTLED_MS + 1, anew=True)


@pytest.mark.parametrize("response", [None, said(None, 2007)])
def test_without_the_leaders_word_the_next_one_is_handed_on_as_well(
    response: RemotingCommand | None,
) -> None:
    relay = settled()
    token = relay.begin(KEY, "c1:1", SETTLED_MS, anew=False)
    assert token is not None
    relay.answered(token, response, SETTLED_MS)
    relay.answered(token, said("here"), SETTLED_MS)
    assert handed_on(relay, SETTLED_MS + 1)


def test_only_so_many_are_on_their_way_at_once() -> None:
    relay = settled()
    tokens = [
        relay.begin(("C", "a", one), "c1:1", SETTLED_MS, anew=False) for one in range(AWAY_MAX + 1)
    ]
    assert None not in tokens[:-1] and len(set(tokens)) == AWAY_MAX + 1 and tokens[-1] is None
    relay.answered(tokens[0] or 0, None, SETTLED_MS)
    assert handed_on(relay, SETTLED_MS)
