"""When a half is asked about, when it is given up, when a commit comes too late."""

import pytest

from brokers.service.transactions.rules import (
    Next,
    TransactionTerms,
    comes_too_late,
    immune_ms,
    what_next,
)
from brokers.store.log.records import MessageFields, StoredMessage, host_bytes

HOST = host_bytes("127.0.0.1", 10911)
TERMS = TransactionTerms(6_000, 30_000, 15, 3_600_000)
NOW = 1_000_000_000


def half(age_ms: int, stored_ago_ms: int | None = None, **properties: str) -> StoredMessage:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    stored = NOW - (age_ms if stored_ago_ms is None else stored_ago_ms)
    return StoredMessage(
        MessageFields("H", 0, b"x", text, NOW - age_ms, HOST, HOST), 100, 1, 0, 0, 0, stored
    )


IMMUNE = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TIMES = "TRANSACTION_CHECK_TIMES"


@pytest.mark.parametrize(
    ("message", "can_ask", "what"),
    [
        (half(6_000), True, Next.ASK),
        (half(5_999), True, Next.STOP),
        (half(6_000), False, Next.WAIT),
        (half(60_000, 10), True, Next.STOP),  # stored a moment ago
        (half(60_000, -1), True, Next.STOP),  # stored in this round
        (half(-50_000, 7_000), True, Next.ASK),  # born under another clock
        (half(6_000, -3_600_000), True, Next.ASK),  # stored under another clock
        (half(5_999, -3_600_000), True, Next.WAIT),  # it holds up nothing behind it
        (half(5_999, -6_000), True, Next.STOP),
        (half(7_000, **{TIMES: "14"}), True, Next.ASK),
        (half(7_000, **{TIMES: "15"}), True, Next.GIVE_UP),
        (half(7_000, **{TIMES: "99999999999"}), True, Next.ASK),
        (half(7_000, **{TIMES: "x"}), True, Next.ASK),
        (half(7_000, 1_000, **{TIMES: "1"}), True, Next.ASK),  # a copy is as old as its message
        (half(3_600_001), False, Next.GIVE_UP),
        (half(9_999, **{IMMUNE: "10"}), True, Next.WAIT),
        (half(10_000, **{IMMUNE: "10"}), True, Next.ASK),
        (half(1_000, **{IMMUNE: "1"}), True, Next.ASK),
        (half(5_999, **{IMMUNE: "soon"}), True, Next.WAIT),
        (half(-5, **{IMMUNE: "10"}), True, Next.STOP),
    ],
)
def test_what_is_done_about_a_half_that_nobody_ended(
    message: StoredMessage, can_ask: bool, what: Next
) -> None:
    assert what_next(message, NOW, NOW, TERMS, can_ask=can_ask) is what


@pytest.mark.parametrize(
    ("text", "ms"), [("10", 10_000), ("0", 0), ("", 6_000), ("-1", 6_000), ("9" * 10, 6_000)]
)
def test_how_long_nobody_is_asked(text: str, ms: int) -> None:
    assert immune_ms(half(0, **({IMMUNE: text} if text else {})).fields, TERMS) == ms


@pytest.mark.parametrize(
    ("message", "late"),
    [
        (half(1 << 40), False),
        (half(10_001, **{IMMUNE: "10"}), True),
        (half(10_000, **{IMMUNE: "10"}), False),
        (half(6_001, **{IMMUNE: "1"}), True),
        (half(5_000, **{IMMUNE: "1"}), False),
    ],
)
def test_when_a_commit_comes_too_late(message: StoredMessage, late: bool) -> None:
    assert comes_too_late(message.fields, NOW, TERMS) is late
