"""A history judged again: known answers, and what they come to."""

from typing import Any

import pytest

from lakehouse.answers.what_if import (
    ADDED,
    AVOIDED,
    EARLIER,
    LATER,
    OTHER_WINNER,
    SAME,
    WITHOUT_WINNER,
    Incident,
    Replay,
    totals,
)
from lakehouse.answers.what_if_rules import POLICIES, Silence, Timers
from tests.support.control_history import NAME, History, seen, with_master
from tests.unit.lakehouse.answers.what_if_cases import REFUSED, gone, silence, silent_master
from tests.unit.lakehouse.gold.gold_cases import at, landed

RECORDED = "recorded"


def failover(
    offset: int, unavailable_ms: int | None = 12_000, recovery_ms: int = 300
) -> dict[str, Any]:
    """What of a row of gold/failovers is asked."""
    first_ms = None if unavailable_ms is None else at(offset) + recovery_ms
    return {
        "broker_name": NAME,
        "offset": offset,
        "at_ms": at(offset),
        "unavailable_ms": unavailable_ms,
        "first_acknowledged_ms": first_ms,
        "truncated_bytes": 0,
    }


def judged(
    past: History,
    timers: Timers = Timers(),
    policy: str = RECORDED,
    silences: tuple[Silence, ...] = (),
    *rows: dict[str, Any],
    **window: int,
) -> list[Incident]:
    return list(
        Replay(timers, POLICIES[policy], {NAME: silences}, rows, **window).incidents(landed(past))
    )


def test_with_what_was_in_force_every_incident_is_as_it_was() -> None:
    past, offset = silent_master()
    [one] = judged(past, Timers(), RECORDED, (), failover(offset))
    assert (one.offset, one.at_ms, one.result, one.recorded_winner, one.judged.winner) == (
        offset,
        at(offset),
        SAME,
        2,
        2,
    )
    assert (one.recorded_outage_ms, one.outage_ms, one.won_ms) == (12_000, 12_000, 0)


@pytest.mark.parametrize(
    ("timeout_ms", "result", "outage_ms"), [(4_000, EARLIER, 6_000), (25_000, LATER, 27_000)]
)
def test_the_same_election_earlier_or_later(timeout_ms: int, result: str, outage_ms: int) -> None:
    past, offset = silent_master()
    [one] = judged(past, Timers(timeout_ms), RECORDED, (), failover(offset))
    assert (one.result, one.judged.winner, one.outage_ms, one.won_ms) == (
        result,
        2,
        outage_ms,
        12_000 - outage_ms,
    )


def test_an_election_is_avoided_when_the_master_comes_back_before_the_longer_timeout() -> None:
    past, offset = silent_master()
    back = silence(at(offset) - 10_100, at(offset) + 4_000)
    [one] = judged(past, Timers(20_000), RECORDED, (back,), failover(offset))
    assert (one.result, one.judged.winner, one.outage_ms, one.won_ms) == (
        AVOIDED,
        1,
        14_100,
        -2_100,
    )


def test_a_silence_that_nobody_answered_is_an_election_more_with_a_shorter_timeout() -> None:
    past, offset = silent_master()
    first = at(offset) - 60_000  # before anything: the set does not exist
    quiet = silence(at(offset - 1) + 100, at(offset - 1) + 6_100)
    rows = (failover(offset, recovery_ms=300),)
    assert [one.offset for one in judged(past, Timers(8_000), RECORDED, (quiet,), *rows)] == [
        offset
    ]
    past.setting("dedupeWindowOffsets", "1000")  # time goes on behind the silence
    early = silence(at(offset - 1) + 100, at(offset - 1) + 900)
    added = judged(past, Timers(500), RECORDED, (silence(first, first + 5_000), early), *rows)
    assert [(one.offset, one.result) for one in added][0] == (None, ADDED)
    one = added[0]
    assert (one.recorded_winner, one.judged.winner, one.recorded_outage_ms, one.outage_ms) == (
        None,
        2,
        800,
        501 + 300,
    )


def test_a_silent_slave_is_no_incident() -> None:
    past, offset = silent_master()
    quiet = silence(at(offset - 1) + 100, at(offset - 1) + 900, broker_id=3)
    assert [one.offset for one in judged(past, Timers(500), RECORDED, (quiet,))] == [offset]


def without_follower() -> tuple[History, int]:
    """The only member is killed; a second later nobody else may lead, a few more and it is back as
    master. The refused offset.
    """
    past = with_master(1)
    offset = len(past.records)
    assert (
        past.elect(
            -1, gone(1, REFUSED, 500, offset=1500), seen(2, offset=900), seen(3, offset=800)
        ).refusal
        == "MASTER_NOT_AVAILABLE"
    )
    past.setting("dedupeWindowOffsets", "1000")
    past.register(1, "i1b")
    assert past.elect(
        -1, seen(1, offset=1500, incarnation="i1b"), seen(2, offset=900), seen(3)
    ).accepted
    return past, offset


def test_an_unclean_election_answers_at_once_at_the_price_of_bytes() -> None:
    past, offset = without_follower()
    refused, elected = judged(past, Timers(), "unclean", (), failover(offset + 3, 5_000))
    assert (refused.offset, refused.result, refused.recorded_winner, refused.judged.winner) == (
        offset,
        ADDED,
        None,
        2,
    )
    assert (refused.judged.labels, refused.judged.behind_bytes) == (("AT_RISK", "UNCLEAN"), 600)
    assert (elected.offset, elected.result, elected.outage_ms, elected.won_ms) == (
        offset + 3,
        AVOIDED,
        2_000,
        3_000,
    )
    sums = totals([refused, elected])
    assert (sums["elections"], sums["added"], sums["avoided"], sums["measured"]) == (1, 1, 1, 1)
    assert (sums["unavailable_ms"], sums["unavailable_instead_ms"]) == (5_000, 2_000)
    assert (sums["at_risk_bytes"], sums["at_risk_instead_bytes"]) == (0, 600)


def test_without_unclean_elections_what_was_won_so_is_not() -> None:
    past = with_master(1)
    past.setting("enableElectUncleanMaster", "true")
    offset = len(past.records)
    assert past.elect(-1, gone(1, REFUSED, 500, offset=1500), seen(2, offset=900)).accepted
    [one] = judged(past, Timers(), "clean", (), failover(offset))
    assert (one.result, one.recorded_risk_bytes, one.judged.winner, one.won_ms) == (
        WITHOUT_WINNER,
        600,
        None,
        None,
    )
    assert totals([one])["measured"] == 0


def test_another_order_of_candidates_is_another_winner() -> None:
    past = with_master(1, 2, 3)
    past.elect(-1, gone(1), seen(2, priority=1, offset=900), seen(3, offset=1000), master_epoch=1)
    [one] = judged(past, Timers(), "longest")
    assert (one.result, one.recorded_winner, one.judged.winner, one.won_ms) == (
        OTHER_WINNER,
        2,
        3,
        None,
    )


def test_elections_that_somebody_asked_for_or_that_nobody_looked_at_are_no_incidents() -> None:
    past, offset = silent_master()
    past.elect(3, seen(1), seen(2), seen(3), designate=True)
    past.elect(-1, gone(3), seen(2), master_epoch=1)  # an epoch that is over
    assert [one.offset for one in judged(past, Timers(5_000))] == [offset]


def test_a_window_leaves_the_rest_out_but_folds_all() -> None:
    past, offset = silent_master()
    past.elect(-1, gone(2), seen(1), seen(3), master_epoch=2)
    assert [
        one.offset for one in judged(past, Timers(5_000), RECORDED, (), from_ms=at(offset + 1))
    ] == [offset + 1]
    assert [
        one.offset for one in judged(past, Timers(5_000), RECORDED, (), until_ms=at(offset))
    ] == [offset]
