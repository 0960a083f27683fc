"""Bodies as Java writes them: unquoted integer keys and objects as keys, within limits."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting import fastjson
from brokers.remoting.codec import FrameDecoder
from brokers.remoting.fastjson import (
    BODY_BYTES_MAX,
    DEPTH_MAX,
    OBJECT_KEYS_BYTES_MAX,
    TABLE_BYTES_MAX,
    JsonRejected,
)

WIRE = Path(__file__).parents[3] / "golden" / "wire"


def recorded_json_bodies() -> list[bytes]:
    lines = [
        json.loads(line)
        for path in sorted(WIRE.glob("*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    bodies = [FrameDecoder().feed(bytes.fromhex(line["raw_hex"]))[0].body for line in lines]
    return [body for body in bodies if body[:1] == b"{"]


def test_unquoted_integer_keys_become_text():
    assert fastjson.loads(b'{"brokerAddrs":{0:"a:1",1:"b:2",-3:"c:3"}}') == {
        "brokerAddrs": {"0": "a:1", "1": "b:2", "-3": "c:3"}
    }


def test_an_object_used_as_key_becomes_its_canonical_text():
    value = fastjson.loads(
        '{"offsetTable":{{"topic":"T","queueId":1, "brokerName":"b"}:9,{"queueId":2}:8}}'
    )
    assert value == {
        "offsetTable": {('{"brokerName":"b","queueId":1,"topic":"T"}'): 9, '{"queueId":2}': 8}
    }


def test_text_that_looks_like_a_key_stays_text():
    assert fastjson.loads('{0:"{1:2,\\"a\\":[",1:"\\\\"}') == {"0": '{1:2,"a":[', "1": "\\"}


def test_standard_json_is_read_as_it_is():
    assert fastjson.loads(b'[{"a":[1,2.5,null,true,"\\u00e9"]}]') == [
        {"a": [1, 2.5, None, True, "é"]}
    ]


def test_of_duplicate_keys_the_last_wins_in_both_dialects():
    assert fastjson.loads('{"a":1,"a":2}') == {"a": 2}
    assert fastjson.loads("{1:1,1:2}") == {"1": 2}


def test_every_recorded_json_body_is_read_and_written_to_an_equal_one():
    bodies = recorded_json_bodies()
    assert any(b"{0:" in body for body in bodies)
    for body in bodies:
        value = fastjson.loads(body)
        assert fastjson.loads(fastjson.dumps(value)) == without_none(value)


def without_none(value):
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "}",
        "{1",
        "{1:",
        "{1:}",
        "{1:2",
        "{1:2,",
        "{1:2,}",
        "{1:2}}",
        "{1:2} 3",
        "[1:2]",
        "{1 2}",
        "{,1:2}",
        "{a:1}",
        "{true:1}",
        "{1.5:1}",
        "{null:1}",
        "{1:NaN}",
        "NaN",
        '{1:"a}',
        '{1:"\\x"}',
        "{1:2,,3:4}",
        "[1,]",
        "nul",
        "{01:1}",
        "[1,2:3]",
        "{1:" + "9" * 5_000 + "}",
    ],
)
def test_anything_else_is_rejected(text):
    with pytest.raises(JsonRejected):
        fastjson.loads(text)


def test_bytes_that_are_no_utf8_are_rejected():
    with pytest.raises(JsonRejected):
        fastjson.loads(b'{"a":"\xff"}')


@pytest.mark.parametrize("text", ["[" * 200_000, "{1:" * 200_000, "{" * 200_000, '{"a":' * 200_000])
def test_deep_nesting_is_rejected(text):
    with pytest.raises(JsonRejected):
        fastjson.loads(text)


def test_objects_as_keys_are_read_down_to_the_named_depth():
    # The object, its key and that key's own key lie three levels deeper.
    inside = DEPTH_MAX - 3
    assert fastjson.loads("[" * inside + "{{1:2}:3}" + "]" * inside)
    with pytest.raises(JsonRejected, match="deep"):
        fastjson.loads("[" * (inside + 1) + "{{1:2}:3}" + "]" * (inside + 1))


def test_a_body_above_the_size_limit_is_rejected_unread():
    with pytest.raises(JsonRejected, match="allowed"):
        fastjson.loads(bytes(BODY_BYTES_MAX + 1))


def test_objects_as_keys_are_read_in_small_bodies_only():
    assert len(fastjson.loads("{{1:2}:3," + "4:5," * 10 + "6:7}")) == 3
    large = "{{1:2}:3," + "4:5," * (OBJECT_KEYS_BYTES_MAX // 4) + "6:7}"
    with pytest.raises(JsonRejected):
        fastjson.loads(large)


def test_tables_may_be_larger_than_other_bodies_and_have_integer_keys_at_any_size():
    count = BODY_BYTES_MAX // 8
    text = "{" + ",".join(f'{number}:"{{{number}:"' for number in range(count)) + "}"
    assert BODY_BYTES_MAX < len(text) <= TABLE_BYTES_MAX
    with pytest.raises(JsonRejected, match="allowed"):
        fastjson.loads(text)
    value = fastjson.loads(text, TABLE_BYTES_MAX)
    assert len(value) == count and value["7"] == "{7:"


@pytest.mark.parametrize(
    ("start", "repeated"),
    [
        ('["', '\\"'),
        ('{1:"', '\\"'),
        ('{{1:2}:"', '\\"'),
        ('{1:"', "\\"),
        ('{1:"', "a"),
        ("{1:2,", '"'),
        ("{1:", '"\\"'),
        ("{", " "),
        ("{1", " "),
        ("{-", "1"),
        ("{1:2,{", '"'),
        ("{[", '"a",'),
        ("{1:[", '"\\"",'),
        ("{1:", "{"),
        ("{1:[", "1,"),
    ],
)
def test_the_work_for_a_text_that_never_ends_grows_as_its_length(start, repeated):
    short, times = 2_048 // len(repeated), 16

    def seconds(count):
        text, taken = start + repeated * count, []
        for _ in range(5):
            began = time.thread_time()
            with pytest.raises(JsonRejected):
                fastjson.loads(text)
            taken.append(time.thread_time() - began)
        return min(taken)

    # The square would be 256 times the work.
    assert seconds(short * times) < 5 * times * max(seconds(short), 1e-5)


def test_an_object_as_key_inside_of_a_key_is_rejected():
    # Every level of quoting would double the text: sixty levels of it are more than any memory.
    with pytest.raises(JsonRejected, match="inside of a key"):
        fastjson.loads("{" * 50 + "1:2" + "}:3" * 49 + "}")
    assert fastjson.loads("{{1:{2:3}}:{{4:5}:6}}") == {'{"1":{"2":3}}': {'{"4":5}': 6}}


@pytest.mark.parametrize("text", ["\xa0[1]", "{1\xa0:2}", "{{1:2}\x1c:3}", "{1:2}\u2028"])
def test_space_is_what_the_standard_calls_so_in_both_dialects(text):
    with pytest.raises(JsonRejected):
        fastjson.loads(text)


def test_a_zero_character_outside_of_a_text_is_rejected():
    with pytest.raises(JsonRejected):
        fastjson.loads("{1:\0}")


def test_written_json_is_compact_sorted_ascii_with_quoted_integer_keys_and_without_nulls():
    value = {"b": {1: "x", 0: "y"}, "a": None, "c": [None, {"d": None}], "é": "ü"}
    assert fastjson.dumps(value) == b'{"b":{"0":"y","1":"x"},"c":[null,{}],"\\u00e9":"\\u00fc"}'


@given(st.text(max_size=60))
def test_random_text_gives_a_value_or_is_rejected(text):
    try:
        fastjson.loads(text)
    except JsonRejected as error:
        assert str(error)


@given(st.text(alphabet='{}[]:,"0123\\ -', max_size=40))
def test_random_structure_gives_a_value_or_is_rejected(text):
    try:
        fastjson.loads(text)
    except JsonRejected as error:
        assert str(error)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(values)
def test_both_parsers_agree_on_standard_json(value):
    assert fastjson._Parser(json.dumps(value)).parse() == value


def java_text(value, space):
    """As Java writes it: whole numbers as keys without quotes."""
    if isinstance(value, dict):
        members = (
            f"{space}{k if isinstance(k, int) else json.dumps(k)}{space}:{java_text(v, space)}"
            for k, v in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(java_text(item, space) for item in value) + "]"
    return space + json.dumps(value, ensure_ascii=False) + space


texts = st.text(alphabet='"\\{}[]:,0 é\0', max_size=8)
java_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.integers() | texts, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(java_values, st.sampled_from(["", " ", "\r\n\t"]))
def test_both_readers_agree_on_what_java_writes_and_refuse_what_is_cut_off(value, space):
    text = java_text(value, space)
    wanted = json.loads(json.dumps(value))
    assert fastjson.loads(text) == wanted
    assert fastjson._Parser(text).parse() == wanted
    if isinstance(value, (dict, list)):
        for end in range(1, len(text.rstrip())):
            with pytest.raises(JsonRejected):
                fastjson.loads(text[:end])
            with pytest.raises(ValueError):
                fastjson._Parser(text[:end]).parse()
