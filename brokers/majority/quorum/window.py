"""Pushes of one peer that were sent and not answered.

Responsible for: the limits in entries and bytes, and which is the oldest. Refuses to know: what a
push holds, and when it is sent again.
"""

from __future__ import annotations

from msgspec import Struct


class Sent(Struct, eq=False):
    """One push: entries from `first` to `last`."""

    first: int
    last: int
    size: int
    sent_ms: int


class Window:
    """By the first index of each, for keeping, finding and removing alike; in the order in which
    they were sent, which is that of their indexes.
    """

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self.entries = 0
        self.bytes = 0
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._sent: dict[int, Sent] = {}

    def __bool__(self) -> bool:
        return bool(self._sent)

    def __contains__(self, sent: Sent) -> bool:
        return self._sent.get(sent.first) is sent

    @property
    def room(self) -> tuple[int, int]:
        """Entries and bytes that may still go; a push of one entry may be larger than the bytes."""
        return self._entries_max - self.entries, self._bytes_max - self.bytes

    def add(self, sent: Sent) -> None:
        self._sent[sent.first] = sent
        self.entries += sent.last - sent.first + 1
        self.bytes += sent.size

    def remove(self, sent: Sent) -> None:
        if self._sent.get(sent.first) is sent:
            del self._sent[sent.first]
            self.entries -= sent.last - sent.first + 1
            self.bytes -= sent.size

    def held(self, index: int) -> None:
        """The peer has everything up to here."""
        while (oldest := self._oldest()) is not None and oldest.last <= index:
            self.remove(oldest)

    def clear(self) -> None:
        self._sent.clear()
        self.entries = self.bytes = 0

    def oldest_ms(self) -> int | None:
        """When the one was sent that has waited longest."""
        oldest = self._oldest()
        return None if oldest is None else oldest.sent_ms

    def _oldest(self) -> Sent | None:
        return next(iter(self._sent.values()), None)
