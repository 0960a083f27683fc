"""Trees as texts."""

import pytest

from brokers.service.filters.parser import parse
from brokers.service.filters.tree import (
    JAVA_TEXT_CHARACTERS_MAX,
    Constant,
    Property,
    is_condition,
    java_text,
    written,
)


@pytest.mark.parametrize(
    ("text", "again", "of_java"),
    [
        ("a", "a", "a"),
        ("a>5 AND b='x'", "(a > 5) AND (b = 'x')", "((a > 5) && (b == 'x'))"),
        ("a OR b OR c", "(a) OR (b) OR (c)", "((a || b) || c)"),
        ("NOT a", "NOT (a)", "(NOT a)"),
        ("a <> -1.50", "NOT (a = (- 1.5))", "(NOT (a == (- 1.5)))"),
        ("a IS NULL", "a IS NULL", "(a == NULL)"),
        ("a IS NOT NULL", "NOT (a IS NULL)", "(NOT (a == NULL))"),
        ("a BETWEEN 1 AND 2L", "a BETWEEN 1 AND 2", "((a >= 1) && (a <= 2))"),
        ("a NOT BETWEEN b AND c", "a NOT BETWEEN b AND c", "((a < b) || (a > c))"),
        ("a IN ('it''s')", "a IN ('it''s')", "a IN ( it's )"),
        ("a NOT IN ('x','y')", "a NOT IN ('x', 'y')", "a NOT IN ( x, y )"),
        ("a CONTAINS 'x'", "a CONTAINS 'x'", "(CONTAINS a)"),
        ("a NOT ENDSWITH 'x'", "a NOT ENDSWITH 'x'", "(NOT ENDSWITH a)"),
        ("true = FALSE", "TRUE = FALSE", "(TRUE == FALSE)"),
    ],
)
def test_a_tree_is_written_so_that_it_reads_the_same(text: str, again: str, of_java: str) -> None:
    tree = parse(text)
    assert (written(tree), java_text(tree)) == (again, of_java)
    assert parse(again) == tree


def test_a_long_tree_is_written_for_java_in_part() -> None:
    long = java_text(parse(" AND ".join(["a"] * 2000)))
    assert len(long) == JAVA_TEXT_CHARACTERS_MAX and long.startswith("((((")


def test_conditions() -> None:
    assert all(map(is_condition, map(Constant, (None, True, False))))
    assert not any(map(is_condition, (Constant(1), Constant("x"), Property("a"))))
