"""Which texts of a message the index knows, and their hashes.

Responsible for: the indexed text and its hash of PROTOCOL 3.6, at a price that
every message can pay.
Refuses to know: files, queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from brokers.store.log.properties import java_string_hash
from brokers.store.log.records import SYS_FLAG_ROLLBACK, Record

_NAMED = re.compile(rb"(?<![^\x02])(?:UNIQ_KEY\x01([^\x02]+)|KEYS\x01([^\x02]+))").findall

_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
# Java's string hash is the text read as a number in base 31, but for digits above 30: each is 31
# times one plus another.
_BASE = 31
_DIGITS = b"0123456789abcdefghijklmnopqrstu"
_HIGH = bytes(_DIGITS[number // _BASE] for number in range(256))
_LOW = bytes(_DIGITS[number % _BASE] for number in range(256))
_NUMBER_MAX = 255
_POWERS = tuple(pow(_BASE, size, 1 << 32) for size in range(_NUMBER_MAX + 1))

# Characters from "0" to "N" are one digit each, less 48; int() refuses all others.
_UPPER = bytes(_DIGITS[number - 48] if 48 <= number <= 78 else 126 for number in range(256))
_UPPER_REST = 48 * sum(_POWERS[:32])

# (hash, log offset in bytes, store time in ms)
IndexedKey = tuple[int, int, int]


def keys_of(properties: bytes) -> list[bytes]:
    """Unique key first, then each word of KEYS; the last of equal names counts."""
    unique = words = b""
    for one, other in _NAMED(properties):
        unique, words = one or unique, other or words
    found = [word for word in words.split(b" ") if word]
    return [unique, *found] if unique else found


@lru_cache(maxsize=4096)
def _topic_hash(topic: str) -> int:
    return java_string_hash(f"{topic}#") & _MASK


def key_hash(topic: str, key: bytes) -> int:
    """Of `topic#key`, `key` in UTF-8: the absolute value of Java's string hash, 0 where that is
    still negative.
    """
    size = len(key)
    if size <= _NUMBER_MAX and key.isascii():
        value = _topic_hash(topic) * _POWERS[size]
        if size:
            value += _BASE * int(key.translate(_HIGH), _BASE) + int(key.translate(_LOW), _BASE)
        value &= _MASK
    else:
        value = java_string_hash(f"{topic}#{key.decode('utf-8', 'replace')}") & _MASK
    return value if value < _SIGN else (_MASK + 1 - value) & 0x7FFFFFFF


def keys_of_records(records: Iterable[Record]) -> list[IndexedKey]:
    """What the index holds of `records`, in their order. Rollback messages are not indexed.

    Every message of a broker passes here: a unique key of 32 upper-case hex digits and one short
    word are quick.
    """
    found: list[IndexedKey] = []
    add, of, named, upper, high, low, powers = (
        found.append,
        key_hash,
        _NAMED,
        _UPPER,
        _HIGH,
        _LOW,
        _POWERS,
    )
    last_topic, topic_hash, unique_base = "", 0, 0
    for physical, _, topic, _, _, _, store_ms, flags, properties in records:
        if not properties or flags & 0xC == SYS_FLAG_ROLLBACK:
            continue
        if topic != last_topic:
            last_topic, topic_hash = topic, _topic_hash(topic)
            unique_base = topic_hash * powers[32] + _UPPER_REST
        unique = words = b""
        for one, other in named(properties):
            if one:
                unique = one
            else:
                words = other
        if unique:
            try:
                if len(unique) != 32:
                    raise ValueError
                value = (unique_base + int(unique.translate(upper), 31)) & 0xFFFFFFFF
                add(
                    (
                        value if value < 0x80000000 else (0x100000000 - value) & 0x7FFFFFFF,
                        physical,
                        store_ms,
                    )
                )
            except ValueError:
                add((of(topic, unique), physical, store_ms))
        if words:
            if len(words) < 64 and b" " not in words and words.isascii():
                value = 31 * int(words.translate(high), 31) + int(words.translate(low), 31)
                value = (value + topic_hash * powers[len(words)]) & 0xFFFFFFFF
                add(
                    (
                        value if value < 0x80000000 else (0x100000000 - value) & 0x7FFFFFFF,
                        physical,
                        store_ms,
                    )
                )
            else:
                found += [
                    (of(topic, word), physical, store_ms) for word in words.split(b" ") if word
                ]
    return found
