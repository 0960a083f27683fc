"""Headers: the compiled reader of JSON headers takes nothing that the careful one reads
otherwise.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.remoting.headers import FrameError, decode_header, decode_json_carefully
from tests.support.examples import examples

USUAL = (
    b'{"code":310,"extFields":{"a":"pg","b":"T","i":"KEYS\\u0001k\\u0002"},"flag":0,"language":'
    b'"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)


def outcome(read, *arguments):
    try:
        return read(*arguments)
    except FrameError as error:
        return error.reason


def both(header: bytes) -> None:
    assert outcome(decode_header, 0, header, b"body") == outcome(
        decode_json_carefully, header, b"body"
    )


@pytest.mark.parametrize(
    "header",
    [
        USUAL,
        b"{}",
        b'{"code":1.0}',
        b'{"code":-0}',
        b'{"code":2147483648}',
        b'{"opaque":true}',
        b'{"remark":null,"extFields":null}',
        b'{"remark":""}',
        b'{"language":"KLINGON"}',
        b'{"language":3}',
        b'{"language":null}',
        b'{"extFields":{"a":1,"b":null}}',
        b'{"extFields":{"a":"1","a":"2"}}',
        b'{"unknown":"\xff"}',
        b'{"unknown":"\x01"}',
        b'{"unknown":[[1,{"a":"\\ud800"}]]}',
        b'{"serializeTypeCurrentRPC":0}',
        b'{"c\\u006fde":5}',
        b'{"remark":"\\ud83d\\ude00"}',
        b'{"remark":"\\ud83d"}',
        b'{"remark":"\xed\xa0\x80"}',
        b'\xef\xbb\xbf{"code":1}',
        b' {"code" : 1 }\n',
        b'{"code":1}\x00',
        b'{"code":1,}',
        b'{"body":"aGk=","serialization":1,"ext":{"a":"b"}}',
    ],
)
def test_both_readers_read_and_refuse_the_same(header):
    both(header)


words = st.sampled_from(
    [
        "code",
        "opaque",
        "flag",
        "version",
        "language",
        "remark",
        "extFields",
        "serializeTypeCurrentRPC",
        "x",
        "JAVA",
        "",
        "1",
        "\u2028",
    ]
)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**33), 2**33)
    | st.floats()
    | words
    | st.text(max_size=5)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=examples(300))
@given(st.dictionaries(words, values, max_size=8), st.booleans())
def test_any_json_object_is_read_alike(fields, ascii_only):
    try:
        header = json.dumps(fields, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    both(header)


@settings(max_examples=examples(300))
@given(st.integers(0, len(USUAL) - 1), st.binary(min_size=0, max_size=3), st.integers(0, 3))
def test_a_usual_header_with_damage_anywhere_is_read_alike(at, put_in, taken_out):
    both(USUAL[:at] + put_in + USUAL[at + taken_out :])
