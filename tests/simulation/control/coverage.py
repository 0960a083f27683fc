"""
What a whole run must have seen, or it has not tested what it claims to.

Refuses to know: how anything is counted.
"""

from __future__ import annotations

from collections.abc import Mapping

NOT_PRODUCED: Mapping[str, str] = {}
"""What no world can produce, and why."""


def everything() -> list[str]:
    return []


def required() -> list[str]:
    """The names of all counters that must move."""
    return [name for name in everything() if name not in NOT_PRODUCED]


def missing(counts: Mapping[str, int]) -> list[str]:
    """The counters that stayed 0, by name."""
    return [name for name in required() if not counts.get(name)]
