"""The table and the document."""

from __future__ import annotations

from tests.bench import report
from tests.bench.figure import Figure, at_most, not_measured, share_at_least


def test_numbers_have_three_places_that_count() -> None:
    assert [report.number(n) for n in (None, 0, 0.1234, 12.0, 123.4, 45_678.9)] == [
        "-",
        "0",
        "0.123",
        "12",
        "123",
        "45,679",
    ]


def test_each_figure_is_a_line_with_its_verdict() -> None:
    figures = [
        Figure("a", "broken", "s", 2.0, floor=at_most(1.5), required=True),
        Figure(
            "b",
            "reached",
            "MB/s",
            80.0,
            "copy",
            100.0,
            share_at_least(0.4),
            share_at_least(0.7),
            note="why",
        ),
        not_measured("c", "absent", "s", "no JDK", required=True, floor=at_most(3.0)),
    ]
    lines = report.table(figures).splitlines()
    assert "FLOOR BROKEN" in lines[2] and "<= 1.5 s *" in lines[2]
    assert "80 %" in lines[3] and "copy: 100 MB/s" in lines[3] and "goal reached" in lines[3]
    assert "NOT MEASURED" in lines[4]
    assert any(line == "b, reached: why" for line in lines)


def test_a_large_ratio_is_told_in_times() -> None:
    assert "5 x" in report.table([Figure("a", "w", "s", 10.0, "p", 2.0)])


def test_the_document_holds_every_figure() -> None:
    found = report.document([Figure("a", "w", "s", 1.0)], {"cores": 2}, 1.234, 0)
    assert (found["seconds"], found["exit_code"], len(found["figures"])) == (1.2, 0, 1)


def test_a_progress_line_holds_the_figure_and_its_peer() -> None:
    assert report.line(Figure("row", "RTO", "s", 0.5, "Java", 1.0)) == (
        "  RTO; 0.5 s; Java: 1 s; 50 %"
    )
