"""Message properties: the text form `key 0x01 value 0x02 ...`, Java string hashes, and tag codes.

Responsible for: PROTOCOL 3.2 (properties string) and 3.5 (tagsCode).
Refuses to know: records, files, who sets which property and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from brokers.store.log.delay_levels import levels_in_force

NAME_VALUE_SEPARATOR = b"\x01"
PROPERTY_SEPARATOR = b"\x02"
PROPERTIES_BYTES_MAX = 32767

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Text form of `properties`, in their order. ValueError when a key or value cannot be
    written. A value may hold 0x01: readers take the first one of an entry, as in Java.
    """
    for key, value in properties.items():
        if not key or not value:
            raise ValueError(f"property {key!r} needs a name and a value")
    text = "".join([f"{key}\x01{value}\x02" for key, value in properties.items()])
    count = len(properties)
    if (text.count("\x01") != count or text.count("\x02") != count) and (
        (name := _with_separator(properties)) is not None
    ):
        raise ValueError(f"property {name!r} contains a separator")
    return text.encode("utf-8", "surrogateescape")


def _with_separator(properties: Mapping[str, str]) -> str | None:
    """The first property that readers would take for another one."""
    return next(
        (
            key
            for key, value in properties.items()
            if "\x01" in key or "\x02" in key or "\x02" in value
        ),
        None,
    )


def decode_properties(data: bytes) -> dict[str, str]:
    """Properties of a text form; entries without name or value are dropped, the last of equal names
    wins (as in Java).
    """
    found: dict[str, str] = {}
    # a byte that is no text is escaped by itself, so the separators are the same before and after
    for entry in data.decode("utf-8", "surrogateescape").split("\x02"):
        name, _, value = entry.partition("\x01")
        if name and value:
            found[name] = value
    return found


def property_value(data: bytes, name: bytes) -> bytes | None:
    """Value of one property without decoding the others (the last of equal names), or None."""
    key = name + NAME_VALUE_SEPARATOR
    end = len(data)
    while True:
        at = data.rfind(key, 0, end)
        if at < 0:
            return None
        if at == 0 or data[at - 1] == 0x02:
            first = at + len(key)
            last = data.find(PROPERTY_SEPARATOR, first)
            value = data[first:] if last < 0 else data[first:last]
            if value:
                return value
        end = at


def java_string_hash(text: str) -> int:
    """`String.hashCode()` of Java: over UTF-16 units, wrapped to a signed 32-bit value."""
    h = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return h - (1 << 32) if h & 0x80000000 else h


@lru_cache(maxsize=4096)
def topic_hash(topic: str) -> int:
    """Java's hash of a topic's name."""
    return java_string_hash(topic)


@lru_cache(maxsize=4096)
def tag_hash(tag: bytes) -> int:
    """Java's hash of a tag's text."""
    return java_string_hash(tag.decode("utf-8", "replace"))


def tags_code(properties: bytes, topic: str, store_ms: int) -> int:
    """The i64 of a consume queue entry (3.5): hash of the tag, 0 without one, deliver time (ms) of
    a delayed message.
    """
    if topic == SCHEDULE_TOPIC:
        level = delay_level(properties)
        if level:
            return store_ms + levels_in_force()[level - 1]
    if b"TAGS\x01" not in properties:
        return 0
    tag = property_value(properties, b"TAGS")
    return 0 if tag is None else tag_hash(tag)


def delay_level(properties: bytes) -> int:
    """Delay level, from 1, asked for by property DELAY; 0 = none. A level above the highest
    counts as the highest.
    """
    text = property_value(properties, b"DELAY")
    if text is None or len(text) > 10:
        return 0
    digits = text.decode("ascii", "replace").strip()
    if not (digits.isascii() and digits.isdigit()):
        return 0
    return min(int(digits), len(levels_in_force()))
