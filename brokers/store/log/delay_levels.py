"""The delay levels of this process: RocketMQ's messageDelayLevel (PROTOCOL 4.14).

Responsible for: reading and writing its text, and the one table that is in force.
Refuses to know: which message has which level, and what is due.

The table is one for a process, as there: every entry of a waiting message's queue is made by it,
from wherever its record is read. It is set before a store is opened and not changed after.
"""

from __future__ import annotations

import re

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""RocketMQ's own: level n is the word n."""
LEVELS_MAX = 64
TEXT_CHARACTERS_MAX = 1_024
# Some months: further off is a slip, and a queue of its own for nobody.
LEVEL_MS_MAX = 400 * 86_400_000

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WORD = re.compile(r"([0-9]{1,9})([smhd])\Z")


def delay_levels(text: str) -> tuple[int, ...]:
    """The delays in ms, level 1 first. ValueError: the text is no list of such words."""
    words = text[: TEXT_CHARACTERS_MAX + 1].split()
    if len(text) > TEXT_CHARACTERS_MAX or not 1 <= len(words) <= LEVELS_MAX:
        raise ValueError(f"there are 1 to {LEVELS_MAX} levels, as in {DELAY_LEVELS!r}")
    return tuple(_delay_ms(word) for word in words)


def _delay_ms(word: str) -> int:
    found = _WORD.match(word)
    delay_ms = int(found.group(1)) * _UNITS_MS[found.group(2)] if found else 0
    if not 0 < delay_ms <= LEVEL_MS_MAX:
        raise ValueError(
            f"the level {word[:20]!r} is no time: a number and s, m, h or d, at most 400 days"
        )
    return delay_ms


_in_force = [delay_levels(DELAY_LEVELS)]


def use_delay_levels(levels: tuple[int, ...]) -> None:
    """From now on these count, everywhere in this process."""
    _in_force[0] = levels


def levels_in_force() -> tuple[int, ...]:
    """Delays in ms, level 1 first."""
    return _in_force[0]
