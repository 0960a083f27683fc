"""JSON bodies as Java writes them, and as every peer reads them.

Responsible for: reading fastjson's dialect (unquoted integer keys, objects as keys;
PROTOCOL 4.0) and writing compact standard JSON.
Refuses to know: which body has which fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

# Everything is read on the loop that also heartbeats and elects; only whole tables are larger.
BODY_BYTES_MAX = 1_048_576
TABLE_BYTES_MAX = 16_777_216
# Objects as keys need the slow parser (about 0.5 MB/s); only small bodies of admin tools have them.
OBJECT_KEYS_BYTES_MAX = 65_536
DEPTH_MAX = 64


class JsonRejected(ValueError):
    """The text is not JSON of either dialect, or it is larger or deeper than allowed."""


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON number")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
_encode = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False).encode
# A text literal, or what begins as one and never ends. It always matches and nothing in it is tried
# twice: a text without its end is passed over once, and is not searched again from each of its
# escaped quotes.
_STRING = re.compile(r'("[^"\\]*+(?:\\.?+[^"\\]*+)*+"?)', re.DOTALL)
_WHOLE_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SPACE = " \t\n\r"
_INTEGER_KEY = re.compile(r"([{,][ \t\n\r]*+)(-?+(?:0|[1-9][0-9]*+))([ \t\n\r]*+:)")
# Where the standard reader stops at one of these, a key may stand that only Java writes.
_KEYS_OF_JAVA = "-0123456789{["
# Stands for a text literal while the rest is searched; outside of literals no JSON has it.
_HOLE = "\0"
_TOKEN = re.compile(
    r'[ \t\n\r]*+(?:([{}\[\]:,])|("[^"\\]*+(?:\\.[^"\\]*+)*+"|[^ \t\n\r{}\[\]:,"]++))', re.DOTALL
)


def loads(data: bytes | bytearray | memoryview | str, bytes_max: int = BODY_BYTES_MAX) -> object:
    """The value. An object used as a key becomes its canonical JSON text, an unquoted key its text.

    Raises JsonRejected, also for more than `bytes_max`. Of equal keys the last one wins, as in
    Java.
    """
    if len(data) > bytes_max:
        raise JsonRejected(f"a body of {len(data)} bytes, allowed are {bytes_max}")
    try:
        text = data if isinstance(data, str) else str(data, "utf-8")
        try:
            return _decode(text)
        except json.JSONDecodeError as error:
            if not _may_be_java(error):
                raise
            return _loads_dialect(text)
    except RecursionError:
        raise JsonRejected("nested too deeply") from None
    except JsonRejected:
        raise
    except ValueError as error:
        raise JsonRejected(f"no JSON: {error}") from None


def _may_be_java(error: json.JSONDecodeError) -> bool:
    return error.doc[error.pos : error.pos + 1] in tuple(_KEYS_OF_JAVA)


def _loads_dialect(text: str) -> object:
    quoted = _with_quoted_integer_keys(text)
    try:
        return _decode(quoted)
    except json.JSONDecodeError as error:
        if len(text) > OBJECT_KEYS_BYTES_MAX or not _may_be_java(error):
            raise
        return _Parser(text).parse()


def _with_quoted_integer_keys(text: str) -> str:
    parts = _STRING.split(text)
    if len(parts) > 1 and _WHOLE_STRING.fullmatch(parts[-2]) is None:
        # What never ends swallows all that follows, so it can only be the last.
        raise JsonRejected("a text without its end")
    outside = _HOLE.join(parts[::2])
    if outside.count(_HOLE) != len(parts) // 2:
        raise JsonRejected("a zero character outside of a text")
    parts[::2] = _INTEGER_KEY.sub(r'\1"\2"\3', outside).split(_HOLE)
    return "".join(parts)


def dumps(value: object) -> bytes:
    """Compact ASCII JSON, keys sorted, None left out of objects; integer keys quoted, which all
    peers accept.
    """
    return _encode(_without_none(value)).encode("ascii")


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(item) for item in value]
    return value


class _Parser:
    """Recursive descent over tokens; only used for texts that the standard parser refuses."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._in_key = False
        self._token = next(self._tokens)

    def parse(self) -> object:
        value = self._value(1)
        if self._token:
            raise JsonRejected("text after the end of the value")
        return value

    def _advance(self) -> str:
        token, self._token = self._token, next(self._tokens)
        return token

    def _expect(self, token: str) -> None:
        if self._advance() != token:
            raise JsonRejected(f"{token!r} is missing")

    def _value(self, depth: int) -> object:
        if depth > DEPTH_MAX:
            raise JsonRejected("nested too deeply")
        token = self._advance()
        if token == "{":
            return self._object(depth)
        if token == "[":
            return self._array(depth)
        if not token or token in "}]:,":
            raise JsonRejected(f"a value is missing before {token!r}")
        return _decode(token)

    def _object(self, depth: int) -> dict[str, object]:
        members: dict[str, object] = {}
        while self._token != "}":
            if members:
                self._expect(",")
            key = self._key(depth + 1)
            self._expect(":")
            members[key] = self._value(depth + 1)
        self._advance()
        return members

    def _key(self, depth: int) -> str:
        if self._token not in ("{", "["):
            return _key_text(self._value(depth))
        if self._in_key:
            # The text of a key quotes its own keys: each level of them would double its length.
            raise JsonRejected("an object as key inside of a key")
        self._in_key = True
        key = _encode(self._value(depth))
        self._in_key = False
        return key

    def _array(self, depth: int) -> list[object]:
        items: list[object] = []
        while self._token != "]":
            if items:
                self._expect(",")
            items.append(self._value(depth + 1))
        self._advance()
        return items


def _key_text(key: object) -> str:
    if type(key) is str:
        return key
    if type(key) is int:
        return str(key)
    raise JsonRejected(f"{key!r} cannot be a key")


def _tokens(text: str) -> Iterator[str]:
    position, end = 0, len(text.rstrip(_SPACE))
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise JsonRejected(f"no JSON at character {position}")
        position = match.end()
        yield match.group(1) or match.group(2)
    while True:
        yield ""
