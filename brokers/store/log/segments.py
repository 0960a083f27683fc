"""Arithmetic of logs that are kept in files of one size: names, starts, gaps, how a write is laid
over files.

Responsible for: PROTOCOL 3.3 and 3.4 as numbers.
Refuses to know: file systems.
"""

from __future__ import annotations

from collections.abc import Iterable

from brokers.store.log.records import BLANK_BYTES_MIN

NAME_DIGITS = 20


def file_name(start: int) -> str:
    """Name of the file whose first byte has global offset `start`."""
    return f"{start:0{NAME_DIGITS}d}"


def start_of_name(name: str) -> int | None:
    """Global offset that a file name means; None when it is no such name."""
    if len(name) != NAME_DIGITS or not name.isascii() or not name.isdigit():
        return None
    return int(name)


def file_start(offset: int, file_bytes: int) -> int:
    """Start of the file that contains `offset`."""
    return offset - offset % file_bytes


def first_gap(starts: Iterable[int], file_bytes: int) -> int | None:
    """Start of the first file that is missing or misplaced in ascending `starts`; None when they
    are gapless.
    """
    expected: int | None = None
    for start in starts:
        if start % file_bytes or (expected is not None and start != expected):
            return start if expected is None else expected
        expected = start + file_bytes
    return None


def needs_new_file(bytes_left: int, record_bytes: int) -> bool:
    """Whether a record must go to the next file: a blank record has to fit behind it (3.3)."""
    return record_bytes + BLANK_BYTES_MIN > bytes_left


def split_by_file(offset: int, count: int, file_bytes: int) -> list[tuple[int, int]]:
    """`count` bytes at `offset` as (offset, count) pieces of which none crosses a file."""
    pieces: list[tuple[int, int]] = []
    while count > 0:
        piece = min(count, file_bytes - offset % file_bytes)
        pieces.append((offset, piece))
        offset += piece
        count -= piece
    return pieces
