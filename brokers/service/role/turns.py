"""Whose turn it is to deliver, asked before each piece of work (PROTOCOL 7.2).

Responsible for: that work goes on in the next turn of the loop only where it may, and waits where
it may not. Refuses to know: who may, what is delivered.

Behind a pause of the process the pieces that waited run before anything else has been looked at,
and another broker may deliver by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LATER_MS = 50


class Turns:
    """`may_deliver()`: whether what delivers by itself may put anything now."""

    def __init__(self) -> None:
        self.may_deliver: Callable[[], bool] = lambda: True

    def soon(self, act: Callable[[], None]) -> object:
        """In the next turn of the loop in which it may."""
        return asyncio.get_running_loop().call_soon(self._now_or_later, act)

    def _now_or_later(self, act: Callable[[], None]) -> None:
        if self.may_deliver():
            act()
        else:
            asyncio.get_running_loop().call_later(LATER_MS / 1000, self._now_or_later, act)
