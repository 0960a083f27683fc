"""A slave's special services as they are switched (PROTOCOL 7.2, 7.3).

Responsible for: that they stop at once, and are over when what is under way to other sets has been
waited for. Refuses to know: when they are switched, what they are.
"""

from __future__ import annotations

import asyncio

from brokers.service.client_service import ClientService


class SpecialServices:
    """On the loop. Those of a master run by its role."""

    def __init__(self, service: ClientService) -> None:
        self._service = service
        self._ending: asyncio.Task[None] | None = None
        self._on = self._stops = False

    def switch(self, on: bool) -> None:
        """Nothing new is put when this returns with `on` False."""
        if on and not self._stops:
            if self._ending is not None:  # wanted again: from the places that are told by now
                self._ending.cancel()
                self._over()
            self._on = True
            self._service.acting_begins()
        elif not on and self._on and self._ending is None:
            self._service.acting_stops()
            self._ending = asyncio.ensure_future(self._end())

    async def _end(self) -> None:
        await self._service.acting_held()
        self._over()

    def _over(self) -> None:
        self._ending, self._on = None, False
        self._service.acting_over()

    async def over(self, timeout_ms: int) -> bool:
        """Whether what was switched off is over, within this time."""
        if self._ending is None:
            return True
        await asyncio.wait((self._ending,), timeout=timeout_ms / 1000)
        return self._ending is None

    async def end(self) -> None:
        """The broker stops: in order, as when somebody else acts."""
        self._stops = True
        self.switch(False)
        if self._ending is not None:
            await asyncio.wait((self._ending,))
