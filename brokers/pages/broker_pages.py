"""The HTTP port of a broker: `/metrics`, `/healthz`, `/readyz`.

Responsible for: these pages, and that no client of the broker waits for one. Refuses to know:
sockets (`events.http_front`), what the figures mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from brokers.pages.figures import Figures
from brokers.remoting.addresses import split_address
from brokers.service.admin import BrokerStatus

if TYPE_CHECKING:
    from events.http_front import HttpAnswer, HttpFront


class BrokerPages:
    """`figures()`: see there. `who`: labels of RocketMQ's series. Nothing is listened on, and
    nothing of HTTP loaded, where `listen` is empty.
    """

    def __init__(
        self,
        listen: str,
        who: Mapping[str, str],
        status: Callable[[], BrokerStatus],
        figures: Callable[[], Iterator[Figures | None]],
    ) -> None:
        self._listen, self._who = listen, who
        self._status, self._figures = status, figures
        self._front: HttpFront | None = None

    @property
    def port(self) -> int | None:
        """The port that is listened on; None when HTTP is off."""
        return None if self._front is None else self._front.port

    async def start(self) -> None:
        """Listen, if HTTP is on. Raises OSError."""
        if not self._listen:
            return
        from events.http_front import HttpFront

        routes = {"/metrics": self._metrics, "/healthz": self._health, "/readyz": self._readiness}
        self._front = HttpFront(*split_address(self._listen), routes)
        await self._front.start()

    async def close(self) -> None:
        if self._front is not None:
            await self._front.close()

    async def _metrics(self, _query: Mapping[str, str]) -> HttpAnswer:
        from brokers.pages.series import CONTENT_TYPE, render
        from events.http_front import HttpAnswer

        seen: Figures | None = None
        for step in self._figures():
            seen = step
            await asyncio.sleep(0)
        assert seen is not None
        page = await asyncio.to_thread(render, seen, self._who)
        return HttpAnswer(200, CONTENT_TYPE, page)

    async def _health(self, _query: Mapping[str, str]) -> HttpAnswer:
        """That this is answered is the point: the loop turns."""
        from events.http_front import text

        return text(200, "ok")

    async def _readiness(self, _query: Mapping[str, str]) -> HttpAnswer:
        from events.http_front import text

        status = self._status()
        if status.leaves_in_ms is not None:
            return text(503, "it is asked to stop, and passes on what clients still send")
        if not status.ready:
            return text(503, "no controller has given it a role yet")
        if status.store_refusal is not None:
            return text(503, f"its store takes no messages: {status.store_refusal}")
        return text(200, f"ready, {status.role}")
