"""How Java reads texts as values, and orders values."""

import math

import pytest

from brokers.service.filters.java_values import (
    NUMBER_BYTES_MAX,
    Kind,
    NotComparable,
    boolean_of,
    compared,
    double_of,
    double_text,
    kind_of,
    order_of,
    whole_of,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("+5", 5),
        ("-5", -5),
        ("007", 7),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("0" * (NUMBER_BYTES_MAX - 1) + "7", 7),
        ("٥", 5),  # a digit of another script
    ],
)
def test_integers(text: str, value: int) -> None:
    assert whole_of(text.encode(), Kind.I32) == value


@pytest.mark.parametrize(
    "text",
    ["x", "", "+", "--5", "5 ", " 5", "7.5", "1_0", "5L", "0x5", "2147483648", "9" * 100, "𝟓"],
)
def test_what_is_no_integer(text: str) -> None:
    with pytest.raises(NotComparable):
        whole_of(text.encode(), Kind.I32)


def test_longs_are_wider() -> None:
    for value in (2**63 - 1, -(2**63), 2**31):
        assert whole_of(str(value).encode(), Kind.I64) == value
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(NotComparable):
            whole_of(str(value).encode(), Kind.I64)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5.0),
        ("7.5", 7.5),
        (" 7.5\t", 7.5),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-1E-3", -0.001),
        ("5f", 5.0),
        ("5D", 5.0),
        ("0x1.8p1", 3.0),
        ("-0X1P3", -8.0),
        ("0x1p9999", math.inf),
        ("1e999", math.inf),
        ("-Infinity", -math.inf),
        ("1" * NUMBER_BYTES_MAX, float("1" * NUMBER_BYTES_MAX)),
    ],
)
def test_doubles(text: str, value: float) -> None:
    assert double_of(text.encode()) == value


def test_what_is_not_a_number_is_a_double() -> None:
    assert math.isnan(double_of(b"NaN"))


@pytest.mark.parametrize(
    "text", ["", "x", "1_0", "nan", "inf", "infinity", "1e", "0x1", "5L", "1,5", "٥", "5ff"]
)
def test_what_is_no_double(text: str) -> None:
    with pytest.raises(NotComparable):
        double_of(text.encode())


def test_booleans() -> None:
    assert [boolean_of(text) for text in (b"true", b"TRUE", b"yes", b"", b"1")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_doubles_have_javas_order() -> None:
    ordered = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    for number, left in enumerate(ordered):
        for other, right in enumerate(ordered):
            assert order_of(left, right) == (number > other) - (number < other)


@pytest.mark.parametrize(
    ("left", "left_kind", "right", "right_kind", "order"),
    [
        (5, Kind.I32, 7, Kind.I64, -1),
        (5, Kind.I64, 5.5, Kind.DOUBLE, -1),
        (2**53 + 1, Kind.I64, float(2**53), Kind.DOUBLE, 0),
        (b"7", Kind.TEXT, 5, Kind.I32, 1),
        (5, Kind.I32, b"7", Kind.TEXT, -1),
        (b"7.5", Kind.TEXT, 7.5, Kind.DOUBLE, 0),
        (b"TRUE", Kind.TEXT, True, Kind.BOOLEAN, 0),
        (b"a", Kind.TEXT, b"b", Kind.TEXT, -1),
        (True, Kind.BOOLEAN, 5, Kind.I32, -1),
        (5, Kind.I32, True, Kind.BOOLEAN, -1),
    ],
)
def test_values_of_different_kinds(
    left: object, left_kind: Kind, right: object, right_kind: Kind, order: int
) -> None:
    assert compared(left, left_kind, right, right_kind) == order  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left", "left_kind", "right", "right_kind"),
    [
        (True, Kind.BOOLEAN, b"true", Kind.TEXT),  # a class-cast exception
        (b"3000000000", Kind.TEXT, 5, Kind.I32),
        (5, Kind.I32, b"x", Kind.TEXT),
    ],
)
def test_values_that_java_cannot_compare(
    left: object, left_kind: Kind, right: object, right_kind: Kind
) -> None:
    with pytest.raises(NotComparable):
        compared(left, left_kind, right, right_kind)  # type: ignore[arg-type]


def test_literals_have_the_smallest_kind_that_holds_them() -> None:
    literals = [None, True, "x", 1.5, 2**31 - 1, 2**31]
    assert [kind_of(value) for value in literals] == [
        Kind.NULL,
        Kind.BOOLEAN,
        Kind.TEXT,
        Kind.DOUBLE,
        Kind.I32,
        Kind.I64,
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5.0, "5.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (1234567.5, "1234567.5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.5e10, "1.5E10"),
        (1e-7, "1.0E-7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (123456789012345680.0, "1.2345678901234568E17"),
    ],
)
def test_doubles_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert double_text(value) == text


def test_a_text_that_is_too_long_is_no_number() -> None:
    """It would be read again for every comparison of a filter that names it."""
    for read in (lambda text: whole_of(text, Kind.I64), double_of):
        with pytest.raises(NotComparable):
            read(b"0" * NUMBER_BYTES_MAX + b"7")
