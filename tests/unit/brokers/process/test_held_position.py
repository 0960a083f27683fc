"""How far the log was durable and confirmed, kept beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.process.held_position import (
    HELD_NAME,
    KEEP_EVERY_MS,
    OFFSET_MAX,
    Held,
    HeldPosition,
    read_held,
)


def test_what_was_kept_is_read_by_the_next_start(tmp_path: Path) -> None:
    held = HeldPosition(tmp_path)
    assert held.held is None
    held.keep(Held(3, 500))
    assert HeldPosition(tmp_path).held == Held(3, 500)


def test_it_is_written_once_in_a_while_and_only_when_it_moved(tmp_path: Path) -> None:
    held = HeldPosition(tmp_path)
    first = held.keep_job(Held(3, 500), 0)
    assert first is not None
    first()
    assert held.keep_job(Held(3, 500), KEEP_EVERY_MS) is None
    assert held.keep_job(Held(3, 600), KEEP_EVERY_MS - 1) is None
    again = held.keep_job(Held(3, 600), KEEP_EVERY_MS)
    assert again is not None
    again()
    assert read_held(tmp_path / HELD_NAME) == Held(3, 600)


def test_a_cut_lowers_it_and_one_above_it_writes_nothing(tmp_path: Path) -> None:
    held = HeldPosition(tmp_path)
    held.keep(Held(3, 500))
    before = (tmp_path / HELD_NAME).stat().st_ino
    held.cut(500)
    assert (tmp_path / HELD_NAME).stat().st_ino == before
    held.cut(499)
    assert read_held(tmp_path / HELD_NAME) == Held(-1, 499)


def test_what_was_taken_before_a_cut_is_not_written_after_it(tmp_path: Path) -> None:
    held = HeldPosition(tmp_path)
    job = held.keep_job(Held(3, 500), 0)
    held.cut(100)
    assert job is not None
    job()
    assert held.held is None and not (tmp_path / HELD_NAME).exists()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"epoch": 1}',
        b'{"epoch": "1", "offset": 2}',
        b'{"epoch": 1, "offset": -2}',
        b'{"epoch": -2, "offset": 2}',
        (b'{"epoch": 1, "offset": %d}') % (OFFSET_MAX + 1),
        b'{"epoch": true, "offset": 2}',
        b"\xff\xfe",
        b'{"epoch": 1, "offset": 2}' + b" " * 400,
    ],
)
def test_a_file_that_makes_no_sense_says_nothing(tmp_path: Path, text: bytes) -> None:
    (tmp_path / HELD_NAME).write_bytes(text)
    assert read_held(tmp_path / HELD_NAME) in (None, Held(1, 2))
    HeldPosition(tmp_path).keep(Held(1, 2))
    assert read_held(tmp_path / HELD_NAME) == Held(1, 2)
