"""What a filter gives for a message, row by row of RocketMQ's table."""

import pytest

from brokers.service.filters.compiled import COST_MAX, SEARCHED_NAMES_MAX, compiled, evaluator
from brokers.service.filters.java_values import NotComparable
from brokers.service.filters.lexer import TOKENS_MAX
from brokers.service.filters.parser import parse
from brokers.store.log.properties import encode_properties

TRUE, FALSE, UNKNOWN, THROWS = "true", "false", "unknown", "exception"


def value(text: str, **properties: str) -> str:
    try:
        found = evaluator(parse(text))(b"\x02%b\x02" % encode_properties(properties))
    except NotComparable:
        return THROWS
    return UNKNOWN if found is None else str(found).lower()


@pytest.mark.parametrize(
    ("text", "properties", "result"),
    [
        # equality and null
        ("a = b", {}, TRUE),
        ("a = b", {"b": "x"}, UNKNOWN),
        ("a = b", {"a": "x"}, FALSE),
        ("a <> b", {}, FALSE),
        ("a <> b", {"b": "x"}, UNKNOWN),
        ("a <> b", {"a": "x"}, TRUE),
        ("a = 'x'", {}, UNKNOWN),
        ("'x' = a", {}, FALSE),
        ("a IS NULL", {}, TRUE),
        ("a IS NULL", {"a": "x"}, FALSE),
        ("a IS NOT NULL", {}, FALSE),
        ("a IS NOT NULL", {"a": "x"}, TRUE),
        # texts are compared exactly
        ("a = 'x'", {"a": "x"}, TRUE),
        ("a = 'x'", {"a": "X"}, FALSE),
        ("a = b", {"a": "標", "b": "標"}, TRUE),
        ("a = 'it''s'", {"a": "it's"}, TRUE),
        # a property against a literal: the text is converted
        ("a = 5", {"a": "5"}, TRUE),
        ("a = 5", {"a": "005"}, TRUE),
        ("a = 5", {"a": "five"}, THROWS),
        ("a > 5", {"a": "3000000000"}, THROWS),
        ("a > 5", {"a": "7.5"}, THROWS),
        ("a > 2147483648", {"a": "3000000000"}, TRUE),
        ("a > 5.0", {"a": "7.5"}, TRUE),
        ("a > 5.0", {"a": "7"}, TRUE),
        ("a > 5.0", {"a": "NaN"}, TRUE),
        ("a = TRUE", {"a": "tRuE"}, TRUE),
        ("a = FALSE", {"a": "anything"}, TRUE),
        ("5 < a", {"a": "7"}, TRUE),
        ("5 = a", {"a": "x"}, THROWS),
        ("TRUE = a", {"a": "true"}, THROWS),
        ("a > -5", {"a": "-4"}, TRUE),
        # numbers of different types
        ("5 = 5.0", {}, TRUE),
        ("5 < 2147483648", {}, TRUE),
        ("- 5 = - 5.0", {}, TRUE),
        # two texts in an order
        ("a > b", {"a": "10", "b": "9"}, TRUE),
        ("a > b", {"a": "10", "b": "x"}, THROWS),
        ("a > b", {"a": "10"}, UNKNOWN),
        ("a > b", {"b": "10"}, UNKNOWN),
        ("a > 5", {}, UNKNOWN),
        ("5 > a", {}, UNKNOWN),
        # signs
        ("-a = 5", {"a": "-5"}, UNKNOWN),
        ("-a IS NULL", {"a": "5"}, TRUE),
        ("- - 5 = 5", {}, TRUE),
        # between
        ("a BETWEEN 1 AND 3", {"a": "3"}, TRUE),
        ("a BETWEEN 1 AND 3", {"a": "4"}, FALSE),
        ("a BETWEEN 1 AND 3", {}, UNKNOWN),
        ("a BETWEEN 1 AND b", {"a": "0"}, FALSE),
        ("a BETWEEN 1 AND b", {"a": "2"}, UNKNOWN),
        ("a NOT BETWEEN 1 AND 3", {"a": "3"}, FALSE),
        ("a NOT BETWEEN 1 AND 3", {"a": "4"}, TRUE),
        ("a NOT BETWEEN 1 AND 3", {}, UNKNOWN),
        # one of
        ("a IN ('x', 'y')", {"a": "y"}, TRUE),
        ("a IN ('x', 'y')", {"a": "z"}, FALSE),
        ("a IN ('x', 'y')", {}, UNKNOWN),
        ("a NOT IN ('x', 'y')", {"a": "y"}, FALSE),
        ("a NOT IN ('x', 'y')", {"a": "z"}, TRUE),
        ("a NOT IN ('x', 'y')", {}, UNKNOWN),
        # searches
        ("a CONTAINS 'b'", {"a": "abc"}, TRUE),
        ("a CONTAINS 'd'", {"a": "abc"}, FALSE),
        ("a NOT CONTAINS 'd'", {"a": "abc"}, TRUE),
        ("a STARTSWITH 'a'", {"a": "abc"}, TRUE),
        ("a STARTSWITH 'b'", {"a": "abc"}, FALSE),
        ("a NOT STARTSWITH 'b'", {"a": "abc"}, TRUE),
        ("a ENDSWITH 'c'", {"a": "abc"}, TRUE),
        ("a ENDSWITH 'b'", {"a": "abc"}, FALSE),
        ("a NOT ENDSWITH 'b'", {"a": "abc"}, TRUE),
        *(
            (f"a {inverted}{search} '{text}'", properties, FALSE)
            for inverted in ("", "NOT ")
            for search in ("CONTAINS", "STARTSWITH", "ENDSWITH")
            for text, properties in (("x", {}), ("", {}), ("", {"a": "x"}))
        ),
        # logic
        ("a AND b", {"a": "x"}, FALSE),
        ("a OR b", {"a": "x"}, UNKNOWN),
        ("a = 'x' AND b = 'y'", {"a": "x"}, UNKNOWN),
        ("a = 'y' AND b = 'y'", {"a": "x"}, FALSE),
        ("b = 'y' AND a = 'y'", {"a": "x"}, FALSE),
        ("a = 'x' OR b = 'y'", {"a": "x"}, TRUE),
        ("b = 'y' OR a = 'x'", {"a": "x"}, TRUE),
        ("a = 'y' OR b = 'y'", {"a": "x"}, UNKNOWN),
        ("NOT (a = 'x')", {}, UNKNOWN),
        ("NOT (a = 'x')", {"a": "y"}, TRUE),
        ("a", {"a": "true"}, FALSE),
        ("a", {}, UNKNOWN),
        ("NOT a", {"a": "x"}, TRUE),
        ("NOT a = 'x'", {"a": "x"}, THROWS),
        ("NOT a = 'x'", {}, UNKNOWN),
        ("(a > 5) IS NULL", {}, TRUE),
        # what is not asked throws nothing
        ("a = 'y' AND b > 5", {"a": "x", "b": "many"}, FALSE),
        ("a = 'x' OR b > 5", {"a": "x", "b": "many"}, TRUE),
        ("b > 5 OR a = 'x'", {"a": "x", "b": "many"}, THROWS),
        ("c = 'y' AND b > 5", {"b": "many"}, THROWS),
    ],
)
def test_lines_49_50_52_what_a_filter_gives(
    text: str, properties: dict[str, str], result: str
) -> None:
    assert value(text, **properties) == result
    raw = encode_properties(properties)
    assert compiled(text).matches(raw) is (result == TRUE)
    many = " OR ".join(["zz = 'no'"] * SEARCHED_NAMES_MAX)
    assert compiled(f"({text}) OR {many}").matches(raw) is (result == TRUE)


@pytest.mark.parametrize(
    ("raw", "matches"),
    [
        (b"a\x016\x02", True),
        (b"a\x016", True),
        (b"b\x01x\x02a\x016\x02", True),
        (b"a\x011\x02a\x016\x02", True),
        (b"a\x016\x02a\x011\x02", False),
        (b"a\x016\x02a\x01\x02", True),  # without a value there is no second one
        (b"aa\x016\x02", False),
        (b"ba\x016\x02", False),
        (b"b\x01a\x016\x02", False),
        (b"a\x02a\x016\x02", True),
        (b"A\x016\x02", False),
        (b"", False),
        (b"\x01\x02", False),
        (b"\x02\x02\x02", False),
        (b"\xff\xfe\x01\x00\x02", False),
        (b"a\x01\xff\xfe\x02", False),
    ],
)
def test_properties_are_found_in_their_text(raw: bytes, matches: bool) -> None:
    assert compiled("a > 5").matches(raw) is matches
    many = " AND ".join(["a > 5"] * (SEARCHED_NAMES_MAX + 1))
    assert compiled(many).matches(raw) is matches


def test_properties_of_the_system_have_their_names() -> None:
    properties = {"TAGS": "A", "KEYS": "k1 k2", "UNIQ_KEY": "u", "DELAY": "3"}
    text = "TAGS = 'A' AND KEYS CONTAINS 'k2' AND UNIQ_KEY IS NOT NULL AND DELAY > 2"
    assert compiled(text).matches(encode_properties(properties))


def test_what_a_filter_costs_grows_with_its_parts_and_is_bounded() -> None:
    assert compiled("a").cost == 2
    assert compiled("a > 5 AND b = 'x'").cost == 7
    assert compiled(" OR ".join(["a"] * (TOKENS_MAX // 2))).cost <= COST_MAX


def test_nothing_that_a_client_sends_is_run() -> None:
    for text in ("__import__ = 'os'", "a = '{0.__class__}'", "a IN ('%s', '\\x00')"):
        assert compiled(text).matches(encode_properties({"a": "x"})) is False
