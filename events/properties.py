"""Java's properties text, as RocketMQ's configuration files and the bodies of 1009 and 1010 hold
it.

Responsible for: comments, escapes, continued lines, and the limits of a text from outside.
Refuses to know: which keys there are, and what they mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PROPERTIES_BYTES_MAX = 1_048_576
KEYS_MAX = 4_096

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS = 4


class PropertiesRejected(ValueError):
    """The text is no properties text, or it is larger than allowed; the message is one line."""


def parse(data: bytes | str) -> dict[str, str]:
    """The keys and values, in the order of the text; of a repeated key the last value counts, as
    in Java.

    Bytes are read as UTF-8 (Java writes everything else as \\uXXXX, which is read too), a byte
    order mark before them is passed over.
    """
    if len(data) > PROPERTIES_BYTES_MAX:
        raise PropertiesRejected(
            f"{len(data)} bytes of properties, allowed are {PROPERTIES_BYTES_MAX}"
        )
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise PropertiesRejected(f"byte {error.start} is not UTF-8") from None
    found: dict[str, str] = {}
    for number, line in _logical_lines(data):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        found[_unescaped(line[:end], number)] = _unescaped(rest, number)
        if len(found) > KEYS_MAX:
            raise PropertiesRejected(f"more than {KEYS_MAX} keys")
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of the first line, text), comments and blank lines left out, continued lines
    joined.
    """
    joined, first = "", 0
    going_on = False
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if not going_on:
            if not line or line[0] in "#!":
                continue
            joined, first = "", number
        going_on = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined += line[:-1] if going_on else line
        if not going_on:
            yield first, joined
    if going_on:
        yield first, joined


def _end_of_key(line: str) -> int:
    escaped = False
    for place, letter in enumerate(line):
        if not escaped and (letter in "=:" or letter in _BLANKS):
            return place
        escaped = letter == "\\" and not escaped
    return len(line)


def _unescaped(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    letters: list[str] = []
    place = 0
    while place < len(text):
        letter = text[place]
        place += 1
        if letter != "\\":
            letters.append(letter)
            continue
        letter = text[place : place + 1]
        place += 1
        if letter == "u":
            letters.append(_unicode(text[place : place + _UNICODE_DIGITS], number))
            place += _UNICODE_DIGITS
        else:
            letters.append(_ESCAPES.get(letter, letter))
    joined = "".join(letters)
    # Java writes what lies beyond its 16-bit letters as two of them.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unicode(digits: str, number: int) -> str:
    try:
        if len(digits) != _UNICODE_DIGITS:
            raise ValueError
        return chr(int.from_bytes(bytes.fromhex(digits), "big"))
    except ValueError:
        raise PropertiesRejected(f"line {number}: \\u{digits} is no letter") from None


def dump(values: Mapping[str, str]) -> bytes:
    """`key=value` lines, keys sorted; a reader with Java's rules gets back exactly these values."""
    lines = [f"{_escaped(key, is_key=True)}={_escaped(values[key])}\n" for key in sorted(values)]
    return "".join(lines).encode("utf-8")


def _escaped(text: str, *, is_key: bool = False) -> str:
    letters = []
    for place, letter in enumerate(text):
        if letter in "\t\n\r\f":
            letter = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[letter]
        elif letter == "\\" or (is_key and letter in "=: ") or (place == 0 and letter in "#! "):
            letter = "\\" + letter
        letters.append(letter)
    return "".join(letters)
