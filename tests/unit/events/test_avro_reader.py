"""The fast reader: the same records as fastavro reads, and nothing that fastavro would read
otherwise.
"""

from io import BytesIO

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from events import avro_reader
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
    times: dict[str, int]


PART = {
    "type": "record",
    "name": "regent.Part",
    "fields": [{"name": "number", "type": "long"}, {"name": "usual", "type": "long"}],
}
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
    "times": {"type": "map", "values": "long"},
}
SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "regent.Whole",
        "fields": [{"name": n, "type": t} for n, t in FIELDS.items()],
    }
)
CLASSES = {cls.__name__: cls for cls in (Part, Other, Whole)}
read = reader_of(SCHEMA, CLASSES)

# Negative ones of two to five bytes are left to fastavro.
NUMBERS = st.integers(-64, 2**62 - 1) | st.integers(-(2**62), -(2**34) - 1)
PARTS = st.builds(Part, NUMBERS, st.just(2_147_483_647) | NUMBERS)
RECORDS = st.builds(
    Whole,
    st.binary(min_size=4, max_size=4),
    st.text(max_size=200),
    st.binary(max_size=200),
    st.booleans(),
    NUMBERS,
    st.none() | st.text(max_size=9),
    st.tuples(PARTS, PARTS),
    st.lists(PARTS, max_size=130).map(tuple),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
    st.lists(PARTS | st.builds(Other, st.text(max_size=3)), max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=3), st.integers(2**40, 2**41) | NUMBERS, max_size=3),
)


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


SAMPLE = Whole(
    b"mark",
    "texté",
    b"data",
    True,
    -7,
    "x",
    (Part(8192),),
    (Part(-(2**34) - 1, 5),),
    {"a": "b"},
    (Other("o"), Part(1)),
    {"applied": 1_767_225_600_000, "probed": 1_767_225_600_007},
)


@given(RECORDS)
def test_what_was_written_is_read(record):
    assert read(written(record), 0) == record


def test_the_body_may_begin_anywhere_and_ends_with_the_bytes():
    assert read(b"head" + written(SAMPLE), 4) == SAMPLE
    with pytest.raises(Unusual):
        read(written(SAMPLE) + b"\x00", 0)


@pytest.mark.parametrize(
    "number",
    [0, -1, 63, 64, -64, 127, 128, 8191, 8192, 2**20 - 1, 2**20, -(2**34) - 1, 2**62 - 1, -(2**62)],
)
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
    except Exception:
        return
    body = BytesIO(bad)
    theirs = fastavro.schemaless_reader(
        body, SCHEMA, None, return_record_name=True, return_record_name_override=True
    )
    assert body.tell() == len(bad)
    theirs["either"] = [one for _, one in theirs["either"]]
    assert {**_plain(ours), "either": [_plain(one) for one in ours.either]} == theirs


@pytest.mark.parametrize(
    "body",
    [
        b"\x80\x00\x02",
        b"\x82\x80\x00\x02",
        b"\x80\x80\x00\x02",
        b"\x82\x80\x80\x00\x02",
        b"\x80\x81\x80\x80\x00\x02",
    ],
    ids=repr,
)
def test_a_number_in_more_bytes_than_it_needs_is_read_as_fastavro_does(body):
    number_reader = reader_of(fastavro.parse_schema(PART), CLASSES)
    assert _plain(number_reader(body, 0)) == fastavro.schemaless_reader(BytesIO(body), PART, None)


@pytest.mark.parametrize("bits", range(1, 62))
def test_a_number_of_any_length_is_what_fastavro_wrote(bits):
    number_reader = reader_of(fastavro.parse_schema(PART), CLASSES)
    for number in (2**bits - 1, 2**bits, -(2**40) - 2**bits):
        body = BytesIO()
        fastavro.schemaless_writer(body, PART, {"number": number, "usual": 1})
        assert number_reader(body.getvalue(), 0) == Part(number, 1)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x81\x01\x02", id="a negative number of two bytes"),
        pytest.param(b"\x81\x80\x01\x02", id="a negative number of three bytes"),
        pytest.param(b"\x81\x80\x80\x01\x02", id="a negative number of four bytes"),
        pytest.param(b"\x81\x80\x80\x80\x01\x02", id="a negative number of five bytes"),
        pytest.param(b"\x80\x80\x80\x80\x80\x00\x02", id="a number in six bytes that needs one"),
        pytest.param(b"\xff" * 9 + b"\x01\x02", id="a number wider than 63 bits"),
        pytest.param(b"\x02", id="a byte too few"),
    ],
)
def test_what_encode_hardly_ever_writes_is_left_to_fastavro(body):
    with pytest.raises((Unusual, IndexError, TypeError)):
        reader_of(fastavro.parse_schema(PART), CLASSES)(body, 0)


# --- what is remembered --------------------------------------------------------------------


class Headed(Struct, frozen=True):
    cluster_id: str
    term: int
    issuer: str


class Timed(Struct, frozen=True):
    headed: Headed
    issued_at_ms: int
    alive: bool
    reason: str


HEADED = {
    "type": "record",
    "name": "regent.Headed",
    "fields": [
        {"name": "cluster_id", "type": "string"},
        {"name": "term", "type": "long"},
        {"name": "issuer", "type": "string"},
    ],
}
TIMED = {
    "type": "record",
    "name": "regent.Timed",
    "fields": [
        {"name": "headed", "type": HEADED},
        {"name": "issued_at_ms", "type": "long"},
        {"name": "alive", "type": "boolean"},
        {"name": "reason", "type": "string"},
    ],
}
TIMES = st.integers(1_700_000_000_000, 1_700_000_000_000 + 2**15) | st.integers(0, 2**62 - 1)


def timed_reader():
    return reader_of(fastavro.parse_schema(TIMED), {cls.__name__: cls for cls in (Headed, Timed)})


def timed(record: Timed) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, TIMED, _plain(record))
    return out.getvalue()


HEADS = st.builds(
    Headed,
    st.sampled_from(["c1", "c2", "ü" * 70]),
    st.integers(0, 300),
    st.sampled_from(["", "n0", "n00"]),
)


@given(
    st.lists(
        st.builds(
            Timed,
            HEADS,
            TIMES,
            st.booleans(),
            st.sampled_from(["heartbeat", "asked", "heartbeats"]),
        )
    )
)
def test_what_came_before_does_not_show_in_what_is_read(records):
    one_reader = timed_reader()
    for record in records:
        assert one_reader(timed(record), 0) == record


def test_bytes_that_ended_too_early_are_not_remembered():
    """Or the next whole record would get the text that was cut short."""
    whole = Timed(Headed("c1", 1, "controller"), 1_700_000_000_000, True, "heartbeat")
    torn = timed(Timed(Headed("c1", 1, ""), 0, False, ""))[:5] + b"\x14"
    one_reader = timed_reader()
    for end in range(len(timed(whole))):
        with pytest.raises((Unusual, IndexError)):
            one_reader(timed(whole)[:end], 0)
        with pytest.raises((Unusual, IndexError)):
            one_reader(torn, 0)
        assert one_reader(timed(whole), 0) == whole


def test_texts_that_came_before_are_one_object_and_bounded():
    one_reader = timed_reader()
    first, again = (
        one_reader(timed(Timed(Headed("same", at, "n0"), 0, False, "asked")), 0) for at in range(2)
    )
    assert first.headed.cluster_id is again.headed.cluster_id
    for number in range(2 * avro_reader._TEXTS_MAX):
        one_reader(
            timed(Timed(Headed(f"cluster {number}", 1, "n0"), number << 20, False, "asked")), 0
        )
    assert len(avro_reader._TEXTS) <= avro_reader._TEXTS_MAX
    assert len(avro_reader._HIGH) <= avro_reader._HIGH_MAX
