"""Which texts of a message the index knows, and their hashes.

Responsible for: the indexed text and its hash of broker-wire-and-storage.md 3.6.
Refuses to know: files, queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import mul

from brokers.log.properties import java_string_hash, property_value
from brokers.log.records import SYS_FLAG_ROLLBACK, SYS_FLAG_TRANSACTION_MASK, Record

UNIQUE_KEY = b"UNIQ_KEY"
KEYS = b"KEYS"

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
# The end of a unique key counts up, what stands before it is the client's own: its hash is remembered.
_TAIL = 12
_HEADS_MAX = 20_000
_POWER = tuple(pow(31, n, 1 << 32) for n in range(_TAIL + 1))
_POWERS = tuple(tuple(reversed(_POWER[:n])) for n in range(_TAIL + 1))

# (hash, log offset in bytes, store time in ms)
IndexedKey = tuple[int, int, int]


def keys_of(properties: bytes) -> list[bytes]:
    """Unique key first, then each word of KEYS."""
    unique = property_value(properties, UNIQUE_KEY)
    found = [] if unique is None else [unique]
    words = property_value(properties, KEYS)
    if words is not None:
        found += [word for word in words.split(b" ") if word] if b" " in words else [words]
    return found


class KeyHashes:
    """Hashes of `topic#key`: absolute value of Java's string hash, 0 where that is still negative."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, bytes], int] = {}

    def of(self, topic: str, key: bytes) -> int:
        """Hash of one key (UTF-8)."""
        if not key.isascii():
            return _absolute(java_string_hash(f"{topic}#{key.decode('utf-8', 'replace')}") & _MASK)
        tail = key[-_TAIL:]
        place = topic, key[:-_TAIL]
        head = self._heads.get(place)
        if head is None:
            head = self._remember(place)
        size = len(tail)
        return _absolute((head * _POWER[size] + sum(map(mul, tail, _POWERS[size]))) & _MASK)

    def _remember(self, place: tuple[str, bytes]) -> int:
        if len(self._heads) >= _HEADS_MAX:
            self._heads.clear()
        head = java_string_hash(f"{place[0]}#{place[1].decode('ascii')}") & _MASK
        self._heads[place] = head
        return head

    def of_records(self, records: Iterable[Record]) -> list[IndexedKey]:
        """What the index holds of `records`, in their order. Rollback messages are not indexed."""
        found: list[IndexedKey] = []
        of = self.of
        for physical, _, topic, _, _, _, store_ms, flags, properties in records:
            if flags & SYS_FLAG_TRANSACTION_MASK == SYS_FLAG_ROLLBACK:
                continue
            for key in keys_of(properties):
                found.append((of(topic, key), physical, store_ms))
        return found


def _absolute(value: int) -> int:
    if value < _SIGN:
        return value
    return (_MASK + 1 - value) & 0x7FFFFFFF  # 0 for the one number whose absolute value does not fit
