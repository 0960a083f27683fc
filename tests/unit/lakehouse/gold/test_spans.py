from lakehouse.gold.spans import Spans


def test_a_span_ends_where_the_next_of_the_same_thing_begins() -> None:
    spans = Spans(("name",))
    spans.begin({"name": "a", "value": 1}, 3, 30)
    spans.begin({"name": "b", "value": 1}, 4, 40)
    spans.begin({"name": "a", "value": 2}, 5, 50)
    assert [
        (r["name"], r["value"], r["from_offset"], r["to_offset"], r["to_ms"]) for r in spans.rows()
    ] == [("a", 1, 3, 5, 50), ("b", 1, 4, None, None), ("a", 2, 5, None, None)]


def test_a_span_of_an_earlier_run_is_closed_and_only_then_told_again() -> None:
    earlier = Spans(("name",))
    earlier.begin({"name": "a"}, 1, 10)
    earlier.begin({"name": "b"}, 2, 20)
    spans = Spans(("name",), earlier.rows())
    assert spans.rows() == []
    spans.end("a", offset=7, at_ms=70)
    assert [(r["name"], r["to_offset"]) for r in spans.rows()] == [("a", 7)]
    assert spans.current("b") is not None
    assert spans.current("a") is None
    assert [row["to_offset"] for row in earlier.rows()] == [None, None]


def test_ending_what_is_not_open_does_nothing() -> None:
    spans = Spans(("name",), [{"name": "a", "from_offset": 1, "to_offset": 2}])
    spans.end("a", offset=7, at_ms=70)
    assert spans.rows() == []
