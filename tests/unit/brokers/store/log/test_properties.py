"""Properties text, hashes and tag codes against the reference's values."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from brokers.store.log.properties import (
    SCHEDULE_TOPIC,
    decode_properties,
    delay_level,
    encode_properties,
    java_string_hash,
    property_value,
    tags_code,
)

TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
VALUE = st.text(st.characters(exclude_characters="\x02", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("TagA", 2598919), ("TagB", 2598920), ("TAG1", 2567159), ("标签", 857175), ("", 0)],
)
def test_string_hash_is_that_of_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_string_hash_wraps_to_a_signed_word() -> None:
    assert java_string_hash("polygenelubricants") == -(1 << 31)


def test_string_hash_counts_utf16_units() -> None:
    high, low = 0xD83D, 0xDE00
    assert java_string_hash("\U0001f600") == 31 * high + low


@given(st.dictionaries(TEXT, VALUE))
@example({"a": "b\x01c\x01"})
def test_properties_come_back_as_they_were_written(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize(
    "properties",
    [
        {"": "v"},
        {"k": ""},
        {"a\x01": "v"},
        {"a": "v\x02"},
        {"a\x02": "v"},
        {"a\x01": "v", "b": "\x01"},
    ],
)
def test_properties_that_cannot_be_written_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ValueError):
        encode_properties(properties)


def test_a_missing_last_separator_and_empty_entries_are_accepted() -> None:
    assert decode_properties(b"\x02a\x01b\x02\x01x\x02c\x01\x02TAGS\x01t") == {
        "a": "b",
        "TAGS": "t",
    }


def test_the_last_of_equal_names_wins() -> None:
    data = b"TAGS\x01one\x02UNIQ_KEY\x01k\x02TAGS\x01two\x02"
    assert decode_properties(data)["TAGS"] == "two"
    assert property_value(data, b"TAGS") == b"two"


@given(st.binary())
def test_any_bytes_have_properties(data: bytes) -> None:
    decode_properties(data)
    property_value(data, b"TAGS")


def test_a_name_inside_another_name_or_value_is_not_found() -> None:
    assert property_value(b"MYTAGS\x01x\x02a\x01TAGS\x02", b"TAGS") is None


@pytest.mark.parametrize(
    ("properties", "topic", "expected"),
    [
        (b"TAGS\x01TagA\x02", "T", 2598919),
        (b"KEYS\x01k\x02", "T", 0),
        (b"DELAY\x011\x02TAGS\x01TagA\x02", SCHEDULE_TOPIC, 6000),
        (b"DELAY\x011\x02TAGS\x01TagA\x02", "T", 2598919),
        (b"DELAY\x010\x02TAGS\x01TagA\x02", SCHEDULE_TOPIC, 2598919),
        (b"DELAY\x0199\x02", SCHEDULE_TOPIC, 5000 + 7_200_000),
    ],
)
def test_tags_code_follows_the_table(properties: bytes, topic: str, expected: int) -> None:
    assert tags_code(properties, topic, 5000) == expected


@pytest.mark.parametrize(
    ("text", "level"), [(b"3", 3), (b"18", 18), (b"19", 18), (b"0", 0), (b"-1", 0), (b"x", 0)]
)
def test_delay_levels_are_bounded(text: bytes, level: int) -> None:
    assert delay_level(b"DELAY\x01" + text + b"\x02") == level
