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
from typing import TYPE_CHECKING, Any, TypeVar

from tests.simulation.network import Node, wake
from tests.simulation.world import Timer, World

if TYPE_CHECKING:
    Base = asyncio.AbstractEventLoop
else:
    Base = object

JOB_MS = (1, 15)
Made = TypeVar("Made")


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

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> Timer:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """A job beside the loop is done a moment later, whole, or never: its process ends."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        wake(self._world, self._node, self._world.between(*JOB_MS), run)
        return future

    def within(self, call: Callable[[], Made]) -> Made:
        """What is made here belongs to this loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            return call()
        finally:
            asyncio._set_running_loop(before)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **_named: object) -> asyncio.Task[Any]:  # type: ignore[override]
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
            self.within(coro.close)
        self._coroutines.clear()

    def _run(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self.within(lambda: callback(*args) if context is None else context.run(callback, *args))
