"""The fast writer: the bytes that fastavro writes, and nothing that fastavro would not write so."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from events.avro_reader import Unusual
from events.avro_writer import writer_of
from tests.unit.events.test_avro_reader import (
    CLASSES,
    NUMBERS,
    RECORDS,
    SAMPLE,
    SCHEMA,
    Other,
    Part,
    Whole,
    written,
)

write = writer_of(SCHEMA, CLASSES)
EDGES = [
    sign * (1 << bits) + more
    for bits in (0, 6, 7, 13, 14, 20, 21, 27, 28, 34, 41, 42, 48, 55, 61, 62)
    for sign in (1, -1)
    for more in (-1, 0, 1)
]


@given(RECORDS)
def test_what_is_written_is_what_fastavro_writes(record):
    assert write(record) == written(record)


@given(NUMBERS | st.sampled_from([2**63 - 1, -(2**63)]))
def test_numbers_of_every_width(number):
    part = replace(SAMPLE, number=number)
    assert write(part) == written(part)


@pytest.mark.parametrize("number", EDGES)
def test_numbers_where_the_width_changes(number):
    part = replace(SAMPLE, number=number)
    assert write(part) == written(part)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 8191, 8192, 200_000])
def test_texts_and_bytes_of_every_length(length):
    for part in (
        replace(SAMPLE, text="é" * length),
        replace(SAMPLE, data=b"x" * length),
        replace(SAMPLE, maybe="x" * length),
    ):
        assert write(part) == written(part) == write(part)


def test_what_was_written_before_does_not_change_what_is_written_now():
    """Texts are remembered: many of them, and of any kind."""
    for number in range(3_000):
        part = replace(SAMPLE, text=f"text {number}", maybe="é" * (number % 70))
        assert write(part) == written(part)


def test_a_head_goes_before_the_record():
    assert writer_of(SCHEMA, CLASSES, b"head\x00'")(SAMPLE) == b"head\x00'" + written(SAMPLE)


class Text(str):
    """Not what a schema means by a text."""


UNUSUAL = st.sampled_from(
    [
        None,
        True,
        1,
        -1,
        1.5,
        2**63,
        -(2**63) - 1,
        "x",
        "\ud800",
        b"x",
        bytearray(b"mark"),
        memoryview(b"mark"),
        (),
        ("x",),
        [],
        [Part(1)],
        {},
        {"a": 1},
        {1: "a"},
        {"a": None},
        (1,),
        (None,),
        (Part(True),),
        (Part("1"),),
        (Part(2**64),),
        object(),
        SAMPLE,
        Part(1),
    ]
)


@given(st.sampled_from(Whole.__struct_fields__), UNUSUAL)
@example("text", Text("x"))
@example("mark", b"shor")
@example("mark", b"short")
def test_what_a_schema_does_not_mean_is_left_to_fastavro(field, value):
    record = replace(SAMPLE, **{field: value})
    try:
        ours = write(record)
    except Exception:
        return
    assert ours == written(record)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", True),
        ("number", 1.0),
        ("number", 2**63),
        ("flag", 1),
        ("text", None),
        ("maybe", 1),
        ("mark", b"shor" * 2),
        ("data", bytearray(b"x")),
        ("parts", [Part(1)]),
        ("parts", (Other("x"),)),
        ("names", {1: "a"}),
        ("either", (SAMPLE,)),
    ],
)
def test_values_of_another_type_are_not_guessed_at(field, value):
    with pytest.raises((Unusual, KeyError, TypeError)):
        write(replace(SAMPLE, **{field: value}))


def test_another_record_is_not_written_under_this_ones_name():
    with pytest.raises(Unusual):
        write(Part(1))
