"""How long a slave bears that its master says nothing.

A way that was cut and heals carries nothing for a while: TCP repeats what was lost ever more
seldom, so after five seconds without a way it may be silent for six more. A new connection is there
at once. Three heartbeats without a word are reason enough to make one; a master that merely beats
more slowly than expected must not be left again and again for it.

Responsible for: that limit. Refuses to know: links, connections, clocks.
"""

from __future__ import annotations

SILENT_HEARTBEATS = 3
LEAST_MS = 1_000
"""However fast the heart beats: a busy machine may need as long to run the master again."""


class Patience:
    """Told of what became of links and attempts."""

    def __init__(self, heartbeat_ms: int, longest_ms: int) -> None:
        """`heartbeat_ms`: how often this master speaks at least, as far as anybody knows;
        `longest_ms` is borne in no case.
        """
        self._longest_ms = longest_ms
        self._limit_ms = min(longest_ms, max(LEAST_MS, SILENT_HEARTBEATS * heartbeat_ms))
        self._left_silent = False

    @property
    def limit_ms(self) -> int:
        """The silence that ends a link made now. At the first attempt after a silence it is twice
        as long: a master that answers there was there all the while, its heart is slow.
        """
        return min(self._longest_ms, 2 * self._limit_ms) if self._left_silent else self._limit_ms

    def left_silent(self) -> None:
        """A link was given up for silence."""
        self._left_silent = True

    def unreachable(self) -> None:
        """An attempt failed, or nobody answered: the silence was a real one."""
        self._left_silent = False

    def answered(self) -> None:
        """The master agreed on a link: what is borne there stays."""
        self._limit_ms, self._left_silent = self.limit_ms, False
