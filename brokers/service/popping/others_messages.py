"""Messages of other sets whose check points came here, for their master was away (PROTOCOL 7.4).

Responsible for: fetching them, a bounded number at a time, before their check point is decided.
Refuses to know: when one is due, what becomes of its messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from brokers.acting.outcomes import Got
from brokers.service.popping.matching import OpenPoint
from brokers.store.log.records import StoredMessage

# Check points whose messages are under way; then others wait.
FETCHED_MAX = 64

Get = Callable[[str, int, int, str], Awaitable[StoredMessage | Got]]
"""(topic, queue, offset, name of the set)."""


class OthersMessages:
    """`get` None: there is no way to other sets."""

    def __init__(self, get: Get | None) -> None:
        self._get = get
        self._under_way: dict[OpenPoint, asyncio.Task[None]] = {}
        self._found: dict[OpenPoint, dict[int, StoredMessage | Got]] = {}

    @property
    def possible(self) -> bool:
        return self._get is not None

    @property
    def full(self) -> bool:
        return len(self._under_way) + len(self._found) >= FETCHED_MAX

    def came(self, known: OpenPoint) -> bool:
        """Whether all answers for a check point are here."""
        return known in self._found

    def begin(self, known: OpenPoint, then: Callable[[], None]) -> None:
        """Fetch what is left of it; `then()` when all answers are here."""

        async def fetch() -> None:
            assert self._get is not None
            key = known.point.key
            found: dict[int, StoredMessage | Got] = {}
            for offset in known.left:
                found[offset] = await self._get(key.topic, key.queue_id, offset, key.broker_name)
            self._found[known] = found

        def over(task: asyncio.Task[None]) -> None:
            if self._under_way.pop(known, None) is task and not task.cancelled():
                if (error := task.exception()) is not None:
                    self._found[known] = dict.fromkeys(known.left, Got.RETRY)
                    asyncio.get_running_loop().call_exception_handler(
                        {"message": "fetching a popped message failed", "exception": error}
                    )
                then()

        task = self._under_way[known] = asyncio.ensure_future(fetch())
        task.add_done_callback(over)

    def message(self, known: OpenPoint, offset: int) -> StoredMessage | Got:
        """What came of it."""
        return self._found[known].get(offset, Got.RETRY)

    def done(self, known: OpenPoint) -> None:
        """The check point is decided."""
        self._found.pop(known, None)

    def forget(self) -> None:
        """Another role begins."""
        under_way, self._under_way = self._under_way, {}
        for task in under_way.values():
            task.cancel()
        self._found.clear()
