"""The messages of the workload: a body made from its sequence number, so that a reader can check
every byte.
"""

from __future__ import annotations

import hashlib

BODY_BYTES = 1024
_HEAD_BYTES = 16


def body_of(sequence: int, size: int = BODY_BYTES) -> bytes:
    """The body of message `sequence`: its number in 16 digits, then bytes that depend on it."""
    head = f"{sequence:0{_HEAD_BYTES}d}".encode()
    return head + hashlib.shake_128(head).digest(max(0, size - _HEAD_BYTES))


def sequence_of(body: bytes) -> int | None:
    """The number a body carries, None when any byte is not as it was sent."""
    if len(body) < _HEAD_BYTES or not body[:_HEAD_BYTES].isdigit():
        return None
    sequence = int(body[:_HEAD_BYTES])
    return sequence if body == body_of(sequence, len(body)) else None
