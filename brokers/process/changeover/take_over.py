"""The first master behind a changeover takes over what slaves did that acted meanwhile, before it
serves (PROTOCOL 7.8).

Responsible for: asking the other replicas of the set, again where one does not answer, taking their
places onto the disk, holding the role until then. Refuses to know: who is to be asked for what
(`brokers/changeover/taking_over`), which places count (`brokers/acting/reverse_sync`).

First it is found out who is there, then those that act are told to hold back and asked: who waits
for one that does not answer keeps no other one from delivering.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from brokers.acting.holding_back import HOLD_MS
from brokers.acting.reverse_sync import Decision, MemberTables, Tables, decide, without_epoch
from brokers.changeover.giving_up import Standing
from brokers.changeover.order import Kind, Order, Record
from brokers.changeover.taking_over import Wanted, is_first, patience_ms, wanted
from brokers.clock import Clock
from brokers.process.changeover.change_over import NotNow

AGAIN_MS, LOOK_MS = 500, 2_000
TRIES_MAX = 8
"""To hold one back and fetch its places, of 2.5 s each where much is under way."""
FRESH_MS = HOLD_MS // 2
"""Who acts holds back for HOLD_MS: places that were fetched longer ago are fetched again."""

_log = logging.getLogger("regent.broker.changeover")


@dataclass(frozen=True, slots=True)
class Begun:
    """What this replica knows of the changeover: its record, the orders of a release that it did
    not end; `keep_no_more()`: forgets these (OSError).
    """

    record: Record | None
    cut_off: tuple[Order, ...]
    keep_no_more: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Around:
    """`others()`: addresses of the set, this one's may be among them; `look(address, ms)` raises
    NotNow; `hold(address)`: whether it delivers nothing more, and says all in its tables;
    `places(address)`: None where they do not come; `now()`, `take(decision)`: the own ones, on the
    disk when it returns (OSError); `log()`: epochs and where the log ends; `leads()`: this replica
    has the role, and serves when `resume()` took it up.
    """

    address: str
    others: Callable[[], Iterable[str]]
    look: Callable[[str, int], Awaitable[Standing]]
    hold: Callable[[str], Awaitable[bool]]
    places: Callable[[str], Awaitable[Tables | None]]
    now: Callable[[], Tables]
    take: Callable[[Decision], Awaitable[None]]
    log: Callable[[], tuple[Collection[tuple[int, int]], int]]
    leads: Callable[[], bool]
    resume: Callable[[], None]


class TakeOver:
    """Of one life of a broker."""

    def __init__(self, begun: Begun, around: Around, clock: Clock) -> None:
        self._begun, self._around = begun, around
        self._clock = clock
        self._done = False
        self._wanted = asyncio.Event()
        self.left_out: tuple[str, ...] = ()

    @property
    def isolated(self) -> bool:
        """Whether a mastership must not begin to serve yet."""
        if self._done:
            return False
        return bool(self._begun.cut_off) or is_first(self._begun.record, *self._around.log())

    def may_register(self) -> bool:
        """Routes wait for the role alone."""
        return True

    def held(self) -> None:
        """A mastership is held until this is done."""
        self._wanted.set()

    async def run(self) -> None:
        """For as long as the broker runs."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._around.leads() and not await self._taken_over():
                await asyncio.sleep(AGAIN_MS / 1000)
            if self._around.leads():
                self._done = True
                self._around.resume()

    async def _taken_over(self) -> bool:
        """False: once more, for the disk refused or this process stood still."""
        around, record = self._around, self._begun.record
        orders = () if record is None else record.orders
        known = (*around.others(), *(one.address for one in (*orders, *self._begun.cut_off)))
        others = [one for one in dict.fromkeys(known) if one and one != around.address]
        seen = await asyncio.gather(*map(self._seen, others))
        found = {at: one for at, one in zip(others, seen, strict=True) if one is not None}
        began_ms = self._clock.now_ms()
        places = await asyncio.gather(*(self._places(at, one) for at, one in found.items()))
        told = {at: one for at, one in zip(found, places, strict=True) if one is not None}
        if not await self._take(told):
            return False
        if self._clock.now_ms() - began_ms > FRESH_MS:
            _log.warning("taking over took long: the others are asked once more")
            return False
        self.left_out = tuple(at for at in others if at not in told)
        if self.left_out:
            _log.error("leads without the places of %s", ", ".join(self.left_out))
        elif self._begun.cut_off and all(one.kind is Kind.CONTROLLERS for one in found.values()):
            self._forget()
        return True

    def _forget(self) -> None:
        """Nobody is left that followed a release which was cut off."""
        try:
            self._begun.keep_no_more()
        except OSError as error:
            _log.warning("the note of a release cannot be removed: %s", error)

    async def _seen(self, address: str) -> Standing | None:
        """None where it did not answer for as long as it is waited for."""
        begun, now_ms = self._begun, self._clock.now_ms
        until_ms, said = now_ms() + patience_ms(address, begun.record, begun.cut_off), ""
        while (left_ms := until_ms - now_ms()) > 0 and self._around.leads():
            try:
                return await self._around.look(address, max(1, left_ms))
            except NotNow as error:
                if str(error) != said:
                    said = str(error)
                    _log.warning("it may have acted for this set: %s", said)
            await asyncio.sleep(min(AGAIN_MS, left_ms) / 1000)
        return None

    async def _places(self, address: str, seen: Standing) -> Tables | None:
        """None where they do not come. It may follow its order meanwhile, and holds back no more
        then.
        """
        around, record = self._around, self._begun.record
        gave_up = record is not None and record.order.leader == address
        for _ in range(TRIES_MAX):
            if (what := wanted(seen, gave_up=gave_up)) is Wanted.NOTHING:
                return Tables()
            held = what is Wanted.PLACES or await around.hold(address)
            if held and (found := await around.places(address)) is not None:
                return found
            await asyncio.sleep(AGAIN_MS / 1000)
            with suppress(NotNow):
                seen = await around.look(address, LOOK_MS)
        return None

    async def _take(self, told: Mapping[str, Tables]) -> bool:
        """False: they are not on the disk."""
        members = [
            MemberTables(key, at, without_epoch(one)) for key, (at, one) in enumerate(told.items())
        ]
        decision = decide(without_epoch(self._around.now()), members)
        for one in decision.verdicts:
            at = members[one.member_id].address
            _log.info("%s of %s: %d taken, %s", one.table, at, one.taken, one.reason)
        try:
            await self._around.take(decision)
        except OSError as error:
            _log.error("what others did cannot be kept: %s", error)
            return False
        return True
