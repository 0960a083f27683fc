"""Which heartbeats a standby hands on to the leader, and for how long (controller.md 15, row
16).
"""

import pytest

from brokers.remoting.command import RemotingCommand
from processors.controller.heartbeat_relay import (
    AWAY_MAX,
    ENOUGH_MS,
    QUIET_MS,
    SPREAD_MS,
    HeartbeatRelay,
)

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
