"""What differs between rows is said by column, in few words."""

from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa

from lakehouse.layers import difference
from lakehouse.layers.difference import Compared, differing, plain, runs, same
from lakehouse.proof.finding import Finding

FOUND = Finding("t", "topic", 0, 1, 1, "said", "do")


def test_rows_are_the_same_in_any_order_and_column_by_column() -> None:
    rows = pa.table({"k": [1, 2], "v": ["a", None]})
    assert same(rows, rows.take([1, 0]), ("k",))
    assert not same(rows, pa.table({"k": [1, 2], "v": ["a", "b"]}), ("k",))
    assert not same(rows, rows.slice(0, 1), ("k",))


def test_a_column_that_the_table_lacks_is_null_in_it() -> None:
    old = pa.table({"k": [1]})
    assert same(old, pa.table({"k": [1], "new": pa.nulls(1, pa.string())}), ("k",))
    assert not same(old, pa.table({"k": [1], "new": ["x"]}), ("k",))


def test_only_what_history_gives_counts_for_a_wider_table() -> None:
    wide = pa.table({"k": [1], "s": [{"a": 1, "b": None}]})
    made = pa.table({"k": [1], "s": pa.array([{"a": 1}], pa.struct([("a", pa.int64())]))})
    assert differing(wide.to_pylist()[0], made.to_pylist()[0]) == ""


def test_columns_that_differ_are_named_with_both_values() -> None:
    told = differing({"a": 1, "b": "x" * 100, "c": 3}, {"a": 2, "b": "y", "c": 3})
    assert told.startswith("a is 1, history gives 2, b is 'xxxx") and "…" in told
    many = {f"c{n}": n for n in range(7)}
    assert differing(many, dict.fromkeys(many, -1)).endswith(" and 3 columns more")
    assert differing({}, {"a": None}) == ""


def test_values_have_one_shape() -> None:
    here = timezone(timedelta(hours=2))
    assert plain(datetime(2026, 1, 1, 2, tzinfo=here)) == plain(datetime(2026, 1, 1, tzinfo=UTC))
    assert plain([("b", 1), ("a", 2)]) == plain([("a", 2), ("b", 1)])
    assert plain([{"a": None, "b": 1}]) == plain([{"b": 1}])
    assert plain([1, 2]) != plain([2, 1])


def test_offsets_beside_one_another_are_one_range() -> None:
    assert runs([1, 2, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
    assert runs([]) == []


def test_findings_are_bounded_and_counted(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(difference, "FINDINGS_MAX", 3)
    found, other = Compared(rows=1), Compared(rows=2, notices=["n"], problems=["p"])
    other.found([FOUND] * 2)
    found.found([FOUND] * 2)
    found.take(other)
    assert (found.rows, len(found.findings), found.more) == (3, 3, 1)
    assert (found.notices, found.problems) == (["n"], ["p"])
