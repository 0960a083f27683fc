"""Whoever waits for an hour is told how far it is."""

from __future__ import annotations

from tests.chaos.progress import Progress
from tests.chaos.verdict import Row, Run


def test_each_line_says_its_number_and_how_long_it_has_taken_so_far() -> None:
    said: list[str] = []
    now_s = 1_000.0
    progress = Progress(4, lambda: now_s, said.append)
    progress.begins("a", "first")
    progress.ended(Row("a", runs=[Run("note", seconds=90.0, acknowledged=5)]))
    now_s += 90
    progress.left_out(1)
    progress.begins("c", "third")
    assert (
        said[0] == ("[1 of 4, after 0 min] a: first")
        and said[2] == "[3 of 4, after 2 min] c: third"
    )
    assert said[1].startswith("  1 · 90 s · ") and said[1].endswith(" · 5 · 0 · 0 · note")
