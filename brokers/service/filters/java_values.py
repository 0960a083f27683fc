"""Values of an SQL92 filter, and how Java reads a text as one (PROTOCOL 4.15).

Responsible for: what `valueOf` of Integer, Long, Double and Boolean make of a text, the order of
two values, `Double.toString`.
Refuses to know: expressions, messages.

A property's text is kept as the bytes of its UTF-8, as messages have it.
"""

from __future__ import annotations

import re
from enum import Enum
from math import copysign

Value = str | int | float | bool | None
"""A literal. A whole number that fits 32 bits is an `Integer` of Java's, a larger one a `Long`."""

Read = bytes | int | float | bool | None
"""What an expression gives for a message; texts as bytes, null as None."""

I32_MAX = (1 << 31) - 1
I64_MAX = (1 << 63) - 1
NUMBER_BYTES_MAX = 256
"""A longer text is no number, though Java reads one: a filter may ask for it a thousand times."""
# Digits of a number that fits, whichever they are.
_I32_DIGITS_SAFE = 9

_SIGNED = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(
    rb"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
    rb"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?)"
)
_TRIMMED = bytes(range(0x21))


class Kind(Enum):
    """Which of Java's classes a part of an expression gives, if it gives anything."""

    TEXT = "String"
    I32 = "Integer"
    I64 = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    NULL = "null"


WHOLE = (Kind.I32, Kind.I64)


class NotComparable(Exception):
    """Java throws here: the message does not match, whatever else is asked of it."""


def kind_of(value: Value) -> Kind:
    """Of a literal, which has no sign."""
    match value:
        case None:
            return Kind.NULL
        case bool():
            return Kind.BOOLEAN
        case str():
            return Kind.TEXT
        case float():
            return Kind.DOUBLE
        case int():
            return Kind.I32 if value <= I32_MAX else Kind.I64


def whole_of(text: bytes, kind: Kind) -> int:
    """The whole number that a text is. NotComparable when it is none, or does not fit."""
    if text.isdigit() and len(text) <= _I32_DIGITS_SAFE:
        return int(text)
    if len(text) > NUMBER_BYTES_MAX:
        raise NotComparable
    written = text.decode("utf-8", "replace")
    # Java looks at one UTF-16 unit at a time, and a digit may be one of any script.
    if _SIGNED.fullmatch(written) is None or max(written) > "\uffff":
        raise NotComparable
    number = int(written)
    largest = I32_MAX if kind is Kind.I32 else I64_MAX
    if not -largest - 1 <= number <= largest:
        raise NotComparable
    return number


def double_of(text: bytes) -> float:
    """The double that a text is. NotComparable when it is none."""
    if text.isdigit() and len(text) <= _I32_DIGITS_SAFE:
        return float(text)
    text = text.strip(_TRIMMED)
    if len(text) > NUMBER_BYTES_MAX:
        raise NotComparable
    if _DOUBLE.fullmatch(text) is None:
        raise NotComparable
    written = text.decode("ascii")
    if written.lstrip("+-")[:2].lower() != "0x":
        return float(written if written[-1] in "Ny" else written.rstrip("fFdD"))
    try:
        return float.fromhex(written.rstrip("fFdD"))
    except OverflowError:
        return float("-inf" if written.startswith("-") else "inf")


def boolean_of(text: bytes) -> bool:
    return text.lower() == b"true"


def order_of(left: float, right: float) -> int:
    """Java's order of two doubles: −0.0 before 0.0, what is no number behind everything."""
    if left != left or right != right:
        return (left != left) - (right != right)
    if left == right == 0:
        left, right = copysign(1, left), copysign(1, right)
    return (left > right) - (left < right)


def compared(left: Read, left_kind: Kind, right: Read, right_kind: Kind) -> int:
    """Negative, 0 or positive as `left` is before, equal to or behind `right`; neither is null.
    NotComparable.
    """
    kinds = {left_kind, right_kind}
    if len(kinds) > 1 and Kind.BOOLEAN in kinds:
        if kinds != {Kind.BOOLEAN, Kind.TEXT}:
            return -1
        if left_kind is Kind.BOOLEAN:
            raise NotComparable  # Java takes the value on the left for the text
    as_kind = max(kinds - {Kind.TEXT} or {Kind.TEXT}, key=_WIDTH.index)
    one, other = _as(left, left_kind, as_kind), _as(right, right_kind, as_kind)
    if as_kind is Kind.DOUBLE:
        assert isinstance(one, float) and isinstance(other, float)
        return order_of(one, other)
    return (one > other) - (one < other)  # type: ignore[operator]  # both are of `as_kind`


_WIDTH = (Kind.TEXT, Kind.BOOLEAN, Kind.I32, Kind.I64, Kind.DOUBLE)


def _as(value: Read, kind: Kind, wanted: Kind) -> Read:
    if kind is Kind.TEXT and wanted is not Kind.TEXT:
        assert isinstance(value, bytes)
        return _read_as(value, wanted)
    return float(value) if wanted is Kind.DOUBLE and isinstance(value, int) else value


def _read_as(text: bytes, kind: Kind) -> Read:
    if kind is Kind.DOUBLE:
        return double_of(text)
    return boolean_of(text) if kind is Kind.BOOLEAN else whole_of(text, kind)


def double_text(value: float) -> str:
    """As Java writes a double: three or more digits in front of the point up to 10^7, else with an
    exponent.
    """
    digits, _, exponent = f"{value!r}".partition("e")
    whole, _, part = digits.partition(".")
    point = len(whole) + int(exponent or 0)
    figures = (whole + part).lstrip("0")
    point -= len(whole + part) - len(figures)
    figures = figures.rstrip("0") or "0"
    if -3 < point <= 7:
        figures = "0" * max(0, 1 - point) + figures
        point = max(point, 1)
        figures = figures.ljust(point + 1, "0")
        return f"{figures[:point]}.{figures[point:]}"
    return f"{figures[0]}.{figures[1:] or '0'}E{point - 1}"
