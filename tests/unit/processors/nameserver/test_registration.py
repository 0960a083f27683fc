"""Registrations as brokers send them: plain, compressed, recorded, and hostile."""

import json
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting.codec import FrameDecoder
from brokers.remoting.command import RemotingCommand
from processors.nameserver import registration as registration_body
from processors.nameserver.records import DataVersion, TopicQueues
from processors.nameserver.registration import (
    BODY_BYTES_MAX,
    FILTER_SERVERS_MAX,
    BadRegistration,
    decode_data_version,
    decode_registration,
)

WIRE = Path(__file__).parents[3] / "golden" / "wire"
EXT = {
    "brokerName": "b",
    "brokerAddr": "1.2.3.4:10911",
    "clusterName": "C",
    "haServerAddr": "h:1",
    "brokerId": "0",
}
VERSION = {"counter": 2, "stateVersion": 3, "timestamp": 1_000}


def request(body=b"", **ext):
    return RemotingCommand.request(103, EXT | ext, body)


def body(table, version=VERSION):
    wrapper = {"dataVersion": version, "topicConfigTable": table}
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}).encode()


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">i", len(data)) + data


def compressed(*topics, version=json.dumps(VERSION), count=None, tail=b""):
    plain = text(version) + struct.pack(">i", len(topics) if count is None else count)
    return zlib.compress(plain + b"".join(map(text, topics)) + tail)


def test_a_recorded_registration_of_a_java_broker_is_read():
    lines = [json.loads(line) for line in (WIRE / "broker-namesrv.jsonl").read_text().splitlines()]
    frames = [
        FrameDecoder().feed(bytes.fromhex(line["raw_hex"]))[0]
        for line in lines
        if line["code"] == 103
    ]
    assert frames
    for frame in frames:
        registration = decode_registration(frame)
        assert (registration.cluster_name, registration.broker_name) == ("DefaultCluster", "g")
        assert registration.acting_master is False
        assert registration.version.state_version == 1
        assert registration.topics["BenchmarkTest"] == TopicQueues(1024, 1024, 6)
        assert "TBW102" in registration.topics


def test_the_fields_of_the_header_are_taken():
    registration = decode_registration(
        request(heartbeatTimeoutMillis="5000", enableActingMaster="true", brokerId="7")
    )
    assert (registration.address, registration.ha_address, registration.broker_id) == (
        "1.2.3.4:10911",
        "h:1",
        7,
    )
    assert (registration.timeout_ms, registration.acting_master) == (5_000, True)
    assert decode_registration(request()).timeout_ms == 120_000
    assert decode_registration(request()).acting_master is None


def test_a_registration_without_a_body_has_version_zero_and_no_topics():
    registration = decode_registration(request())
    assert (registration.version, registration.topics) == (DataVersion(), {})


@pytest.mark.parametrize("flag", ["true", "false"])
def test_a_compressed_body_is_read_also_when_the_header_denies_it(flag):
    data = compressed(
        "T 4 8 6 SINGLE_TAG {}", "U 1 2 4 SINGLE_TAG", tail=text("[]") + struct.pack(">i", 0)
    )
    registration = decode_registration(request(data, compressed=flag))
    assert registration.version == DataVersion(3, 2, 1_000)
    assert registration.topics == {"T": TopicQueues(4, 8, 6), "U": TopicQueues(1, 2, 4)}


def test_a_checksum_that_matches_passes_and_another_does_not():
    data = body({"T": {"readQueueNums": 1}})
    good = str(zlib.crc32(data) & 0x7FFFFFFF)
    assert decode_registration(request(data, bodyCrc32=good)).topics == {"T": TopicQueues(1, 16, 6)}
    assert decode_registration(request(data, bodyCrc32="0")).topics
    with pytest.raises(BadRegistration, match="crc32 not match"):
        decode_registration(request(data + b" ", bodyCrc32=good))


@pytest.mark.parametrize(
    "ext",
    [
        {"brokerName": ""},
        {"brokerName": "x" * 256},
        {"brokerAddr": ""},
        {"clusterName": ""},
        {"brokerId": ""},
        {"brokerId": "-1"},
        {"brokerId": "1.5"},
        {"brokerId": "²"},
        {"brokerId": "9" * 5_000},
        {"heartbeatTimeoutMillis": "x"},
        {"heartbeatTimeoutMillis": "86400001"},
        {"bodyCrc32": "x"},
    ],
)
def test_a_bad_header_field_is_refused(ext):
    with pytest.raises(BadRegistration):
        decode_registration(request(**ext))


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"7",
        b"[" * 50_000,
        b"\xff\xff",
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":[]}}',
        body({"T": 5}),
        body({"": {}}),
        body({"x" * 256: {}}),
        body({"T": {"perm": "rw"}}),
        body({"T": {"perm": 16}}),
        body({"T": {"readQueueNums": -1}}),
        body({"T": {"readQueueNums": True}}),
        body({"T": {"writeQueueNums": 1.5}}),
        body({}, version={"counter": "x"}),
        body({}, version=[]),
        body({}, version={"counter": 2**63}),
    ],
)
def test_a_bad_body_is_refused(data):
    with pytest.raises(BadRegistration):
        decode_registration(request(data))


@pytest.mark.parametrize(
    "data",
    [
        b"\x78",
        b"\x78\x9crubbish",
        compressed("T 1 1 6")[:-8],
        zlib.compress(b""),
        zlib.compress(struct.pack(">i", -1)),
        zlib.compress(struct.pack(">i", 2**31 - 1)),
        compressed(count=-1),
        compressed(count=2**31 - 1),
        compressed("T 1 1 6", count=2),
        compressed("T 1"),
        compressed("T a b c"),
        compressed(version="{"),
    ],
)
def test_a_bad_compressed_body_is_refused(data):
    with pytest.raises(BadRegistration):
        decode_registration(request(data, compressed="true"))


def test_a_body_that_inflates_without_end_is_refused():
    packer = zlib.compressobj(9)
    bomb = (
        b"".join(packer.compress(bytes(1_048_576)) for _ in range(BODY_BYTES_MAX // 1_048_576 + 8))
        + packer.flush()
    )
    assert len(bomb) < 100_000
    with pytest.raises(BadRegistration, match="inflates to more"):
        decode_registration(request(bomb, compressed="true"))


def test_more_topics_than_allowed_are_refused(monkeypatch):
    monkeypatch.setattr(registration_body, "TOPICS_MAX", 1)
    with pytest.raises(BadRegistration, match="2 topics"):
        decode_registration(request(body({"T": {}, "U": {}})))


def test_a_data_version_is_read_and_an_empty_body_is_version_zero():
    assert decode_data_version(json.dumps(VERSION).encode()) == DataVersion(3, 2, 1_000)
    assert decode_data_version(b"") == DataVersion()


@given(st.binary(max_size=80), st.booleans())
def test_random_bodies_are_read_or_refused(data, squeeze):
    try:
        decode_registration(request(zlib.compress(data) if squeeze else data))
    except BadRegistration as error:
        assert str(error)


def with_filter_servers(value):
    wrapper = {"dataVersion": VERSION, "topicConfigTable": {}}
    said = {"topicConfigSerializeWrapper": wrapper, "filterServerList": value}
    return request(json.dumps(said).encode())


def test_filter_servers_are_named_left_or_none():
    """Null leaves those that are known; what is not said is an empty list, as in Java."""
    assert decode_registration(with_filter_servers(["h:1"])).filter_servers == ("h:1",)
    assert decode_registration(with_filter_servers(None)).filter_servers is None
    assert decode_registration(with_filter_servers([])).filter_servers == ()
    assert decode_registration(request()).filter_servers == ()
    listed = compressed("T 4 8 6 SINGLE_TAG {}", tail=text('["h:2"]'))
    assert decode_registration(request(listed)).filter_servers == ("h:2",)
    assert decode_registration(request(compressed("T 4 8 6"))).filter_servers == ()


@given(
    st.one_of(
        st.text(),
        st.integers(),
        st.lists(st.one_of(st.text(min_size=256, max_size=300), st.none()), min_size=1),
        st.lists(st.just("h:1"), min_size=FILTER_SERVERS_MAX + 1, max_size=FILTER_SERVERS_MAX + 5),
    )
)
def test_other_filter_servers_are_refused(value):
    with pytest.raises(BadRegistration, match="filter server"):
        decode_registration(with_filter_servers(value))


@given(st.binary(max_size=64))
def test_whatever_follows_the_topics_is_read_or_refused(tail):
    try:
        found = decode_registration(request(compressed("T 4 8 6", tail=tail)))
    except BadRegistration:
        return
    assert found.filter_servers is None or len(found.filter_servers) <= FILTER_SERVERS_MAX
