"""When a log is no longer the one that was folded, and when it no longer arrives (design S11,
D7).
"""

from dataclasses import replace

import pytest

from processors.log.health import BEHIND_FOR_S, ODD_FOR_S, ODD_LOOKS_MIN, LogHealth, Look

FINE = Look(first=0, end=10, applied=10, position=10, delivered=10, topic_id="t1", same=True)


def reasons(looks: list[Look], step_s: float = 0.5, watchdog_s: float = 5.0) -> list[str]:
    """What is said of looks half a second apart, without the looks that were fine."""
    health = LogHealth("t1", watchdog_s, 0.0)
    found = [health.judge(look, step_s * (number + 1)) for number, look in enumerate(looks)]
    return [reason for reason in found if reason]


@pytest.mark.parametrize(
    ("odd", "for_s", "text"),
    [
        (replace(FINE, topic_id=""), ODD_FOR_S, "was deleted: restore it"),
        (replace(FINE, topic_id="t2"), ODD_FOR_S, "deleted and made anew"),
        (replace(FINE, first=3), ODD_FOR_S, "begins at offset 3"),
        (replace(FINE, same=False), ODD_FOR_S, "cut and written anew"),
        (
            replace(FINE, end=9, position=9),
            BEHIND_FOR_S,
            "ends at offset 9, but 10 records were applied",
        ),
    ],
)
def test_what_stays_odd_is_told_with_the_way_out_and_what_passes_is_not(
    odd: Look, for_s: float, text: str
) -> None:
    looks = round(for_s / 0.25)
    assert reasons([odd] * looks + [FINE] + [odd] * looks, step_s=0.25) == []
    (reason,) = reasons([FINE] + [odd] * (looks + 1), step_s=0.25)
    assert text in reason and "restore" in reason
    assert reasons([odd] * (ODD_LOOKS_MIN - 1), step_s=10.0) == [], (
        "one odd answer after a pause proves nothing"
    )


def test_what_was_not_learnt_is_no_reason() -> None:
    assert reasons([replace(FINE, topic_id=None, same=None)] * 50) == []


def test_what_is_asked_only_now_and_then_counts_all_the_same() -> None:
    odd, not_asked = replace(FINE, topic_id="t2"), replace(FINE, topic_id=None)
    assert len(reasons([odd, not_asked] * ODD_LOOKS_MIN)) >= 1


def test_a_log_that_grows_while_nothing_is_handed_over_is_a_stuck_reader() -> None:
    longer = replace(FINE, end=12, applied=12)  # another reader has helped: the fold went on
    assert reasons([longer] * 9) == []
    (reason, *_) = reasons([longer] * 12)
    assert "Faust has handed over nothing behind offset 9" in reason


def test_repeats_and_a_quiet_log_are_signs_of_life() -> None:
    repeats = [
        replace(FINE, end=12, position=3 + number, delivered=11 + number) for number in range(40)
    ]
    assert reasons(repeats) == []
    assert reasons([FINE] * 100) == []


def test_a_pause_of_kafka_or_of_this_process_is_not_counted_as_waiting() -> None:
    longer = replace(FINE, end=12)
    assert reasons([longer] * 3, step_s=30.0) == []
