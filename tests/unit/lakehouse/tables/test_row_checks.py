import pyarrow as pa

from lakehouse.tables.row_checks import (
    AtLeast,
    Between,
    OneOf,
    Present,
    TextLength,
    broken_rows,
    first_broken,
)

AT = pa.map_(pa.string(), pa.int64())
ROW = {"id": "ab", "n": -1, "labels": ["X"], "none": None, "at": [("a", 5), ("b", 11)]}


def test_each_check_says_what_is_wrong() -> None:
    checks = {
        Present("none"): "none is missing",
        AtLeast("n", 0): "n is below 0",
        Between("n", 0, 9): "n is not between 0 and 9",
        Between("at", 5, 10): "at is not between 5 and 10",
        TextLength("id", (0, 64)): "id is not 0 or 64 characters long",
        OneOf("labels", ("Y",)): "labels holds something else than Y",
    }
    for check, words in checks.items():
        assert first_broken(ROW, [check]) is check
        assert str(check) == words


def test_null_breaks_only_the_check_for_presence() -> None:
    checks = (AtLeast("none", 0), Between("none", 0, 1), TextLength("none", (1,)))
    assert first_broken(ROW, [*checks, OneOf("none", ())]) is None


def test_kept_checks_are_passed_over() -> None:
    checks = (AtLeast("n", -1), Between("n", -1, -1), Between("at", 5, 11))
    assert first_broken(ROW, [*checks, TextLength("id", (2,)), Present("id")]) is None


def test_a_column_is_judged_as_its_rows_are() -> None:
    columns = {
        "n": pa.array([3, None, -1, 9, 10], pa.int64()),
        "at": pa.array([[("a", 5)], None, [], [("a", 5), ("b", 11)], [("a", 4)]], AT),
        "id": pa.array(["ab", None, "", "üß", "abc"], pa.string()),
        "labels": pa.array([["Y"], None, [], ["X"], ["Y", "X"]], pa.list_(pa.string())),
    }
    checks = {
        Present("n"): [1],
        AtLeast("n", 0): [2],
        Between("n", 0, 9): [2, 4],
        Between("at", 5, 10): [3, 4],
        TextLength("id", (0, 2)): [4],
        OneOf("labels", ("Y",)): [3, 4],
    }
    for check, places in checks.items():
        column = columns[check.column]
        rows = [{check.column: value} for value in column.to_pylist()]
        assert [at for at, row in enumerate(rows) if check.broken_by(row)] == places
        assert broken_rows(check, column) == places
        assert broken_rows(check, column.slice(0, 0)) == []
        kept = [at not in places for at in range(len(column))]
        assert check.kept_by_all(column.filter(pa.array(kept)))
        assert not check.kept_by_all(column)
