"""One source of messages that leave a set without a master (PROTOCOL 7.4).

Responsible for: the form in which each leaves, its number, up to which number everything is taken
by others. Refuses to know: sockets, routes, what is tried again when (`brokers.acting.escape`).

The numbers stand where a log has offsets: a service that tells how far it is tells it behind
acknowledged puts, and need not know that these went elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from brokers.acting.escape import Escape
from brokers.acting.forms import Kind, Stays, copy_leaving
from brokers.replica.put_rules import PutStatus, code_of
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.outlet import Outlet
from brokers.store.appender import PutResult
from brokers.store.log.records import MessageFields, RecordError

FIRST_NUMBER = 1 << 62
"""Behind every offset of a log: what only needs the own log to have something needs no put."""

Ways = Callable[[str, Kind], Outlet]
"""The way out of a source, made anew for each acting."""


class Away:
    """The outlet of one source. What finds no room at once waits here: one call's messages, and
    nothing more is taken while they do.
    """

    def __init__(self, escape: Escape, source: str, kind: Kind) -> None:
        self._escape = escape
        self._source = source
        self._kind = kind
        self._next = FIRST_NUMBER
        self._waiting: deque[tuple[int, MessageFields]] = deque()

    @property
    def safe_offset(self) -> int:
        """Everything in front of this number is taken by others."""
        first = self._waiting[0][0] if self._waiting else self._next
        return self._escape.safe(self._source, first)

    @property
    def is_full(self) -> bool:
        return bool(self._waiting) or self._escape.holds

    def append(self, messages: Sequence[MessageFields]) -> list[PutResult | RecordError]:
        """NotPut: others still wait for room. A message that has no form in which it leaves gets
        its RecordError.
        """
        if self.is_full:
            raise NotPut(*code_of(PutStatus.SERVICE_NOT_AVAILABLE, "other sets have no room yet"))
        results: list[PutResult | RecordError] = []
        for message in messages:
            try:
                form = copy_leaving(self._kind, message)
            except Stays as why:
                results.append(RecordError(str(why)))
                continue
            self._waiting.append((self._next, form))
            self._next += 1
            results.append(PutResult(self._next - 1, self._next, -1, ""))
        self.feed()
        return results

    def feed(self) -> None:
        """What waits goes on its way, as far as there is room."""
        while self._waiting:
            number, message = self._waiting[0]
            if not self._escape.offer(self._source, number, self._kind, message):
                return
            self._waiting.popleft()

    def forget(self) -> None:
        """Somebody else acts from here on."""
        self._waiting.clear()
