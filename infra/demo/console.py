"""What the demo says while it runs: lines for steps, and one live line that is rewritten on a
terminal.

Refuses to know what the figures mean.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

SPARSE_S = 5.0
REFRESH_S = 0.25


class Console:
    """Steps and the live line. With `--json` all of it goes to stderr, so that stdout is the
    document alone.
    """

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._tty = out.isatty()
        self._shown = 0
        self._last = 0.0
        self.live: Callable[[], str] | None = None

    def say(self, text: str = "") -> None:
        """A line that stays."""
        self._clear()
        print(text, file=self._out, flush=True)

    def tick(self) -> None:
        """Refresh the live line when it is time: often on a terminal, seldom in a file."""
        now = time.monotonic()
        if self.live is None or now - self._last < (REFRESH_S if self._tty else SPARSE_S):
            return
        self._last = now
        text = self.live()
        if not self._tty:
            print(f"    {text}", file=self._out, flush=True)
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        self._out.write("\r" + text.ljust(self._shown))
        self._out.flush()
        self._shown = len(text)

    def _clear(self) -> None:
        if self._shown:
            self._out.write("\r" + " " * self._shown + "\r")
            self._shown = 0
