"""Whole numbers in text as Java's `Integer.parseInt` and `Long.parseLong` read them.

Responsible for: what is a number and what is none, in one place for every header. Refuses to know:
which field holds one.

Python's `int` takes more than Java (`1_0`, blanks around) and so is no reader of what peers send.
"""

from __future__ import annotations

import re

# Java takes any number of leading zeros; a megabyte of digits is work no peer may order.
NUMBER_CHARACTERS_MAX = 40
# Digits that fit 32 bits whatever they are: nearly all numbers, at a third of the price.
PLAIN_DIGITS_MAX = 9

# One sign at most, then digits of any script that a single `char` of Java holds.
_WHOLE = re.compile(r"[+-]?[0-9]+|[+-]?(?:(?![\U00010000-\U0010ffff])\d)+")


def whole_number(text: str, bits: int = 64) -> int | None:
    """The number; None when Java would throw: it is none, or does not fit `bits` (32: int, 64:
    long).
    """
    if len(text) <= PLAIN_DIGITS_MAX and text.isascii() and text.isdecimal():
        return int(text)
    if len(text) > NUMBER_CHARACTERS_MAX or _WHOLE.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << (bits - 1)) <= number < 1 << (bits - 1) else None
