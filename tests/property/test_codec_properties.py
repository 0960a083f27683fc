"""Codec: every record comes back; any bytes give a record or the one kind of error."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

import schemas
from events import codec
from events.codec import (
    HEADER_BYTES,
    CodecError,
    MalformedRecord,
    UnknownFingerprint,
    decode,
    encode,
)
from tests.support.examples import examples

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
LONG = st.integers(-(2**63), 2**63 - 1)
BYTES = st.binary(max_size=40)
PRIMITIVES = {"string": TEXT, "long": LONG, "boolean": st.booleans(), "bytes": BYTES}


def values(schema, seen=None):
    """Return a strategy for the values of a schema, built into our classes."""
    seen = {} if seen is None else seen
    if isinstance(schema, str):
        return PRIMITIVES[schema] if schema in PRIMITIVES else seen[schema]
    if isinstance(schema, list):
        branches = [st.none() if b == "null" else values(b, seen) for b in schema]
        return st.one_of(branches)
    kind = schema["type"]
    if kind == "array":
        return st.lists(values(schema["items"], seen), max_size=3).map(tuple)
    if kind == "map":
        return st.dictionaries(TEXT, values(schema["values"], seen), max_size=3)
    if kind == "fixed":
        made = st.binary(min_size=schema["size"], max_size=schema["size"])
    else:
        fields = {f["name"]: values(f["type"], seen) for f in schema["fields"]}
        made = st.builds(codec._CLASSES[schema["name"]], **fields)
    seen[f"regent.{schema['name']}"] = made
    return made


RECORDS = st.one_of([values(schemas.load(cls.__name__)) for cls in codec.RECORD_CLASSES])
NOISE = st.binary(max_size=300)
HEADERS = st.sampled_from([encoded.header for encoded in codec._BY_CLASS.values()])


@settings(max_examples=examples(300), deadline=None)
@given(RECORDS)
def test_every_record_comes_back(record):
    assert decode(encode(record)) == record


@settings(max_examples=examples(200), deadline=None)
@given(RECORDS, st.data())
def test_no_part_of_a_record_is_a_record(record, data):
    encoded = encode(record)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    try:
        decode(encoded[:cut])
    except MalformedRecord:
        return
    raise AssertionError(f"{cut} of {len(encoded)} bytes were taken for a record")


@settings(max_examples=examples(200), deadline=None)
@given(RECORDS, st.binary(min_size=1, max_size=50))
def test_nothing_may_follow_a_record(record, rest):
    try:
        decode(encode(record) + rest)
    except MalformedRecord:
        return
    raise AssertionError("bytes after a record were swallowed")


@settings(max_examples=examples(500), deadline=None)
@given(st.one_of(NOISE, st.tuples(HEADERS, NOISE).map(b"".join)))
def test_any_bytes_give_a_record_or_a_codec_error(data):
    try:
        decode(data)
    except CodecError:
        pass


@settings(max_examples=examples(300), deadline=None)
@given(RECORDS, st.data())
def test_a_record_with_flipped_bytes_is_another_record_or_a_codec_error(record, data):
    encoded = bytearray(encode(record))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(encoded))
    except (MalformedRecord, UnknownFingerprint):
        pass


def by_fastavro(record):
    """Return what fastavro makes of a record: its bytes, or why it has none."""
    form = codec._codec_of(record)
    try:
        data = codec._encode_slowly(record, form)
    except MalformedRecord as error:
        return error.reason
    return (
        data
        if len(data) <= form.bytes_max
        else (f"record of {len(data)} bytes, limit {form.bytes_max}")
    )


def encoded(record):
    try:
        return encode(record)
    except MalformedRecord as error:
        return error.reason


@settings(max_examples=examples(400), deadline=None)
@given(RECORDS)
def test_a_record_has_the_bytes_that_fastavro_gives_it(record):
    assert encode(record) == by_fastavro(record)


ODD = [
    None,
    True,
    False,
    1,
    -1,
    1.5,
    2**63,
    -(2**63) - 1,
    "",
    "x",
    "\ud800",
    b"",
    b"x" * 16,
    bytearray(16),
    (),
    (1,),
    (True,),
    ("x",),
    (None,),
    [],
    ["x"],
    {},
    {"a": 1},
    {"a": "x"},
    {1: "x"},
    {"a": True},
    object(),
    "x" * 300_000,
]


def with_something_odd(value, data):
    """Return the record with one value, at any depth, replaced by what nobody would put there."""
    if isinstance(value, Struct):
        field = data.draw(st.sampled_from(value.__struct_fields__))
        inner = getattr(value, field)
        deeper = isinstance(inner, Struct | tuple) and inner != () and data.draw(st.booleans())
        return replace(
            value,
            **{
                field: with_something_odd(inner, data)
                if deeper
                else data.draw(st.sampled_from(ODD))
            },
        )
    if isinstance(value, tuple) and value:
        at = data.draw(st.integers(0, len(value) - 1))
        return (*value[:at], with_something_odd(value[at], data), *value[at + 1 :])
    return data.draw(st.sampled_from(ODD))


@settings(max_examples=examples(600), deadline=None)
@given(RECORDS, st.data())
def test_what_has_no_bytes_is_what_fastavro_refuses_for_the_same_reason(record, data):
    odd = with_something_odd(record, data)
    try:
        expected = by_fastavro(odd)
    except Exception as error:
        # A list of changes that is none: so it was before there was a faster way.
        try:
            encode(odd)
        except Exception as ours:
            assert type(ours) is type(error)
            return
        raise
    assert encoded(odd) == expected


def test_the_header_is_as_long_as_it_says():
    assert HEADER_BYTES == 10
