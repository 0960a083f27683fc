"""Frames: recorded ones round-trip, hostile ones end in FrameError before they cost anything."""

import json
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.remoting.codec import (
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    FrameDecoder,
    TlsRefused,
    encode,
)
from brokers.remoting.command import RemotingCommand
from brokers.remoting.headers import FrameError
from tests.support.examples import examples

WIRE = Path(__file__).parents[3] / "golden" / "wire"
RECORDED = [
    pytest.param(json.loads(line), id=f"{path.stem}-{number}")
    for path in sorted(WIRE.glob("*.jsonl"))
    for number, line in enumerate(path.read_text().splitlines(), 1)
]
BINARY = bytes.fromhex(
    "000000240100001e000e0001df000000070000000000000001720000000800016b00000001766869"
)


def frame(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    return (
        struct.pack(">iI", 4 + len(header) + len(body), serialization << 24 | len(header))
        + header
        + body
    )


def decode_one(data: bytes) -> RemotingCommand:
    (command,) = FrameDecoder().feed(data)
    return command


@pytest.mark.parametrize("line", RECORDED)
def test_a_recorded_frame_decodes_to_what_the_recorder_read(line):
    command = decode_one(bytes.fromhex(line["raw_hex"]))
    assert command.code == line["code"]
    assert command.opaque == line["opaque"]
    assert command.flag == line["flag"]
    assert command.remark == line["remark"]
    assert command.ext == (line["ext_fields"] or {})
    assert command.language == line["language"]
    assert command.version == line["version"]


@pytest.mark.parametrize("line", RECORDED)
def test_a_recorded_frame_encodes_again_to_an_equal_command(line):
    command = decode_one(bytes.fromhex(line["raw_hex"]))
    assert decode_one(encode(command)) == command


def test_the_pull_header_of_the_reference_is_read():
    header = (
        b'{"code":11,"extFields":{"queueId":"1","maxMsgNums":"32","sysFlag":"7",'
        b'"suspendTimeoutMillis":"15000",'
        b'"commitOffset":"3","bname":"b","topic":"T","queueOffset":"5","expressionType":"TAG",'
        b'"subscription":"*",'
        b'"subVersion":"0","consumerGroup":"g"},"flag":0,"language":"JAVA","opaque":7,'
        b'"serializeTypeCurrentRPC":"JSON",'
        b'"version":479}'
    )
    data = frame(header)
    assert data[:8] == bytes.fromhex("0000014b00000147")
    command = decode_one(data)
    assert (command.code, command.opaque, command.version, len(command.ext)) == (11, 7, 479, 12)


def test_an_empty_success_response_is_written_as_the_reference_shows_it():
    response = RemotingCommand(0, 7, 1, "JAVA")
    expected = (
        b'{"code":0,"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON",'
        b'"version":479}'
    )
    assert encode(response) == frame(expected)


def test_the_binary_header_of_the_reference_is_read_and_written_byte_for_byte():
    command = decode_one(BINARY)
    assert command == RemotingCommand(
        14, 7, 0, "JAVA", 479, "r", {"k": "v"}, b"hi", serialization=1
    )
    assert encode(command) == BINARY


def test_opaque_and_flag_can_be_replaced_without_touching_the_command():
    request = RemotingCommand.request(11)
    command = decode_one(encode(request, opaque=9, flag=2))
    assert (command.opaque, command.flag) == (9, 2)
    assert (request.opaque, request.flag) == (0, 0)


def test_frames_fed_byte_by_byte_come_out_whole():
    data = encode(RemotingCommand(10, 1, body=b"abc")) + BINARY
    decoder, commands = FrameDecoder(), []
    for position in range(len(data)):
        commands += decoder.feed(data[position : position + 1])
    assert [command.code for command in commands] == [10, 14]
    assert decoder.partial_bytes == 0


def test_several_frames_in_one_read_keep_their_order_and_the_rest_waits():
    data = b"".join(encode(RemotingCommand(code)) for code in (1, 2, 3))
    decoder = FrameDecoder()
    assert [command.code for command in decoder.feed(memoryview(data)[:-5])] == [1, 2]
    assert decoder.partial_bytes == len(data) // 3 - 5
    assert [command.code for command in decoder.feed(data[-5:])] == [3]


@pytest.mark.parametrize(
    "start",
    [
        struct.pack(">i", 0x7FFFFFFF),
        struct.pack(">i", FRAME_BYTES_MAX - 3),
        struct.pack(">i", -1),
        struct.pack(">i", 3),
        struct.pack(">iI", 20, 17),
        struct.pack(">iI", 20, 0xFFFFFF),
        struct.pack(">iI", FRAME_BYTES_MAX - 4, HEADER_BYTES_MAX + 1),
        b"PROXY TCP4 10.0.0.1",
        b"GET / HTTP/1.1\r\n",
    ],
)
def test_a_hostile_length_is_refused_as_soon_as_it_is_seen(start):
    with pytest.raises(FrameError):
        FrameDecoder().feed(start)


def test_a_hostile_length_that_arrives_byte_by_byte_is_refused_at_its_fourth_byte():
    decoder = FrameDecoder()
    for byte in b"\x7f\xff\xff":
        assert decoder.feed(bytes((byte,))) == []
    with pytest.raises(FrameError, match="announced"):
        decoder.feed(b"\xff")


def test_the_largest_frame_is_announced_without_being_allocated():
    tracemalloc.start()
    try:
        FrameDecoder().feed(struct.pack(">iI", FRAME_BYTES_MAX - 4, 100) + b"{")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_frame_of_exactly_the_largest_size_passes_and_one_more_byte_does_not():
    limit = 1_000
    header = b'{"code":1}'
    body = bytes(limit - 8 - len(header))
    assert FrameDecoder(limit).feed(frame(header, body))[0].body == body
    with pytest.raises(FrameError):
        FrameDecoder(limit).feed(frame(header, body + b"x"))


def test_a_tls_handshake_is_told_apart():
    with pytest.raises(TlsRefused):
        FrameDecoder().feed(bytes.fromhex("16030101"))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b'"text"',
        b'{"code":"10"}',
        b'{"code":1.5}',
        b'{"code":true}',
        b'{"code":null}',
        b'{"code":NaN}',
        b'{"code":2147483648}',
        b'{"opaque":-2147483649}',
        b'{"opaque":' + b"9" * 5_000 + b"}",
        b'{"flag":[]}',
        b'{"version":{}}',
        b'{"remark":5}',
        b'{"extFields":[]}',
        b'{"extFields":"a"}',
        b'{"extFields":{"a":{}}}',
        b'{"extFields":{"a":[1]}}',
        b'{"extFields":{"a":"\\ud800"}}',
        b'{"remark":"\\uDC00"}',
        b'{"code":1}}',
        b'{"remark":"\xff"}',
        b"[" * 100_000,
        b'{"extFields":' * 50_000,
    ],
)
def test_a_bad_json_header_is_a_frame_error(header):
    with pytest.raises(FrameError):
        FrameDecoder().feed(frame(header))


def test_numbers_and_booleans_among_the_ext_fields_become_text_and_null_means_absent():
    command = decode_one(
        frame(b'{"code":1,"extFields":{"a":1,"b":true,"c":false,"d":null,"e":"x","f":1.5}}')
    )
    assert command.ext == {"a": "1", "b": "true", "c": "false", "e": "x", "f": "1.5"}


def test_of_duplicate_keys_the_last_wins():
    command = decode_one(frame(b'{"code":1,"code":2,"extFields":{"a":"1","a":"2"}}'))
    assert (command.code, command.ext) == (2, {"a": "2"})


@pytest.mark.parametrize(
    ("text", "name"), [("9", "GO"), ('"CPP"', "CPP"), ('"KLINGON"', "OTHER"), ("99", "OTHER")]
)
def test_the_language_may_be_a_name_a_number_or_unknown(text, name):
    assert decode_one(frame(f'{{"code":1,"language":{text}}}'.encode())).language == name


def test_a_header_without_optional_keys_and_with_spaces_is_read():
    command = decode_one(frame(b' { "code" : 34 , "opaque" : 5 } ', b"body"))
    assert (command.code, command.opaque, command.language, command.ext, command.body) == (
        34,
        5,
        "JAVA",
        {},
        b"body",
    )


@pytest.mark.parametrize(
    ("position", "replacement"),
    [
        (8 + 13, b"\x7f\xff\xff\xff"),
        (8 + 13, b"\xff\xff\xff\xff"),
        (8 + 18, b"\x00\x00\x00\x09"),
        (8 + 18, b"\x00\x00\x00\x07"),
        (8 + 18, b"\xff\xff\xff\xff"),
        (8 + 22, b"\x7f\xff"),
        (8 + 22, b"\xff\xff"),
        (8 + 25, b"\x00\x00\x00\x02"),
        (8 + 29, b"\xff"),
        (8 + 17, b"\xc3"),
    ],
)
def test_a_broken_binary_header_is_a_frame_error(position, replacement):
    data = BINARY[:position] + replacement + BINARY[position + len(replacement) :]
    with pytest.raises(FrameError):
        FrameDecoder().feed(data)


def test_an_unknown_header_serialisation_is_a_frame_error():
    with pytest.raises(FrameError, match="serialisation 2"):
        FrameDecoder().feed(frame(b"{}", serialization=2))


def test_good_frames_before_a_bad_one_are_still_given():
    decoder = FrameDecoder()
    commands = decoder.feed(encode(RemotingCommand(5)) + frame(b"rubbish"))
    assert [command.code for command in commands] == [5]
    assert decoder.failure is not None
    with pytest.raises(FrameError):
        decoder.feed(b"")


def test_a_frame_too_large_to_be_read_is_not_written():
    with pytest.raises(ValueError, match="larger"):
        encode(RemotingCommand(1, body=bytes(FRAME_BYTES_MAX)))
    with pytest.raises(ValueError, match="larger"):
        encode(RemotingCommand(1, remark="x" * HEADER_BYTES_MAX))


def test_ext_values_that_are_no_text_are_not_written():
    with pytest.raises(TypeError):
        encode(RemotingCommand(1, ext={"a": 1}))


def test_a_pop_code_does_not_fit_the_binary_header():
    with pytest.raises(ValueError, match="200050"):
        encode(RemotingCommand(200050, serialization=1))


i32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
commands = st.builds(
    RemotingCommand,
    code=st.integers(-(2**15), 2**15 - 1),
    opaque=i32,
    flag=i32,
    language=st.sampled_from(["JAVA", "GO", "PYTHON", "NODE_JS"]),
    version=st.integers(0, 2**15 - 1),
    remark=st.none() | text.filter(bool),
    ext=st.dictionaries(text, text, max_size=6),
    body=st.binary(max_size=200),
    serialization=st.sampled_from([0, 1]),
)


@given(commands)
def test_any_command_survives_the_wire(command):
    assert decode_one(encode(command)) == command


@given(st.lists(commands, max_size=5), st.data())
def test_how_the_stream_is_cut_does_not_matter(sent, data):
    stream = b"".join(map(encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    decoder, received = FrameDecoder(), []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += decoder.feed(stream[start:stop])
    assert received == sent


@given(st.binary(max_size=400))
def test_random_bytes_give_commands_or_a_frame_error(data):
    try:
        FrameDecoder().feed(data)
    except FrameError as error:
        assert error.reason


@settings(max_examples=examples(300))
@given(st.sampled_from([0, 1]), st.binary(max_size=120))
def test_random_headers_give_a_command_or_a_frame_error(serialization, header):
    try:
        FrameDecoder().feed(frame(header, b"", serialization))
    except FrameError as error:
        assert error.reason


@settings(max_examples=examples(300))
@given(commands, st.data())
def test_a_flipped_byte_gives_a_command_or_a_frame_error(command, data):
    raw = bytearray(encode(command))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        FrameDecoder().feed(raw)
    except FrameError as error:
        assert error.reason
