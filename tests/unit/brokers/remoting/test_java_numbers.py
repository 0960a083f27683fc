"""Numbers exactly as Java reads them; beside it Java's own way of reading, digit by digit."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting.java_numbers import NUMBER_CHARACTERS_MAX, whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", 12),
        ("+3", 3),
        ("-1", -1),
        ("007", 7),
        ("-0", 0),
        ("0" * 30 + "5", 5),
        (str(2**63 - 1), 2**63 - 1),
        (str(-(2**63)), -(2**63)),
        ("\u0661\u0662", 12),
        ("-\uff13", -3),
        ("1\u0662", 12),
        ("", None),
        ("+", None),
        ("-", None),
        ("--1", None),
        ("+-1", None),
        ("1-", None),
        ("1_0", None),
        (" 1", None),
        ("1 ", None),
        ("1\n", None),
        ("1.5", None),
        ("1e3", None),
        ("0x1", None),
        ("1L", None),
        ("\u00b2", None),
        ("\u2460", None),
        ("\U0001d7cf", None),
        ("null", None),
        (str(2**63), None),
        (str(-(2**63) - 1), None),
        ("9" * 5_000, None),
    ],
)
def test_a_number_is_what_java_reads_as_one(text: str, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (str(2**31 - 1), 2**31 - 1),
        (str(-(2**31)), -(2**31)),
        (str(2**31), None),
        (str(-(2**31) - 1), None),
        ("2147483648", None),
    ],
)
def test_an_int_has_32_bits(text: str, number: int | None) -> None:
    assert whole_number(text, 32) == number


def java(text: str, bits: int) -> int | None:
    """`Long.parseLong(text)`: one UTF-16 unit after the other, a surrogate is no digit."""
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    total = 0
    for one in digits:
        if ord(one) > 0xFFFF or unicodedata.category(one) != "Nd":
            return None
        total = total * 10 + unicodedata.decimal(one)
    total = -total if sign == "-" else total
    return total if digits and -(2 ** (bits - 1)) <= total < 2 ** (bits - 1) else None


@given(
    st.text(
        st.sampled_from("0123456789+-_ .eLx\u0661\uff19\u00b2\U0001d7cf"),
        max_size=NUMBER_CHARACTERS_MAX,
    ),
    st.sampled_from([32, 64]),
)
def test_it_agrees_with_javas_way_of_reading(text: str, bits: int) -> None:
    assert whole_number(text, bits) == java(text, bits)


@given(st.integers(-(2**64), 2**64), st.sampled_from([32, 64]))
def test_every_number_is_read_or_does_not_fit(value: int, bits: int) -> None:
    assert whole_number(str(value), bits) == java(str(value), bits)
