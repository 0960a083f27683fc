"""Where messages go that a service puts by itself: into the own log, or to another set
(PROTOCOL 4.14, 7.4).

Responsible for: what such a service needs of either way, so that its places mean the same on both.
Refuses to know: which way is taken, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from brokers.store.appender import PutResult
from brokers.store.log.records import MessageFields, RecordError


class Outlet(Protocol):
    """What was put has an end offset, and is safe from some moment on."""

    @property
    def safe_offset(self) -> int:
        """What ends at or below it needs nobody any more: a successor may go on behind it."""

    @property
    def is_full(self) -> bool:
        """Nothing is taken now; it is tried again later."""

    def append(self, messages: Sequence[MessageFields]) -> list[PutResult | RecordError]:
        """All of these, one behind the other; a message that cannot be put gets its RecordError.
        NotPut: none of them is.
        """
