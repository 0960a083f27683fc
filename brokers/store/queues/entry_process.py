"""A process beside the broker that makes queue entries: the broker's side.

Responsible for: its start and its end, one question at a time; that it is never waited for without
end.
Refuses to know: when entries are wanted, where they go, what they hold.

With a thread instead, receiving and making entries would take turns at one interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers.store.log.delay_levels import levels_in_force
from brokers.store.log.message_log import FileRange
from brokers.store.queues.entry_worker import LENGTH, QUESTION

if TYPE_CHECKING:
    from brokers.store.queues.entry_runs import EntryRuns

COMMAND = (sys.executable, "-m", "brokers.store.queues.entry_worker")
# Ten times what an answer takes on a slow machine; after it the caller does the work itself.
ANSWER_WITHIN_S = 0.25
RECEIVE_BYTES = 1 << 18
# A killed process is gone at once, unless a disk holds it.
END_WAIT_S = 1.0

_log = logging.getLogger("regent.store.queues")


class EntryProcess:
    """Made with a running event loop. `told` hears from the loop of each answer that nobody waited
    for: None when there is none, because the process is gone or could not read.
    """

    def __init__(self, told: Callable[[EntryRuns | None], None]) -> None:
        """Starts it. OSError when no process can be started."""
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._data = bytearray()
        self._ready = self._asked = False
        self._link, theirs = socket.socketpair()
        try:
            # Nothing is multiplied there.
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
            command = (*COMMAND, *map(str, levels_in_force()))
            self._child = subprocess.Popen(command, stdin=theirs.fileno(), env=environment)
        except BaseException:
            self._link.close()
            raise
        finally:
            theirs.close()
        self._link.setblocking(False)
        self._loop.add_reader(self._link.fileno(), self._on_readable)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """False once it was seen to be gone."""
        return self._link.fileno() >= 0

    @property
    def is_free(self) -> bool:
        """Whether it has loaded and may be asked."""
        return self._ready and not self._asked and self.is_alive

    def ask(self, place: FileRange, start: int) -> bool:
        """Entries of these bytes of the log, which begin at `start`; False when the process is
        gone.
        """
        try:
            socket.send_fds(
                self._link, [QUESTION.pack(start, place.position, place.count)], [place.fileno]
            )
        except OSError as error:
            self._lost(str(error))
            return False
        self._asked = True
        return True

    def wait(self, within_s: float = ANSWER_WITHIN_S) -> EntryRuns | None:
        """The answer to what was asked; None as with `told`, and when it takes too long, which ends
        the process.
        """
        deadline = self._loop.time() + within_s
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        while (left_s := deadline - self._loop.time()) > 0:
            if poll.poll(left_s * 1000) and self._receive():
                return self._answer()
            if not self.is_alive:
                return None
        self._lost(f"no answer within {within_s:g} s")
        return None

    def _on_readable(self) -> None:
        asked = self._asked
        if self._receive() or (asked and not self.is_alive):
            self._told(self._answer())

    def _receive(self) -> bool:
        """Whether an answer is complete now."""
        try:
            data = self._link.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            self._lost(str(error))
            return False
        if not data:
            self._lost("it ended")
            return False
        self._data += data
        if not self._ready and len(self._data) >= LENGTH.size:
            self._ready = True
            del self._data[: LENGTH.size]
        return (
            len(self._data) >= LENGTH.size
            and len(self._data) - LENGTH.size >= LENGTH.unpack_from(self._data)[0]
        )

    def _answer(self) -> EntryRuns | None:
        data, self._data, self._asked = self._data, bytearray(), False
        return pickle.loads(memoryview(data)[LENGTH.size :]) if data and self.is_alive else None

    def _lost(self, reason: str) -> None:
        if self._asked:
            _log.warning("the process that makes queue entries is given up: %s", reason)
        self._asked = False
        self.close()

    def close(self) -> None:
        """Ends it."""
        if self.is_alive:
            self._loop.remove_reader(self._link.fileno())
            self._link.close()
            self._child.kill()  # it holds nothing that could be lost
            # it hangs in a read of a dead disk: the system ends it
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(END_WAIT_S)
