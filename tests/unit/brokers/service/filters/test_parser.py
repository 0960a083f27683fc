"""The grammar of filters and what it refuses, row by row of RocketMQ's."""

import time

import pytest

from brokers.service.filters.compiled import compiled
from brokers.service.filters.java_values import NUMBER_BYTES_MAX
from brokers.service.filters.lexer import EXPRESSION_CHARACTERS_MAX, TOKENS_MAX, BadExpression
from brokers.service.filters.parser import CONTAINS_MAX, DEPTH_MAX, parse
from brokers.service.filters.tree import java_text

RUNTIME = "java.lang.RuntimeException: "
PARSE = "org.apache.rocketmq.filter.parser.ParseException: "


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        # what binds least comes first
        ("a OR b AND c", "(a || (b && c))"),
        ("a AND b = c", "(a && (b == c))"),
        ("a = b > 5", None),
        ("a = 5 < 7", "(a == (5 < 7))"),
        ("a > - 5", "(a > (- 5))"),
        ("a = + + 5", "(a == 5)"),
        ("(a OR b) AND c", "((a || b) && c)"),
        # each level is left-associative
        ("a = b = c", "((a == b) == c)"),
        ("a <> b = c", "((NOT (a == b)) == c)"),
        ("a IS NULL IS NOT NULL", "(NOT ((a == NULL) == NULL))"),
        ("a CONTAINS 'x' CONTAINS 'y'", "(CONTAINS (CONTAINS a))"),
        ("a OR b OR c", "((a || b) || c)"),
        # NOT binds tighter than comparisons
        ("NOT a = 'x'", "((NOT a) == 'x')"),
        ("NOT (a > 5)", "(NOT (a > 5))"),
        ("NOT NOT a", "(NOT (NOT a))"),
        ("a BETWEEN 1 AND 2 AND b", "(((a >= 1) && (a <= 2)) && b)"),
        # behind a whole expression anything may follow, as long as one token of it can be read
        ("a > 5 garbage", "(a > 5)"),
        ("a > 5 ) #", "(a > 5)"),
        ("a-b > 5", "a"),
        # a bare property is a condition
        ("a", "a"),
        ("TRUE", "TRUE"),
        ("NULL", "NULL"),
        # whole numbers
        ("a = 2147483648", "(a == 2147483648)"),
        ("a = 9223372036854775807", "(a == 9223372036854775807)"),
        ("a NOT BETWEEN 5 AND 3", "((a < 5) || (a > 3))"),
        ("a BETWEEN - 5 AND - 7", "((a >= (- 5)) && (a <= (- 7)))"),
    ],
)
def test_line_53_what_binds_how(text: str, tree: str | None) -> None:
    if tree is None:
        parse(text)
    else:
        assert java_text(parse(text)) == tree


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("a = NULL", RUNTIME + "'NULL' cannot be compared."),
        ("a <> NULL", RUNTIME + "'NULL' cannot be compared."),
        ("a > 'x'", RUNTIME + "Value ''x'' cannot be compared."),
        ("a >= TRUE", RUNTIME + "Value 'TRUE' cannot be compared."),
        ("a < NULL", RUNTIME + "Value 'NULL' cannot be compared."),
        ("'x' <= a", RUNTIME + "Value ''x'' cannot be compared."),
        ("a > (b = 5)", RUNTIME + "Value '(b == 5)' cannot be compared."),
        ("NOT a > 5", RUNTIME + "Value '(NOT a)' cannot be compared."),
        ("a BETWEEN NULL AND 5", RUNTIME + "Illegal values of between, values can not be null!"),
        ("a BETWEEN 'x' AND 'y'", RUNTIME + "Value ''x'' cannot be compared."),
        (
            "a BETWEEN 5 AND 3",
            RUNTIME + "Illegal values of between, left value(5) must less than or equal to right "
            "value(3)",
        ),
        (
            "a BETWEEN 5.5 AND 3",
            RUNTIME + "Illegal values of between, left value(5.5) must less than or equal to right "
            "value(3)",
        ),
        ("a NOT BETWEEN NULL AND 5", RUNTIME + "Value 'NULL' cannot be compared."),
        ("5 IN ('x')", RUNTIME + "Expected a property for In expression, got: 5"),
        ("NOT a IN ('x')", RUNTIME + "Expected a property for In expression, got: (NOT a)"),
        ("TRUE = 5", RUNTIME + "'TRUE' cannot be compared with '5'"),
        ("FALSE = 'x'", RUNTIME + "'FALSE' cannot be compared with ''x''"),
        ("NOT 5", PARSE + "Expression will not result in a boolean value: 5"),
        ("NOT 'x'", PARSE + "Expression will not result in a boolean value: 'x'"),
        ("5", PARSE + "Expression will not result in a boolean value: 5"),
        ("'it''s'", PARSE + "Expression will not result in a boolean value: 'it''s'"),
        ("a AND 1e7", PARSE + "Expression will not result in a boolean value: 1.0E7"),
        ("- a", PARSE + "Expression will not result in a boolean value: (- a)"),
        (
            "a = 9223372036854775808",
            'java.lang.NumberFormatException: For input string: "9223372036854775808"',
        ),
        ("a > 0.0", RUNTIME + "0.0 is less than 4.9E-324"),
        ("a > 1e-999", RUNTIME + "1e-999 is less than 4.9E-324"),
        ("a > 1e999", RUNTIME + "1e999 is greater than 1.7976931348623157E308"),
    ],
)
def test_line_51_mistakes_of_types_in_rocketmqs_words(text: str, remark: str) -> None:
    with pytest.raises(BadExpression) as refused:
        parse(text)
    assert str(refused.value) == remark


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("", 'Encountered "<EOF>" at line 0, column 0.'),
        ("a >", 'Encountered "<EOF>" at line 1, column 3.'),
        ("a CONTAINS 5", 'Encountered " <DECIMAL_LITERAL> "5 "" at line 1, column 12.'),
        ("a STARTSWITH b", 'Encountered " <ID> "b "" at line 1, column 14.'),
        ("a NOT ENDSWITH TRUE", 'Encountered " "TRUE" "TRUE "" at line 1, column 16.'),
        ("a IN (5)", 'Encountered " <DECIMAL_LITERAL> "5 "" at line 1, column 7.'),
        ("a IN ()", 'Encountered " ")" ") "" at line 1, column 7.'),
        ("a NOT b", 'Encountered " "NOT" "NOT "" at line 1, column 3.'),
        ("a IS b", 'Encountered " <ID> "b "" at line 1, column 6.'),
        ("a == 5", 'Encountered " "=" "= "" at line 1, column 4.'),
        ("(a", 'Encountered "<EOF>" at line 1, column 2.'),
        ("a =\n\t)", 'Encountered " ")" ") "" at line 2, column 9.'),
        ("b = + (a = NULL AND )", 'Encountered " "+" "+ "" at line 1, column 5.'),
    ],
)
def test_mistakes_of_grammar_name_the_token_and_its_place(text: str, begin: str) -> None:
    with pytest.raises(BadExpression) as refused:
        parse(text)
    remark = str(refused.value)
    assert remark.startswith(PARSE + begin + "\nWas expecting") and remark.endswith(" ...\n    ")


def test_what_was_expected_is_listed_as_rocketmq_does() -> None:
    with pytest.raises(BadExpression) as refused:
        parse("a IS b")
    assert str(refused.value).split("\n")[1:] == [
        "Was expecting one of:",
        '    "NOT" ...',
        '    "NULL" ...',
        "    ",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "(" * 40_000,
        "(" * 65 + "a" + ")" * 65,
        "NOT " * 10_000 + "a",
        "- " * 20_000 + "5 = a",
        "+ " * 20_000 + "5 = a",
        "+ (" * 15_000,
        "a" + " IS NULL" * 5_000,
        "a" + " = a" * 10_000,
        "a" + " STARTSWITH 'x'" * 1_000,
        "-(" * 10_000 + "a",
        "a = (" * 10_000,
        "a BETWEEN (" * 5_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_filter_that_is_too_deep_is_refused_and_quickly(text: str) -> None:
    began = time.process_time()
    with pytest.raises(BadExpression, match=f"nested more than {DEPTH_MAX} deep"):
        parse(text)
    assert time.process_time() - began < 1


def test_as_deep_as_allowed_is_read_and_evaluated() -> None:
    deep = "NOT (" * 30 + "a > 5" + ")" * 30
    assert compiled(deep).matches(b"a\x016\x02")
    assert not compiled(deep).matches(b"a\x015\x02")


def test_what_is_nested_in_itself_is_asked_once() -> None:
    """BETWEEN asks for its value twice in RocketMQ: nested 50 times it would never end."""
    text = "a"
    for _ in range(20):
        text = f"-({text} BETWEEN 1 AND 2)"
    began = time.process_time()
    assert not compiled(f"{text} IS NOT NULL").matches(b"a\x015\x02")
    assert time.process_time() - began < 1


def test_64_kib_of_filter_are_read_or_refused_in_bounded_time() -> None:
    many = " OR ".join(f"a = '{number:052d}'" for number in range(1_000))
    ids = ",".join(f"'{number:028d}'" for number in range(2_000))
    one_of = f"a IN ({ids})"
    tiny = "a>1 OR " * 9_000
    began = time.process_time()
    assert 60_000 < len(many) <= EXPRESSION_CHARACTERS_MAX and len(one_of) > 60_000
    assert compiled(many).matches(b"a\x01%052d\x02" % 999)
    assert compiled(one_of).matches(b"a\x01%028d\x02" % 1_999)
    with pytest.raises(BadExpression, match=f"more than {TOKENS_MAX} words"):
        compiled(tiny)
    with pytest.raises(BadExpression, match="65537 characters"):
        compiled("a" * 65_537)
    for text in ("-" * 65_536, "'" * 65_535, "/" * 65_536, "a" * 65_534 + " =", "-- " * 21_000):
        with pytest.raises(BadExpression):
            compiled(text)
    assert time.process_time() - began < 2


def test_contains_is_asked_a_bounded_number_of_times() -> None:
    most = " OR ".join(["a CONTAINS 'x'"] * CONTAINS_MAX)
    parse(f"({most}) AND + (a NOT ENDSWITH 'x')")
    with pytest.raises(BadExpression, match=f"more than {CONTAINS_MAX} times CONTAINS"):
        parse(f"{most} OR b NOT CONTAINS 'y'")


def test_what_a_hostile_filter_and_a_hostile_message_cost_together_is_bounded() -> None:
    number = b"a\x01" + b"0" * 32_000 + b"\x02"
    digits = b"a\x01" + b"0" * NUMBER_BYTES_MAX + b"\x02"
    same = b"a\x01" + b"a" * 29_000 + b"\x02"
    began = time.process_time()
    for text, properties in (
        (" OR ".join(["b = 5"] * 1_000), number),
        (" OR ".join(["a = 5"] * 1_000), digits),
        (" OR ".join(["a > 5.5"] * 1_000), digits),
        (" OR ".join([f"a CONTAINS '{'a' * 90}b'"] * CONTAINS_MAX), same),
        (" OR ".join(["x = 5"] * 1_000), b"b\x01c\x02" * 8_000),
    ):
        assert not compiled(text).matches(properties)
    assert time.process_time() - began < 2
