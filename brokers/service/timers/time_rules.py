"""The wheel's time (PROTOCOL 4.18).

Responsible for: a time that no jump of the wall clock moves before it has lasted; which slot of the
wheel a message goes into.
Refuses to know: clocks (the caller reads both), files, messages.
"""

from __future__ import annotations

from typing import NamedTuple

from brokers.service.sending.timed import TimerRules

# The wall clock and the one that only grows may differ by so much between two looks: a clock that
# is slewed, a process that did not run.
JUMP_MS = 100
# A jump that lasted for so long was meant.
BELIEVED_AFTER_MS = 60_000
# A slave puts a message that rolls so much further on than its master may have.
SKEW_MS = 60_000


class SteadyTime:
    """Wall time in ms since 1970 that goes on evenly. A jump, either way, is followed when it has
    lasted for BELIEVED_AFTER_MS.
    """

    def __init__(self) -> None:
        self._ahead_ms: int | None = None  # of the clock that only grows
        self._suspect_ms = 0
        self._since_ms: int | None = None

    def now_ms(self, wall_ms: int, steady_ms: int) -> int:
        """`wall_ms`: the wall clock; `steady_ms`: the one that only grows."""
        ahead = wall_ms - steady_ms
        if self._ahead_ms is None or abs(ahead - self._ahead_ms) <= JUMP_MS:
            self._ahead_ms, self._since_ms = ahead, None
        elif self._since_ms is None or abs(ahead - self._suspect_ms) > JUMP_MS:
            self._suspect_ms, self._since_ms = ahead, steady_ms
        elif steady_ms - self._since_ms >= BELIEVED_AFTER_MS:
            self._ahead_ms, self._since_ms = ahead, None
        return steady_ms + self._ahead_ms


class Target(NamedTuple):
    """The slot that a message goes into; `rolls`: it is not its own yet."""

    slot_ms: int
    rolls: bool


def target_of(out_ms: int, write_ms: int, rules: TimerRules, *, follows: bool) -> Target:
    """Where a message of slot `out_ms` goes at time `write_ms`.

    `follows`: on a slave. Its master may have rolled the message already and read that slot, or not
    yet: the slave's own one must lie behind it, or a new master would pass it over. Where the
    message is in the end twice, with and without roll, its slot's reader sees it.
    """
    window_ms = rules.roll_window_slots * rules.precision_ms
    if follows:
        far_ms = window_ms + rules.floor(SKEW_MS)
        if out_ms - write_ms < far_ms:
            return Target(out_ms, False)
        return Target(write_ms + far_ms, True)
    delay_ms = out_ms - write_ms
    if delay_ms < window_ms:
        return Target(out_ms, False)
    if delay_ms - window_ms < window_ms // 3:
        half_slots = rules.roll_window_slots // 2
        return Target(write_ms + half_slots * rules.precision_ms, True)
    return Target(write_ms + window_ms, True)


def may_have_rolled(out_ms: int, store_ms: int, rules: TimerRules) -> bool:
    """Whether a message stored at `store_ms` may be in its slot twice, rolled and not."""
    return out_ms - store_ms >= rules.roll_window_slots * rules.precision_ms // 2
