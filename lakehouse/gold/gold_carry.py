"""
What a gold run keeps for the next one, as bytes and back (P).

Responsible for the format alone. Bytes that are not of this release's builders are refused: whoever
meets them builds gold from the beginning, which gives the same tables.
"""

from __future__ import annotations

import msgspec

from lakehouse.gold.rows import Carry

BUILDERS_VERSION = 2
"""Raised when a builder gives other rows for the same history: then gold is built anew."""

_DECODER = msgspec.json.Decoder(Carry)


class CarryError(Exception):
    """Bytes that hold no carry of this release."""


def dump(carry: Carry) -> bytes:
    """The carry as JSON. Equal carries give the same bytes."""
    return msgspec.json.encode(carry)


def load(data: bytes) -> Carry:
    """The carry in `data`. Raises `CarryError`."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CarryError(f"no carry of a gold run: {error}") from error
