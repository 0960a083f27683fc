"""When a claim is due (design D6)."""

from processors.controller.leadership import (
    CHANGES_MEMORY_MS,
    CLAIM_RETRY_MS,
    CLAIM_STAGGER_MS,
    LEADER_SILENCE_MS,
    PROBE_AGAIN_MS,
    Leadership,
)

PEERS = {"c1": "h1:1", "c2": "h2:1", "c3": "h3:1"}


def standby(
    own: str = "c2", leader: str | None = "c1", term: int = 1, now_ms: int = 0
) -> Leadership:
    leadership = Leadership(own, PEERS)
    leadership.note_state(term, leader, own_claim=False, now_ms=now_ms)
    leadership.tick(now_ms)
    return leadership


def test_without_a_leader_the_first_in_rank_claims_and_the_others_wait() -> None:
    first, second = standby("c1", leader=None, term=0), standby("c2", leader=None, term=0)
    assert first.claim_due(0)
    assert not second.claim_due(0)
    assert second.claim_due(CLAIM_STAGGER_MS)


def test_a_leader_that_is_heard_keeps_claims_away() -> None:
    leadership = standby()
    for now_ms in range(0, 5_000, 200):
        leadership.heard("c1", active=True, able=True, term=1, now_ms=now_ms)
        assert not leadership.claim_due(now_ms + 199)


def test_a_silent_leader_is_succeeded_after_its_time() -> None:
    leadership = standby()
    leadership.heard("c1", active=True, able=True, term=1, now_ms=100)
    assert not leadership.claim_due(100 + LEADER_SILENCE_MS)
    assert leadership.claim_due(101 + LEADER_SILENCE_MS)
    assert leadership.claim_cause() == "leader_silent"


def test_a_refused_leader_is_succeeded_at_once() -> None:
    leadership = standby()
    leadership.heard("c1", active=True, able=True, term=1, now_ms=100)
    assert leadership.refused("h1:1", 110)
    assert leadership.claim_due(110)
    assert leadership.claim_cause() == "leader_probe_refused"
    assert not leadership.refused("elsewhere:1", 110)


def test_repeated_refusals_do_not_push_the_claim_of_a_later_rank_away() -> None:
    leadership = standby("c3")
    for now_ms in range(0, 400, 100):
        leadership.refused("h1:1", now_ms)
    assert leadership.claim_due(CLAIM_STAGGER_MS)


def test_a_leader_that_does_not_get_through_to_the_log_is_succeeded() -> None:
    leadership = standby()
    leadership.heard("c1", active=True, able=False, term=1, now_ms=50)
    assert leadership.claim_due(50)
    assert leadership.claim_cause() == "leader_not_able"


def test_a_heartbeat_from_before_the_claim_is_no_sign_of_weakness() -> None:
    leadership = standby(term=2)
    leadership.heard("c1", active=False, able=True, term=1, now_ms=50)
    assert not leadership.claim_due(60)


def test_a_command_of_the_leader_in_the_log_shows_that_it_lives() -> None:
    leadership = standby()
    leadership.heard_through_log("c1", 1, 900)
    assert not leadership.claim_due(LEADER_SILENCE_MS + 500)


def test_a_claim_is_repeated_only_after_a_while() -> None:
    leadership = standby("c1", leader=None, term=0)
    leadership.claimed(0)
    assert not leadership.claim_due(CLAIM_RETRY_MS - 1)
    assert leadership.claim_due(CLAIM_RETRY_MS)


def test_only_the_claim_of_this_process_makes_it_active() -> None:
    leadership = standby("c1", leader="c1", term=4)
    assert not leadership.is_active, "that claim was made in a former life"
    leadership.note_state(5, "c1", own_claim=True, now_ms=10)
    assert leadership.is_active
    leadership.note_state(6, "c2", own_claim=False, now_ms=20)
    assert not leadership.is_active


def test_a_controller_that_restarted_lets_the_others_go_first() -> None:
    assert standby("c1", leader="c1").rank() == 2
    assert standby("c2", leader="c1").rank() == 0


def test_controllers_that_cannot_hear_each_other_slow_down() -> None:
    leadership = standby()
    now_ms = 0
    for term in range(2, 8):
        now_ms += 1_000
        leadership.note_state(term, "c1" if term % 2 else "c3", own_claim=False, now_ms=now_ms)
    assert not leadership.claim_due(now_ms + 4 * LEADER_SILENCE_MS)


def test_our_own_standstill_is_not_the_leaders_silence() -> None:
    leadership = standby()
    leadership.heard("c1", active=True, able=True, term=1, now_ms=0)
    leadership.tick(10_000)
    assert not leadership.claim_due(10_000)


def test_a_lost_connection_is_probed_again_until_the_peer_is_heard() -> None:
    leadership = standby()
    leadership.lost("h1:1", 0)
    assert leadership.probes_due(PROBE_AGAIN_MS[0]) == ["h1:1"]
    leadership.heard("c1", active=True, able=True, term=1, now_ms=30)
    assert leadership.probes_due(10_000) == []


def test_a_leader_that_is_heard_but_does_not_apply_its_own_claim_is_succeeded() -> None:
    """Its claim got into the log, and nothing comes back to it from there."""
    leadership = standby(term=2)
    for now_ms in range(0, LEADER_SILENCE_MS + 1, 100):
        leadership.heard("c1", active=False, able=True, term=1, now_ms=now_ms)
        assert not leadership.claim_due(now_ms)
    assert leadership.claim_due(LEADER_SILENCE_MS + 1)


def test_since_when_the_leader_says_that_it_leads_no_more_is_known() -> None:
    leadership = standby()
    leadership.heard("c1", active=True, able=False, term=1, now_ms=50)
    assert leadership.unled_since_ms == 0
    assert leadership.claim_due(70) and leadership.unled_since_ms == 70
    leadership.heard("c1", active=True, able=True, term=1, now_ms=80)
    assert not leadership.claim_due(90) and leadership.unled_since_ms == 0


def test_an_unlisted_leader_is_named_and_deposed_ever_more_seldom() -> None:
    leadership, now_ms, waits = Leadership("c1", {}), 0, []
    leadership.note_state(1, "c1", True, now_ms)
    leadership.tick(now_ms)
    for term in range(2, 20, 2):
        leadership.note_state(term, "c9", False, now_ms)
        assert leadership.unlisted_leader == "c9"
        began_ms = now_ms
        while not leadership.claim_due(now_ms):
            now_ms += 100
            leadership.tick(now_ms)
        waits.append(now_ms - began_ms)
        leadership.note_state(term + 1, "c1", True, now_ms)
        assert leadership.unlisted_leader is None
    assert waits[0] < 1_500 and waits[-1] > 60_000 and waits == sorted(waits)
    assert leadership.changes(now_ms) == 18
    assert leadership.changes(now_ms + CHANGES_MEMORY_MS) == 0
