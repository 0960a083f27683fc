"""What a client saw of a blow: recovery time and the longest gap, from the times of its calls.

Pure: times are nanoseconds of one monotonic clock, which all processes of a machine share.
Refuses to know what was called.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call: invoked, ended (answer or failure), whether the answer was a success."""

    invoked_ns: int
    ended_ns: int
    ok: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What followed a blow. `rto_ms` None: no call failed. `steady_ms`: until the first success
    begun after the last failure, from the same beginning; more than `rto_ms` when calls failed
    again after a success.
    """

    rto_ms: float | None
    steady_ms: float | None
    failed_calls: int
    first_error: str
    longest_gap_ms: float


def longest_gap_ms(calls: Iterable[Call], from_ns: int, to_ns: int) -> float:
    """The longest time between two successive successful answers, of those that reach into the
    window.
    """
    answers = sorted(call.ended_ns for call in calls if call.ok)
    pairs = itertools.pairwise(answers)
    return max(((b - a) / NS_PER_MS for a, b in pairs if b >= from_ns and a <= to_ns), default=0.0)


def recovery(calls: Sequence[Call], blow_ns: int, until_ns: int) -> Recovery:
    """What the client saw of a blow at `blow_ns`, judged by the calls that ended up to `until_ns`.

    RTO: from the invocation of the first failed call to the first success that was begun after that
    invocation and answered after the first failure was known (design, section 9).
    """
    seen = [call for call in calls if blow_ns <= call.ended_ns <= until_ns]
    gap = longest_gap_ms((call for call in calls if call.ended_ns <= until_ns), blow_ns, until_ns)
    failed = [call for call in seen if not call.ok]
    if not failed:
        return Recovery(None, None, 0, "", gap)
    first = min(failed, key=lambda call: call.invoked_ns)
    known_ns = min(call.ended_ns for call in failed)
    last_ns = max(call.ended_ns for call in failed)
    good = [
        call
        for call in seen
        if call.ok and call.invoked_ns >= first.invoked_ns and call.ended_ns >= known_ns
    ]
    rto_end = min((call.ended_ns for call in good), default=None)
    steady_end = min((call.ended_ns for call in good if call.ended_ns >= last_ns), default=None)
    return Recovery(
        _since(first.invoked_ns, rto_end),
        _since(first.invoked_ns, steady_end),
        len(failed),
        first.error,
        gap,
    )


def _since(begin_ns: int, end_ns: int | None) -> float | None:
    return None if end_ns is None else (end_ns - begin_ns) / NS_PER_MS


def is_calm(calls: Sequence[Call], count: int) -> bool:
    """The last `count` calls all succeeded."""
    return len(calls) >= count and all(call.ok for call in calls[-count:])
