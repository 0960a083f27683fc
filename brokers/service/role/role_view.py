"""What the client service knows of this broker's role: serve, forward, or wait.

Responsible for: the present role and master, whether writes are held for a hand-over, waking those
who wait for a change.
Refuses to know: how a role comes about.
"""

from __future__ import annotations

import asyncio

from brokers.remoting.connection import Handler
from brokers.replica.effects import RoleChanged


class RoleView:
    """`serving`: this broker is the master and its queues are ready. `master_address`: where
    another master serves.

    `draining`: the mastership is being handed over; reads go on, writes wait for its end or for the
    next master. `leaving`: this broker is asked to stop, and takes over from nobody. `acting`: a
    slave that acts for a master that is gone (PROTOCOL 7.2), and follows nobody. `gathering`: the
    set has just changed over, and writes wait for its replicas. `successor`: what takes requests
    that still wait, once this life of the broker is over.
    """

    def __init__(self) -> None:
        self.current = RoleChanged("FENCED", 0, None, None, (), 0)
        self.serving = False
        self.draining = False
        self.leaving = False
        self.acting = False
        self.gathering = False
        self.successor: Handler | None = None
        self._named: str | None = None
        self._waiters: dict[asyncio.Future[None], None] = {}  # who waited first goes on first

    @property
    def role(self) -> str:
        return self.current.role

    @property
    def master_address(self) -> str | None:
        """The address of a master that is not this broker."""
        if self.acting:
            return None
        return self.current.master_address if self.current.role == "SLAVE" else self._named

    def serves(self, *, writes: bool) -> bool:
        """Whether a request may be served here now."""
        return self.serving and not (writes and (self.draining or self.gathering))

    def changed(self, current: RoleChanged) -> None:
        """Take the new role; everyone who waits looks again."""
        self.current = current
        self.serving = current.role == "MASTER"
        self.draining = False
        self._named = None
        self._wake()

    def name_master(self, address: str | None) -> None:
        """Before the first role: who leads now, as the controllers say. The next role ends it."""
        if self._named != address:
            self._named = address
            self._wake()

    def over(self, successor: Handler) -> None:
        """This broker has no role any more: who waits goes to its next life."""
        self.successor = successor
        self.changed(RoleChanged("FENCED", 0, None, None, (), 0, source="its place changed"))

    def act(self, on: bool) -> None:
        """Act for the master, or no more."""
        if self.acting != on:
            self.acting = on
            self._wake()

    def drain(self, on: bool) -> None:
        """Hold writes, or go on with them."""
        if self.draining != on:
            self.draining = on
            self._wake()

    def gather(self, on: bool) -> None:
        """Hold writes, whatever the role, or go on with them."""
        if self.gathering != on:
            self.gathering = on
            self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_change(self, timeout_ms: float) -> None:
        """Until the role changed, at most `timeout_ms`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await asyncio.wait((waiter,), timeout=timeout_ms / 1000)
        finally:
            self._waiters.pop(waiter, None)
