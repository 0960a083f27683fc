"""Fields of JSON bodies as Java's fastjson writes and reads them: numbers, names, entries.

Responsible for: what a field may hold, and how large (PROTOCOL 10.2). Refuses to know: which body
has which fields.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Mapping

from brokers.majority.entry import BODY_BYTES_MAX, HEAD_BYTES, NONE, Entry, body_fits

INDEX_MAX = (1 << 63) - 1
NAME_CHARS_MAX = 255
# The largest body in Base64, with room for the padding.
_BASE64_CHARS_MAX = (BODY_BYTES_MAX + 2) // 3 * 4
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1

Fields = Mapping[str, object]


class MessageRejected(ValueError):
    """The body is none of these messages, or is larger than allowed."""


def number(fields: Fields, name: str, default: int, low: int = NONE, high: int = INDEX_MAX) -> int:
    """A whole number within bounds; `default` where Java left the field out."""
    value = fields.get(name)
    if value is None:
        return default
    if type(value) is not int or not low <= value <= high:
        raise MessageRejected(f"{name} is no number from {low} to {high}")
    return value


def optional_number(fields: Fields, name: str) -> int | None:
    """A number that only ours write."""
    return None if fields.get(name) is None else number(fields, name, NONE)


def name_of(fields: Fields, name: str) -> str | None:
    """A name of a group or member; None where Java left the field out."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > NAME_CHARS_MAX:
        raise MessageRejected(f"{name} is no name of up to {NAME_CHARS_MAX} characters")
    return value


def object_of(value: object) -> Fields:
    """A JSON object."""
    if not isinstance(value, Mapping):
        raise MessageRejected("an object is missing")
    return value


def bytes_of(fields: Fields, name: str) -> bytes:
    """Bytes in Base64; none where Java left the field out."""
    value = fields.get(name)
    if value is None:
        return b""
    if not isinstance(value, str) or len(value) > _BASE64_CHARS_MAX:
        raise MessageRejected(f"{name} holds no bytes, or more than {BODY_BYTES_MAX}")
    try:
        body = b64decode(value, validate=True)
    except (NoBase64, ValueError):
        raise MessageRejected(f"{name} is no Base64") from None
    if len(body) > BODY_BYTES_MAX:
        raise MessageRejected(f"{name} holds more than {BODY_BYTES_MAX} bytes")
    return body


def base64_of(body: bytes) -> str:
    """As fastjson writes `byte[]`."""
    return b64encode(body).decode("ascii")


def entry_fields(entry: Entry) -> dict[str, object]:
    """An entry as an object of JSON."""
    return {
        "body": base64_of(entry.body),
        "bodyCrc": entry.body_crc,
        "chainCrc": entry.chain_crc,
        "channel": entry.channel,
        "index": entry.index,
        "magic": entry.magic,
        "pos": entry.position,
        "size": entry.size,
        "term": entry.term,
    }


def entry_of(value: object) -> Entry:
    """An entry that is whole: size and checksum fit its body."""
    fields = object_of(value)
    body = bytes_of(fields, "body")
    entry = Entry(
        index=number(fields, "index", NONE, 0),
        term=number(fields, "term", NONE, 0),
        position=number(fields, "pos", 0, 0),
        body=body,
        magic=number(fields, "magic", 0, _INT_MIN, _INT_MAX),
        channel=number(fields, "channel", 0, _INT_MIN, _INT_MAX),
        chain_crc=number(fields, "chainCrc", 0, 0, _INT_MAX),
        body_crc=number(fields, "bodyCrc", 0, 0, _INT_MAX),
    )
    if entry.index < 0 or entry.term < 0:
        raise MessageRejected("an entry without index or term")
    if number(fields, "size", 0, 0, _INT_MAX) != HEAD_BYTES + len(body):
        raise MessageRejected(f"the size of entry {entry.index} does not fit its body")
    if not body_fits(entry):
        raise MessageRejected(f"the checksum of entry {entry.index} does not fit its body")
    return entry
