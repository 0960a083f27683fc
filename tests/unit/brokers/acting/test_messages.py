"""Headers and bodies of sets without controllers: bytes worked out by hand, recorded ones, and
nonsense.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.acting.messages import (
    MEMBERS_MAX,
    CouldNotAnswer,
    HaInfo,
    Members,
    MinIdNotice,
    Place,
    Registered,
    data_version_answer,
    data_version_query,
    ha_info_ext,
    ha_info_push,
    ha_info_query,
    heartbeat,
    members_body,
    members_request,
    min_id_notice,
    read_data_version_answer,
    read_ha_info,
    read_members,
    read_min_id_notice,
    read_place,
    read_registered,
)
from brokers.remoting.codec import FrameDecoder, encode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadField
from brokers.service.tables.data_version import DataVersion

PLACE = Place("c1", "broker-a", 1, "10.0.0.2:10911")
VERSION = DataVersion(0, 1_700_000_000_000, 7)
GOLDEN = Path(__file__).parents[3] / "golden/wire/broker-controller.jsonl"


def frame(command: RemotingCommand) -> bytes:
    return encode(command, opaque=8)


def framed(header: str, body: str = "") -> bytes:
    """By PROTOCOL 1.1, without the codec."""
    text = header.encode()
    rest = len(text).to_bytes(4, "big") + text + body.encode()
    return len(rest).to_bytes(4, "big") + rest


BYTES = {
    "904": (
        heartbeat(PLACE, VERSION, compat=False),
        (
            '{"code":904,"extFields":{"clusterName":"c1","brokerAddr":"10.0.0.2:10911",'
            '"brokerName":"broker-a","brokerId":"1"},"flag":2,"language":"PYTHON","opaque":8,'
            '"serializeTypeCurrentRPC":"JSON","version":479}'
        ),
        "",
    ),
    "322": (
        heartbeat(PLACE, VERSION, compat=True),
        (
            '{"code":322,"extFields":{"brokerName":"broker-a","brokerAddr":"10.0.0.2:10911",'
            '"clusterName":"c1","brokerId":"1"},"flag":2,"language":"PYTHON","opaque":8,'
            '"serializeTypeCurrentRPC":"JSON","version":479}'
        ),
        '{"counter":7,"stateVersion":0,"timestamp":1700000000000}',
    ),
    "901": (
        members_request(PLACE, compat=False),
        (
            '{"code":901,"extFields":{"clusterName":"c1","brokerName":"broker-a"},"flag":0,'
            '"language":"PYTHON","opaque":8,"serializeTypeCurrentRPC":"JSON","version":479}'
        ),
        "",
    ),
    "105": (
        members_request(PLACE, compat=True),
        (
            '{"code":105,"extFields":{"topic":"rmq_sys_SYNC_BROKER_MEMBER_broker-a",'
            '"acceptStandardJsonOnly":"true"},"flag":0,"language":"PYTHON","opaque":8,'
            '"serializeTypeCurrentRPC":"JSON","version":479}'
        ),
        "",
    ),
    "905": (
        min_id_notice(MinIdNotice(0, "10.0.0.1:10911", None, "10.0.0.1:10912")),
        (
            '{"code":905,"extFields":{"minBrokerId":"0","minBrokerAddr":"10.0.0.1:10911",'
            '"haBrokerAddr":"10.0.0.1:10912"},"flag":2,"language":"PYTHON","opaque":8,'
            '"serializeTypeCurrentRPC":"JSON","version":479}'
        ),
        "",
    ),
    "906 push": (
        ha_info_push(HaInfo("10.0.0.1:10912", 4096, "10.0.0.1:10911")),
        (
            '{"code":906,"extFields":{"masterHaAddress":"10.0.0.1:10912","masterFlushOffset":"4096",'
            '"masterAddress":"10.0.0.1:10911"},"flag":0,"language":"PYTHON","opaque":8,'
            '"serializeTypeCurrentRPC":"JSON","version":479}'
        ),
        "",
    ),
    "906 query": (
        ha_info_query(),
        (
            '{"code":906,"flag":0,"language":"PYTHON","opaque":8,"serializeTypeCurrentRPC":"JSON",'
            '"version":479}'
        ),
        "",
    ),
}


@pytest.mark.parametrize("name", BYTES)
def test_requests_are_these_bytes(name: str) -> None:
    command, header, body = BYTES[name]
    assert frame(command) == framed(header, body)


def test_the_body_of_members_is_these_bytes() -> None:
    assert members_body("c1", "broker-a", {1: "10.0.0.2:10911", 0: "10.0.0.1:10911"}) == (
        b'{"brokerMemberGroup":{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},'
        b'"brokerName":"broker-a","cluster":"c1"}}'
    )


def test_a_recorded_heartbeat_of_java_is_read() -> None:
    lines = GOLDEN.read_text().splitlines()
    recorded = next(one for one in map(json.loads, lines) if one["code"] == 904)
    (request,) = FrameDecoder().feed(bytes.fromhex(recorded["raw_hex"]))
    assert read_place(request) == Place("DefaultCluster", "g", 1, "127.0.0.1:20911")


def test_a_heartbeat_without_an_id_is_read_and_a_query_without_one_is_not() -> None:
    beat, query = heartbeat(PLACE, VERSION, compat=False), data_version_query(PLACE, VERSION)
    for request in (beat, query):
        assert read_place(request) == PLACE
        del request.ext["brokerId"]
    assert read_place(beat).broker_id == -1
    with pytest.raises(BadField):
        read_place(query)


@pytest.mark.parametrize(
    ("known", "told"),
    [
        pytest.param(None, (True, None), id="unknown"),
        pytest.param(VERSION, (False, VERSION), id="the same"),
        pytest.param(DataVersion(0, 1, 6), (True, DataVersion(0, 1, 6)), id="another one"),
    ],
)
def test_322_is_answered_with_what_is_known(
    known: DataVersion | None, told: tuple[bool, DataVersion | None]
) -> None:
    answer = data_version_answer(data_version_query(PLACE, VERSION), VERSION, known)
    assert read_data_version_answer(answer) == told


UNQUOTED = (
    '{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},'
    '"brokerName":"broker-a","cluster":"c1"}}'
)
BOTH = Members({0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})


def answer(code: int, body: str = "", **ext: str) -> RemotingCommand:
    return RemotingCommand(code, ext=ext, body=body.encode())


def test_members_are_read_with_quoted_and_unquoted_ids() -> None:
    quoted = members_body("c1", "broker-a", BOTH.addresses).decode()
    assert read_members(answer(0, UNQUOTED), PLACE, compat=False) == BOTH
    assert read_members(answer(0, quoted), PLACE, compat=False) == BOTH
    up = read_members(answer(0, quoted, regentUpMs="9000"), PLACE, compat=False)
    assert up == Members(BOTH.addresses, 9_000)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"brokerMemberGroup":[]}',
        '{"brokerMemberGroup":{"brokerAddrs":[]}}',
        '{"brokerMemberGroup":{"brokerAddrs":{"-1":"a:1"}}}',
        '{"brokerMemberGroup":{"brokerAddrs":{"x":"a:1"}}}',
        '{"brokerMemberGroup":{"brokerAddrs":{"1":7}}}',
        '{"brokerMemberGroup":{"brokerAddrs":{"1":""}}}',
        '{"brokerMemberGroup":{"brokerAddrs":{"1":"%s"}}}' % ("a" * 256),
        '{"brokerMemberGroup":{"brokerAddrs":{%s}}}'
        % ",".join(f'"{n}":"a:1"' for n in range(MEMBERS_MAX + 1)),
    ],
)
def test_a_body_that_says_nothing_is_no_empty_group(body: str) -> None:
    assert isinstance(read_members(answer(0, body), PLACE, compat=False), CouldNotAnswer)


@given(st.binary(max_size=200), st.integers(-5, 300), st.booleans())
def test_reading_members_never_fails(body: bytes, code: int, compat: bool) -> None:
    command = RemotingCommand(code, body=body)
    assert isinstance(read_members(command, PLACE, compat=compat), Members | CouldNotAnswer)


NAMES = st.sampled_from(
    ["minBrokerId", "minBrokerAddr", "masterHaAddress", "masterFlushOffset", "masterAddress",
     "brokerId", "clusterName", "brokerName", "brokerAddr", "changed", "haServerAddr"]
)  # fmt: skip


@given(st.dictionaries(NAMES, st.text(max_size=300)), st.sampled_from([904, 322]))
def test_headers_of_strangers_end_in_one_error(ext: dict[str, str], code: int) -> None:
    readers = (
        lambda: read_min_id_notice(ext),
        lambda: read_ha_info(ext),
        lambda: read_registered(RemotingCommand(0, ext=ext)),
        lambda: read_place(RemotingCommand(code, ext=ext)),
        lambda: read_data_version_answer(RemotingCommand(0, ext=ext)),
    )
    for read in readers:
        try:
            read()
        except BadField:
            pass


SHORT = st.none() | st.text("abc:.0123", min_size=1, max_size=20)


@given(SHORT, SHORT, SHORT, st.none() | st.integers(0, 2**63 - 1))
def test_905_and_906_come_back_as_they_were(
    one: str | None, two: str | None, three: str | None, number: int | None
) -> None:
    notice = MinIdNotice(number, one, two, three, None)
    assert read_min_id_notice(min_id_notice(notice).ext) == notice
    info = HaInfo(one, number, two)
    assert read_ha_info(ha_info_ext(info)) == info


def test_905_with_an_id_below_zero_is_refused() -> None:
    with pytest.raises(BadField):
        read_min_id_notice({"minBrokerId": "-1"})


def test_a_push_without_an_address_would_be_a_question() -> None:
    with pytest.raises(ValueError, match="question"):
        ha_info_push(HaInfo(None, 1, "a:1"))


def test_the_answer_to_a_registration_names_the_master_or_nobody() -> None:
    ext = {"masterAddr": "a:1", "haServerAddr": "a:2"}
    assert read_registered(RemotingCommand(0, ext=ext)) == Registered("a:1", "a:2")
    assert read_registered(RemotingCommand(0)) == Registered()
