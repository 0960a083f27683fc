"""Bodies of a majority group: there and back, bounds, any bytes (PROTOCOL 10.2 to 10.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from brokers.majority.entry import Entry, Place, body_crc
from brokers.majority.wire import entry_batch, json_bodies
from brokers.majority.wire.codes import FRAME_ANSWERED, Code, MajorityRequest, PushType, VoteResult
from brokers.majority.wire.json_fields import INDEX_MAX, NAME_CHARS_MAX, MessageRejected
from brokers.majority.wire.messages import (
    HeartBeatResponse,
    MetadataResponse,
    PushRequest,
    PushResponse,
    VoteRequest,
    VoteResponse,
)
from tests.support.examples import examples

PUSH = MajorityRequest.PUSH
NAMES = st.none() | st.text(st.characters(codec="utf-8"), max_size=12)
INDEXES = st.integers(-1, INDEX_MAX)
PLACES = st.none() | st.builds(Place, INDEXES, INDEXES)
BODIES = st.binary(max_size=60)


@st.composite
def pushes(draw: Any) -> PushRequest:
    kind = draw(st.sampled_from(PushType))
    most = {PushType.COMMIT: 0, PushType.APPEND: 5}.get(kind, 1)
    count = draw(st.integers(min(most, 1), most))
    first, term = draw(st.integers(0, 1 << 62)), draw(st.integers(0, 1 << 62))
    entries = []
    for at in range(count):
        body = draw(BODIES)
        crc = draw(st.sampled_from([0, body_crc(body)]))
        entries.append(
            Entry(first + at, term + at, draw(st.integers(0, 1 << 61)), body, body_crc=crc)
        )
    return PushRequest(
        group=draw(NAMES), remote_id=draw(NAMES), local_id=draw(NAMES), leader_id=draw(NAMES),
        term=draw(INDEXES), type=kind, commit_index=draw(INDEXES), entries=tuple(entries),
        previous=draw(PLACES), counts_current=draw(st.booleans()),
    )  # fmt: skip


RESPONSES = st.builds(
    PushResponse,
    group=NAMES,
    term=INDEXES,
    code=st.integers(-(1 << 31), (1 << 31) - 1),
    index=st.none() | INDEXES,
    begin_index=INDEXES,
    end_index=INDEXES,
    count=st.integers(0, json_bodies.ENTRIES_MAX),
    end_term=st.none() | INDEXES,
    conflict=PLACES,
    takes_binary=st.booleans(),
)


@settings(max_examples=examples(150), deadline=None)
@given(pushes())
def test_a_push_comes_back_as_it_was(push: PushRequest) -> None:
    assert json_bodies.decode_request(PUSH, json_bodies.encode(push)) == push
    if push.entries:
        assert json_bodies.decode_request(PUSH, json_bodies.encode_binary(push)) == push


@pytest.mark.parametrize("end", [None, Place(), Place(3, 17)])
def test_where_a_log_ends_comes_with_metadata(end: Place | None) -> None:
    committed = None if end is None else end.index
    said = MetadataResponse(
        group="g", leader_id="n0", peers={"n0": "h:1"}, end=end, committed_index=committed
    )
    body = json_bodies.encode(said)
    assert json_bodies.decode_response(MajorityRequest.METADATA, body) == said
    assert (b"regent" in body) is (end is not None), "Java says nothing of it"


@settings(max_examples=examples(100), deadline=None)
@given(RESPONSES)
def test_an_answer_comes_back_as_it_was(answer: PushResponse) -> None:
    assert json_bodies.decode_response(PUSH, json_bodies.encode(answer)) == answer


@settings(max_examples=examples(200), deadline=None)
@given(
    st.sampled_from([*MajorityRequest, 1]),
    st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"\1" + data),
)
def test_any_bytes_are_a_message_or_refused(code: int, data: bytes) -> None:
    for decode in (json_bodies.decode_request, json_bodies.decode_response):
        if code == 1 and decode is json_bodies.decode_response:
            continue
        try:
            decode(code, data)
        except MessageRejected:
            pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "entry", "batchEntry", "body", "index", "term", "size", "peers"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(MajorityRequest), JSON)
def test_any_json_is_a_message_or_refused(code: MajorityRequest, value: object) -> None:
    data = json.dumps(value).encode()
    for decode in (json_bodies.decode_request, json_bodies.decode_response):
        try:
            decode(code, data)
        except MessageRejected:
            pass


@settings(max_examples=examples(150), deadline=None)
@given(pushes().filter(lambda push: bool(push.entries)), st.data())
def test_a_changed_byte_of_a_binary_push_never_gives_another_body(
    push: PushRequest, data: st.DataObject
) -> None:
    sealed = tuple(structs.replace(one, body_crc=body_crc(one.body)) for one in push.entries)
    push = structs.replace(push, entries=sealed)
    whole = bytearray(json_bodies.encode_binary(push))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = json_bodies.decode_request(PUSH, bytes(whole))
    except MessageRejected:
        return
    assert isinstance(found, PushRequest)
    bodies = [one.body for one in found.entries]
    # What no checksum covers may change: fields of the JSON, a head, a checksum that becomes 0.
    assert bodies == [one.body for one in sealed] or any(not one.body_crc for one in found.entries)


ENTRY = json.loads(
    json_bodies.encode(PushRequest(type=PushType.COMPARE, entries=(Entry(3, 1, 9, b"abc"),)))
)["entry"]

REFUSED = {
    "no object": ([], PUSH),
    "an unknown type": ({"type": "PULL"}, PUSH),
    "APPEND without entries": ({"type": "APPEND"}, PUSH),
    "COMPARE without an entry": ({"type": "COMPARE"}, PUSH),
    "COMPARE with two": ({"type": "COMPARE", "batchEntry": [ENTRY, {**ENTRY, "index": 4}]}, PUSH),
    "a batch that is no list": ({"type": "APPEND", "batchEntry": {"a": 1}}, PUSH),
    "a gap": ({"type": "APPEND", "batchEntry": [ENTRY, {**ENTRY, "index": 5}]}, PUSH),
    "a falling term": (
        {"type": "APPEND", "batchEntry": [ENTRY, {**ENTRY, "index": 4, "term": 0}]}, PUSH,
    ),
    "too many": ({"type": "APPEND", "batchEntry": [ENTRY] * 4_097}, PUSH),
    "a size that does not fit": ({"type": "APPEND", "entry": {**ENTRY, "size": 52}}, PUSH),
    "a checksum that does not fit": ({"type": "APPEND", "entry": {**ENTRY, "bodyCrc": 1}}, PUSH),
    "no Base64": ({"type": "APPEND", "entry": {**ENTRY, "body": "a*cd"}}, PUSH),
    "an entry without an index": ({"type": "APPEND", "entry": {"size": 48}}, PUSH),
    "an index below all": ({"type": "APPEND", "entry": {**ENTRY, "index": -1}}, PUSH),
    "a flag for a number": ({"term": True}, MajorityRequest.VOTE),
    "a fraction": ({"term": 1.5}, MajorityRequest.VOTE),
    "more than Java's long": ({"term": INDEX_MAX + 1}, MajorityRequest.VOTE),
    "a name too long": ({"group": "g" * (NAME_CHARS_MAX + 1)}, MajorityRequest.VOTE),
    "a name that is none": ({"leaderId": 3}, MajorityRequest.HEART_BEAT),
    "a body that is none": ({"body": 3}, MajorityRequest.APPEND),
    "an unknown code": ({}, 51003),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_none_of_these_messages_is_refused(name: str) -> None:
    value, code = REFUSED[name]
    with pytest.raises(MessageRejected):
        json_bodies.decode_request(code, json.dumps(value).encode())


@pytest.mark.parametrize(
    ("code", "limit"),
    [(MajorityRequest.VOTE, json_bodies.SMALL_BYTES_MAX), (PUSH, json_bodies.LARGE_BYTES_MAX)],
)
def test_a_body_larger_than_allowed_is_not_even_read(code: MajorityRequest, limit: int) -> None:
    with pytest.raises(MessageRejected, match="allowed"):
        json_bodies.decode_request(code, b" " * (limit + 1))


@pytest.mark.parametrize("code", [MajorityRequest.GET, MajorityRequest.METADATA])
def test_lists_of_answers_have_limits(code: MajorityRequest) -> None:
    field = "entries" if code is MajorityRequest.GET else "peers"
    many = [ENTRY] * 4_097 if code is MajorityRequest.GET else {str(n): "h" for n in range(65)}
    with pytest.raises(MessageRejected):
        json_bodies.decode_response(code, json.dumps({field: many}).encode())


def test_javas_empty_answers_have_its_defaults() -> None:
    vote = json_bodies.decode_response(MajorityRequest.VOTE, b"{}")
    beat = json_bodies.decode_response(MajorityRequest.HEART_BEAT, b'{"code":200,"term":-1}')
    assert vote == VoteResponse(term=-1, code=200, result=VoteResult.UNKNOWN)
    assert beat == HeartBeatResponse(term=-1, code=Code.SUCCESS, end=None)
    assert FRAME_ANSWERED == 200


def test_a_result_of_another_release_is_no_vote() -> None:
    body = b'{"voteResult":"REJECT_ALREADY__HAS_LEADER"}'
    answer = json_bodies.decode_response(MajorityRequest.VOTE, body)
    assert isinstance(answer, VoteResponse) and answer.result is VoteResult.UNKNOWN


def test_fields_that_we_do_not_know_are_passed_over() -> None:
    body = b'{"group":"g","ledgerEndIndex":4,"ledgerEndTerm":2,"something":{"new":[1]}}'
    request = json_bodies.decode_request(MajorityRequest.VOTE, body)
    assert request == VoteRequest(group="g", end=Place(2, 4))
    assert json_bodies.code_of(request) is MajorityRequest.VOTE


BINARY = json_bodies.encode_binary(
    PushRequest(type=PushType.APPEND, entries=(Entry(3, 1, 9, b"abc"), Entry(4, 1, 60, b"")))
)


def test_a_binary_push_is_these_bytes() -> None:
    head, entries = entry_batch.part(BINARY)
    assert BINARY[:1] == b"\1" and json.loads(head)["type"] == "APPEND"
    assert BINARY[-99:-48] == bytes.fromhex(
        "0000000100000033000000000000000300000000000000010000000000000009"
        "00000000000000000000000000000003"
    ) + b"abc"  # fmt: skip
    assert [one.index for one in entries] == [3, 4]


@pytest.mark.parametrize("length", range(len(BINARY)))
def test_a_binary_push_that_was_cut_off_is_refused(length: int) -> None:
    with pytest.raises(MessageRejected):
        json_bodies.decode_request(PUSH, BINARY[:length])


def test_nothing_may_stand_behind_a_binary_push() -> None:
    with pytest.raises(MessageRejected, match="behind"):
        json_bodies.decode_request(PUSH, BINARY + b"x")
    with pytest.raises(MessageRejected):
        entry_batch.part(b"\1" + b"\0" * entry_batch.BYTES_MAX)
