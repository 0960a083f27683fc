"""When a half is asked about, when it is given up, when its producer comes too late
(PROTOCOL 4.7).

Refuses to know: clocks, the store, who is connected.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from brokers.service.transactions.forms import IMMUNITY, property_text, times_asked
from brokers.store.log.records import MessageFields, StoredMessage

_SECONDS_DIGITS_MAX = 9


@dataclass(slots=True)
class TransactionTerms:
    """transactionTimeOut, transactionCheckInterval, transactionCheckMax and fileReservedTime of
    RocketMQ; times in ms. All parts share one, which an operator may change.
    """

    timeout_ms: int = 6_000
    check_interval_ms: int = 30_000
    checks_max: int = 15
    reserved_ms: int = 72 * 3_600_000

    def adopt(self, other: TransactionTerms) -> None:
        """Become the same."""
        self.timeout_ms, self.check_interval_ms = other.timeout_ms, other.check_interval_ms
        self.checks_max, self.reserved_ms = other.checks_max, other.reserved_ms


class Next(Enum):
    """What is to be done about an undecided half in a round of checks."""

    STOP = "this one and all behind it are too young"
    WAIT = "not now"
    ASK = "ask a producer of its group"
    GIVE_UP = "nobody decided it in time"


def what_next(
    half: StoredMessage, now_ms: int, round_ms: int, terms: TransactionTerms, *, can_ask: bool
) -> Next:
    """`round_ms`: when this round began. `can_ask`: a producer of its group is connected. A time in
    the future is another clock's, and holds nothing up: neither this half nor all behind it.
    """
    fields, age_ms = half.fields, now_ms - half.fields.born_ms
    asked = times_asked(fields)
    if asked >= terms.checks_max or age_ms > terms.reserved_ms:
        return Next.GIVE_UP
    is_others = half.store_ms - now_ms > terms.timeout_ms  # stored under another clock
    if half.store_ms >= round_ms and not is_others:
        return Next.STOP
    if property_text(fields, IMMUNITY) or is_others:
        if 0 <= age_ms < immune_ms(fields, terms):
            return Next.WAIT
    elif not asked and 0 <= now_ms - half.store_ms < terms.timeout_ms:
        return Next.STOP
    return Next.ASK if can_ask else Next.WAIT


def immune_ms(half: MessageFields, terms: TransactionTerms) -> int:
    """For how long nobody is asked about a half that says so itself; what is no number of seconds
    counts as the usual time.
    """
    seconds = property_text(half, IMMUNITY)
    if seconds.isascii() and seconds.isdigit() and len(seconds) <= _SECONDS_DIGITS_MAX:
        return int(seconds) * 1_000
    return terms.timeout_ms


def comes_too_late(half: MessageFields, now_ms: int, terms: TransactionTerms) -> bool:
    """The producer of a half with a time of its own decides behind it, without being asked: the
    check is on its way.
    """
    return bool(property_text(half, IMMUNITY)) and now_ms - half.born_ms > max(
        immune_ms(half, terms), terms.timeout_ms
    )
