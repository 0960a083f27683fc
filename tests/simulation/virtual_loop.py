"""asyncio on virtual time: what the product wrote as coroutines runs inside a simulated process,
one world event a turn.

Responsible for: callbacks, timers, tasks and the clock of one life of a node; nothing runs once
that life is over.
Refuses to know: sockets, threads, what a coroutine does.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.simulation.network import Node, wake
from tests.simulation.world import Timer, World

if TYPE_CHECKING:
    Base = asyncio.AbstractEventLoop
else:
    Base = object


class VirtualLoop(Base):
    """As much of an event loop as futures, tasks and `asyncio.wait` ask for."""

    def __init__(self, world: World, node: Node) -> None:
        self._world, self._node = world, node
        # those of a dead life are never collected in between
        self._coroutines: list[Coroutine[Any, Any, Any]] = []
        world.at_end(self._let_go)

    def time(self) -> float:
        return self._world.now_ms / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Whatever nobody waited for: a dead life ends in the middle of things."""

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Timer:  # type: ignore[override]
        return wake(self._world, self._node, 0, lambda: self._run(callback, args, context))

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Timer:  # type: ignore[override]
        # Never at once: a deadline a rounding away would be waited for again and again.
        delay_ms = max(1, math.ceil(delay * 1000 - 1e-6))
        return wake(self._world, self._node, delay_ms, lambda: self._run(callback, args, context))

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:  # type: ignore[override]
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self)
        self._coroutines.append(coro)
        return task

    async def sleep(self, delay_ms: int) -> None:
        future = self.create_future()
        self.call_later(delay_ms / 1000, future.set_result, None)
        await future

    def _let_go(self) -> None:
        """A world ends in the middle of things: what did not begin yet, and what waits, never goes
        on.
        """
        for coro in self._coroutines:
            coro.close()
        self._coroutines.clear()

    def _run(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            if context is None:
                callback(*args)
            else:
                context.run(callback, *args)
        finally:
            asyncio._set_running_loop(before)
