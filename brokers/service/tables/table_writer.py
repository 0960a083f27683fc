"""One table and its file, written beside the event loop.

Responsible for: one write at a time, of the table as it is when the write begins; telling who waits
when it is durable, or that the disk refused. Refuses to know: what the table holds, how a file is
replaced safely (`json_files`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from brokers.store.files.json_files import JsonFile

_log = logging.getLogger("regent.broker.tables")


class TableWriter:
    """`content()` is what the file shall hold now: a document, or its JSON. All but `save_now` need
    a running event loop.

    Who asks while a write is under way is served by the next one, together with all others who ask
    until it begins.
    """

    def __init__(self, file: JsonFile, content: Callable[[], dict[str, object] | bytes]) -> None:
        self._file, self._content = file, content
        self._wanted = self._written = 0
        self._next: asyncio.Future[None] | None = None  # of those whose write has not begun
        self._present: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._refused: str | None = None

    @property
    def unsaved(self) -> bool:
        """A change was announced that is not durable yet."""
        return self._written < self._wanted

    @property
    def is_writing(self) -> bool:
        return self._task is not None

    async def save(self) -> None:
        """The table as it is now is durable when this returns; OSError when the disk refused, then
        it is still `unsaved`.
        """
        await asyncio.shield(self._asked())

    def save_soon(self) -> None:
        """Without waiting. What the disk refuses is said in the log and stays `unsaved`."""
        self._asked()

    async def until_saved(self) -> None:
        """What was asked for so far is durable when this returns; OSError when the disk refused
        it.
        """
        if self.unsaved:
            under_way = self._next or self._present
            await (self.save() if under_way is None else asyncio.shield(under_way))

    def save_now(self) -> None:
        """On this thread, before there is a loop or at its end. OSError."""
        self._wanted += 1
        self._write(self._wanted, self._content())

    async def close(self) -> None:
        """Let writes under way end, and write what is unsaved. OSError."""
        while self._task is not None:
            await asyncio.wait({self._task})
        if self.unsaved:
            self.save_now()

    def _asked(self) -> asyncio.Future[None]:
        self._wanted += 1
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._next.add_done_callback(self._note)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        return self._next

    async def _run(self) -> None:
        try:
            while self._next is not None:
                present, self._present, self._next = self._next, self._next, None
                try:
                    await asyncio.to_thread(self._write, self._wanted, self._content())
                    present.set_result(None)
                except Exception as error:  # theirs who wait; the next write may do
                    present.set_exception(error)
                finally:
                    present.cancel()  # of an end in between; else it is done already
        finally:
            self._present = self._task = None

    def _write(self, number: int, content: dict[str, object] | bytes) -> None:
        self._file.save(content)
        self._written = max(self._written, number)

    def _note(self, write: asyncio.Future[None]) -> None:
        refused = None if write.cancelled() or write.exception() is None else str(write.exception())
        if refused != self._refused and refused is not None:
            _log.error("%s cannot be written yet: %s", self._file.path, refused)
        self._refused = refused
