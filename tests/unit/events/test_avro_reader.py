"""The fast reader: the same records as fastavro reads, and nothing that fastavro would read otherwise."""

from io import BytesIO

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from events.avro_reader import Unusual, reader_of


class Part(Struct, frozen=True):
    number: int
    usual: int = 2_147_483_647


class Other(Struct, frozen=True):
    text: str


class Whole(Struct, frozen=True):
    mark: bytes
    text: str
    data: bytes
    flag: bool
    number: int
    maybe: str | None
    parts: tuple[Part, ...]
    more: tuple[Part, ...]
    names: dict[str, str]
    either: tuple[Part | Other, ...]


PART = {
    "type": "record", "name": "regent.Part", "fields": [
        {"name": "number", "type": "long"}, {"name": "usual", "type": "long"},
    ],
}  # fmt: skip
OTHER = {"type": "record", "name": "regent.Other", "fields": [{"name": "text", "type": "string"}]}
FIELDS = {
    "mark": {"type": "fixed", "name": "regent.Mark", "size": 4},
    "text": "string",
    "data": "bytes",
    "flag": "boolean",
    "number": "long",
    "maybe": ["null", "string"],
    "parts": {"type": "array", "items": PART},
    "more": {"type": "array", "items": "regent.Part"},
    "names": {"type": "map", "values": "string"},
    "either": {"type": "array", "items": ["regent.Part", OTHER]},
}
SCHEMA = fastavro.parse_schema(
    {"type": "record", "name": "regent.Whole", "fields": [{"name": n, "type": t} for n, t in FIELDS.items()]}
)
CLASSES = {cls.__name__: cls for cls in (Part, Other, Whole)}
read = reader_of(SCHEMA, CLASSES)

NUMBERS = st.integers(-(2**62), 2**62 - 1)
PARTS = st.builds(Part, NUMBERS, st.just(2_147_483_647) | NUMBERS)
RECORDS = st.builds(
    Whole, st.binary(min_size=4, max_size=4), st.text(max_size=200), st.binary(max_size=200), st.booleans(), NUMBERS,
    st.none() | st.text(max_size=9), st.tuples(PARTS, PARTS), st.lists(PARTS, max_size=130).map(tuple),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
    st.lists(PARTS | st.builds(Other, st.text(max_size=3)), max_size=3).map(tuple),
)  # fmt: skip


def _plain(value):
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def written(record: Whole) -> bytes:
    plain = _plain(record)
    plain["either"] = [(f"regent.{type(one).__name__}", _plain(one)) for one in record.either]
    out = BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, plain)
    return out.getvalue()


SAMPLE = Whole(b"mark", "texté", b"data", True, -70, "x", (Part(8192),), (Part(-8193, 5),), {"a": "b"}, (Other("o"), Part(1)))


@given(RECORDS)
def test_what_was_written_is_read(record):
    assert read(written(record), 0) == record


def test_the_body_may_begin_anywhere_and_ends_with_the_bytes():
    assert read(b"head" + written(SAMPLE), 4) == SAMPLE
    with pytest.raises(Unusual):
        read(written(SAMPLE) + b"\x00", 0)


@pytest.mark.parametrize("number", [0, -1, 63, 64, -64, -65, 8191, 8192, -8193, 2**20 - 1, 2**20, -(2**20) - 1, 2**62 - 1, -(2**62)])
def test_numbers_of_every_width(number):
    number_reader = reader_of(fastavro.parse_schema(PART), CLASSES)
    out = BytesIO()
    fastavro.schemaless_writer(out, PART, {"number": number, "usual": number})
    assert number_reader(out.getvalue(), 0) == Part(number, number)


@given(st.data())
def test_bytes_that_are_read_are_read_as_fastavro_does(data):
    good = written(SAMPLE)
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + data.draw(st.binary(max_size=3)) + good[at + data.draw(st.integers(0, 3)) :]
    try:
        ours = read(bad, 0)
    except Exception:  # noqa: BLE001 - whatever it is, fastavro is asked then.
        return
    body = BytesIO(bad)
    theirs = fastavro.schemaless_reader(body, SCHEMA, None, return_record_name=True, return_record_name_override=True)
    assert body.tell() == len(bad)
    theirs["either"] = [one for _, one in theirs["either"]]
    assert {**_plain(ours), "either": [_plain(one) for one in ours.either]} == theirs


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x80\x00\x02", id="a number in more bytes than it needs"),
        pytest.param(b"\x80\x00\x02\x02", id="the same where three bytes would fit what follows"),
        pytest.param(b"\x80\x80\x00\x02", id="the same in three"),
        pytest.param(b"\x80\x80\x80\x00\x02", id="the same in four"),
        pytest.param(b"\xff" * 9 + b"\x01\x02", id="a number wider than 63 bits"),
        pytest.param(b"\x02", id="a byte too few"),
    ],
)
def test_what_encode_never_writes_is_left_to_fastavro(body):
    with pytest.raises((Unusual, IndexError)):
        reader_of(fastavro.parse_schema(PART), CLASSES)(body, 0)
