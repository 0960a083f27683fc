"""How much of its master's tables a member had when it was promoted.

Responsible for: when a copy was begun that then arrived, and how far its master's log was durable
by then. Refuses to know: what the tables hold.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from brokers.remoting.codes import RequestCode

if TYPE_CHECKING:
    from tests.simulation.services.member import Member

# Services tell their places every 50 ms; what a slot holds may be delivered slice by slice.
TOLD_WITHIN_MS, SLOT_TOLD_WITHIN_MS = 200, 2_500
# What is out in order, every 250 ms.
ORDERED_TOLD_WITHIN_MS = 500


class DurableHistory:
    """How far the log of one member was confirmed and on its disk, over time; samples of a process
    that stood still are missing.
    """

    def __init__(self) -> None:
        self._times: list[int] = []
        self._ends: list[int] = []

    def note(self, now_ms: int, end: int) -> None:
        self._times.append(now_ms)
        self._ends.append(end)

    def at(self, at_ms: int) -> int:
        """0: nothing is known of that time."""
        number = bisect_right(self._times, at_ms)
        return self._ends[number - 1] if number else 0


@dataclass(slots=True)
class Bounds:
    """Each: the epoch of the master that told, and up to what. `offsets`: the time in ms up to
    which all commits are in the table, `ordered`: of what is out in order; `delays`, `timers`: the
    end in the log of the copies that it told to be done.
    """

    offsets: tuple[int, int] = (0, 0)
    ordered: tuple[int, int] = (0, 0)
    delays: tuple[int, int] = (0, 0)
    timers: tuple[int, int] = (0, 0)


class Copied:
    """Of one life of a member. `has_locks`: a master's, or its own."""

    def __init__(self, member: Member) -> None:
        self._member, self._bounds = member, Bounds()
        self.has_locks = False
        sync, kept = member.serving.shared.sync, member.serving.tables.kept
        copy, adopt = sync._copied, kept.adopt
        self._adopted: set[int] = set()

        def adopted(code: int, body: bytes) -> None:
            adopt(code, body)
            self._adopted.add(code)

        kept.adopt = adopted  # type: ignore[method-assign]

        async def copied(code: int, master: str, epoch: int) -> str | None:
            begun_ms = member.world.now_ms
            self._adopted.discard(code)
            refused = await copy(code, master, epoch)
            if refused is None:
                self._take(code, master, epoch, begun_ms)
            return refused

        sync._copied = copied  # type: ignore[method-assign]

    def _take(self, code: int, master: str, epoch: int, begun_ms: int) -> None:
        durable = self._member.realm.node_at(master).durable
        if code == RequestCode.GET_ALL_CONSUMER_OFFSET:
            self._bounds.offsets = epoch, begun_ms
        elif code == RequestCode.REGENT_LOCKS:
            self.has_locks = True
        elif code not in self._adopted:  # what a master does not have it need not give
            return
        elif code == RequestCode.REGENT_ORDERED_POPS:
            self._bounds.ordered = epoch, begun_ms - ORDERED_TOLD_WITHIN_MS
        elif code == RequestCode.GET_ALL_DELAY_OFFSET:
            self._bounds.delays = epoch, durable.at(begun_ms - TOLD_WITHIN_MS)
        elif code == RequestCode.GET_TIMER_CHECK_POINT:
            self._bounds.timers = epoch, durable.at(begun_ms - SLOT_TOLD_WITHIN_MS)

    def frozen(self) -> Bounds:
        """As they are now."""
        return replace(self._bounds)
