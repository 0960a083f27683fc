"""Packets of AutoSwitchHA: exact bytes, any cutting of the stream, hostile input."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import (
    FRAME_BYTES_MAX,
    MasterFrameDecoder,
    MasterHandshake,
    ProtocolError,
    SlaveAck,
    SlaveFrameDecoder,
    SlaveHandshake,
    Transfer,
)

# PROTOCOL 8.2, captured from a real master
GOLDEN = {
    "00000001000000000000000000000002": SlaveHandshake(2),
    "0000000200000000000001b9": SlaveAck(441),
}
GOLDEN_MASTER = {
    "000000010000001800000000000002df000000030000000100000000000000000000000300000000000001b9": (
        MasterHandshake(735, EpochHistory.of((1, 0), (3, 441)))
    ),
    "000000020000000000000000000002df0000000300000000000001b900000000000002df": Transfer(
        735, 3, 441, 735
    ),
    "00000002000000000000000000000000000000010000000000000000" + "00000000000002df": Transfer(
        0, 1, 0, 735
    ),
}


def joined(frames: list) -> list:
    """Frames with the pieces of one packet put together again."""
    whole: list = []
    for frame in frames:
        last = whole[-1] if whole else None
        if isinstance(frame, Transfer) and isinstance(last, Transfer) and not last.is_heartbeat:
            same = (last.epoch, last.epoch_start, last.confirm_offset) == (
                frame.epoch,
                frame.epoch_start,
                frame.confirm_offset,
            )
            if same and not frame.is_heartbeat and last.offset + len(last.data) == frame.offset:
                data = bytes(last.data) + bytes(frame.data)
                whole[-1] = Transfer(
                    last.offset, last.epoch, last.epoch_start, last.confirm_offset, data
                )
                continue
        whole.append(
            Transfer(
                frame.offset,
                frame.epoch,
                frame.epoch_start,
                frame.confirm_offset,
                bytes(frame.data),
            )
            if isinstance(frame, Transfer)
            else frame
        )
    return whole


def test_layouts_have_the_sizes_of_the_reference() -> None:
    assert SlaveHandshake.LAYOUT.size == 16
    assert SlaveAck.LAYOUT.size == 12
    assert MasterHandshake.LAYOUT.size == 20
    assert Transfer.LAYOUT.size == 36


@pytest.mark.parametrize(("text", "frame"), GOLDEN.items())
def test_captured_packets_of_a_slave_read_and_write_alike(text: str, frame) -> None:
    assert SlaveFrameDecoder().feed(bytes.fromhex(text)) == [frame]
    assert frame.encode().hex() == text


@pytest.mark.parametrize(("text", "frame"), GOLDEN_MASTER.items())
def test_captured_packets_of_a_master_read_and_write_alike(text: str, frame) -> None:
    assert MasterFrameDecoder().feed(bytes.fromhex(text)) == [frame]
    assert frame.encode().hex() == text


def test_a_transfer_header_announces_the_bytes_that_sendfile_will_bring() -> None:
    header = Transfer(0, 3, 441, 735).header(441)
    assert (
        header.hex()
        == "00000002000001b90000000000000000" + "00000003" + "00000000000001b9" + "00000000000002df"
    )


offsets = st.integers(0, 2**40)
transfers = st.builds(
    Transfer,
    offsets,
    st.integers(0, 2**31 - 1),
    offsets,
    st.integers(-1, 2**40),
    st.binary(max_size=300),
)
histories = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 10**6)), max_size=8).map(
    lambda steps: EpochHistory.from_pairs(
        (sum(e for e, _ in steps[: i + 1]), sum(s for _, s in steps[: i + 1]))
        for i in range(len(steps))
    )
)
handshakes = st.builds(MasterHandshake, offsets, histories)
cuts = st.lists(st.integers(1, 60), min_size=1, max_size=20)


def in_pieces(data: bytes, sizes: list[int]):
    position = index = 0
    while position < len(data):
        size = sizes[index % len(sizes)]
        yield data[position : position + size]
        position, index = position + size, index + 1


@settings(deadline=None)
@given(st.lists(transfers | handshakes, max_size=6), cuts)
def test_a_master_stream_cut_anywhere_gives_the_same_packets(
    frames: list, sizes: list[int]
) -> None:
    stream = b"".join(frame.encode() for frame in frames)
    decoder = MasterFrameDecoder()
    found = [
        Transfer(f.offset, f.epoch, f.epoch_start, f.confirm_offset, bytes(f.data))
        if isinstance(f, Transfer)
        else f
        for piece in in_pieces(stream, sizes)
        for f in decoder.feed(piece)
    ]
    assert joined(found) == joined(frames)
    assert not decoder.mid_packet


@settings(deadline=None)
@given(
    st.lists(
        st.builds(SlaveAck, offsets)
        | st.builds(SlaveHandshake, st.integers(0, 2**63 - 1), st.booleans(), st.booleans()),
        max_size=8,
    ),
    cuts,
)
def test_a_slave_stream_cut_anywhere_gives_the_same_packets(frames: list, sizes: list[int]) -> None:
    stream = b"".join(frame.encode() for frame in frames)
    decoder = SlaveFrameDecoder()
    assert [f for piece in in_pieces(stream, sizes) for f in decoder.feed(piece)] == frames
    assert decoder.partial_bytes == 0


@settings(deadline=None)
@given(st.binary(max_size=400), cuts)
def test_random_bytes_end_in_a_protocol_error_or_in_patience(data: bytes, sizes: list[int]) -> None:
    for decoder in (SlaveFrameDecoder(), MasterFrameDecoder()):
        try:
            for piece in in_pieces(data, sizes):
                decoder.feed(piece)
                assert decoder.partial_bytes <= FRAME_BYTES_MAX
        except ProtocolError:
            pass


@settings(deadline=None)
@given(st.sampled_from([1, 2]), st.binary(min_size=8, max_size=200))
def test_random_bytes_behind_a_right_state_are_survived_too(state: int, rest: bytes) -> None:
    for decoder in (SlaveFrameDecoder(), MasterFrameDecoder()):
        try:
            decoder.feed(struct.pack(">i", state) + rest)
        except ProtocolError:
            pass


@pytest.mark.parametrize("size", [-1, FRAME_BYTES_MAX - 35, 2**31 - 1])
def test_a_body_beyond_the_limit_is_refused_at_its_header(size: int) -> None:
    with pytest.raises(ProtocolError, match="announces a body"):
        MasterFrameDecoder().feed(struct.pack(">ii", 2, size))


def test_a_long_packet_is_handed_out_as_it_arrives_and_never_kept() -> None:
    decoder = MasterFrameDecoder()
    packet = Transfer(100, 4, 50, 70, b"abcdefgh").encode()
    assert decoder.feed(packet[:36]) == []
    first = decoder.feed(packet[36:39])
    second = decoder.feed(packet[39:])
    assert [(f.offset, bytes(f.data)) for f in first + second] == [(100, b"abc"), (103, b"defgh")]
    assert decoder.partial_bytes == 0


@pytest.mark.parametrize(
    "packet",
    [
        struct.pack(">iiqi", 1, 13, 0, 1) + b"\0" * 13,  # entries of odd size
        struct.pack(">iiqi", 1, 12, -5, 1) + struct.pack(">iq", 1, 0),  # negative log end
        struct.pack(">iiqi", 1, 12, 0, 9) + struct.pack(">iq", 1, 0),  # newest epoch is another
        struct.pack(">iiqi", 1, 24, 0, 1) + struct.pack(">iqiq", 2, 0, 1, 5),  # epochs fall
        struct.pack(">iiqiqq", 2, 5, -1, 1, 0, 0),  # bytes at a negative offset
        struct.pack(">iiqiqq", 2, 0, 0, -1, 0, 0),  # negative epoch
    ],
)
def test_contradictory_packets_of_a_master_are_refused(packet: bytes) -> None:
    with pytest.raises(ProtocolError):
        MasterFrameDecoder().feed(packet)


@pytest.mark.parametrize(
    "packet",
    [
        struct.pack(">ihhq", 1, 2, 0, 2),
        struct.pack(">ihhq", 1, 0, 0, -2),
        struct.pack(">iq", 2, -1),
        b"\0\0\0\3" + b"\0" * 12,
    ],
)
def test_contradictory_packets_of_a_slave_are_refused(packet: bytes) -> None:
    with pytest.raises(ProtocolError):
        SlaveFrameDecoder().feed(packet)


def test_frames_print_as_one_short_line() -> None:
    for frame in (
        SlaveHandshake(2),
        SlaveAck(7),
        MasterHandshake(9, EpochHistory.of((1, 0))),
        Transfer(0, 1, 0, 0, b"x"),
    ):
        assert "\n" not in str(frame)
        assert len(str(frame)) < 80
