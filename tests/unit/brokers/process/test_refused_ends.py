"""Ends that a master without controllers refused, kept over its restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.process.refused_ends import REFUSED_NAME, keep_refused, read_refused


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    assert read_refused(tmp_path) == ()
    keep_refused(tmp_path, (("10.0.0.3", 4_096), ("h", 7)))
    assert read_refused(tmp_path) == (("10.0.0.3", 4_096), ("h", 7))
    keep_refused(tmp_path, ())
    assert read_refused(tmp_path) == ()


@pytest.mark.parametrize("text", ["", "{", "[1]", '[["h"]]', '[["h", -1]]', "[[1, 2]]", "{}"])
def test_what_makes_no_sense_is_left_out(tmp_path: Path, text: str) -> None:
    (tmp_path / REFUSED_NAME).write_text(text)
    assert read_refused(tmp_path) == ()


def test_a_disk_that_refuses_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep_refused(tmp_path / "gone", (("h", 7),))
    assert "cannot be kept" in caplog.text
