"""The frames of the default HA stream: exact bytes, any split, any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.ha.default_frames import (
    HEADER,
    PushDecoder,
    Pushed,
    ReportDecoder,
    header,
    heartbeat,
    report,
)
from brokers.ha.frames import FRAME_BYTES_MAX, ProtocolError


def test_the_bytes_are_rocketmqs() -> None:
    assert report(0x0102) == bytes.fromhex("0000000000000102")
    assert header(0x0102, 5) == bytes.fromhex("000000000000010200000005")
    assert heartbeat(7) == bytes.fromhex("000000000000000700000000")


def pushed(frames: list[Pushed]) -> list[tuple[int, bytes]]:
    """Pieces of one packet joined."""
    found: list[tuple[int, bytes]] = []
    for one in frames:
        last = found[-1] if found else (0, b"")
        if found and not one.is_heartbeat and last[1] and last[0] + len(last[1]) == one.offset:
            found[-1] = (last[0], last[1] + bytes(one.data))
        else:
            found.append((one.offset, bytes(one.data)))
    return found


@given(st.integers(1, 9), st.lists(st.integers(0, 2**40), max_size=5))
def test_reports_come_whole_however_they_are_split(size: int, offsets: list[int]) -> None:
    data, decoder = b"".join(map(report, offsets)), ReportDecoder()
    found = []
    for at in range(0, len(data), size):
        found += decoder.feed(data[at : at + size])
        assert decoder.partial_bytes < 8
    assert found == offsets


@given(st.integers(1, 40), st.lists(st.binary(min_size=0, max_size=50), max_size=5))
def test_packets_come_whole_however_they_are_split(size: int, bodies: list[bytes]) -> None:
    """Two bodies that follow one another in the log look like one."""
    data = b"".join(header(1000 * n, len(body)) + body for n, body in enumerate(bodies))
    decoder, found = PushDecoder(), []
    for at in range(0, len(data), size):
        found += [Pushed(one.offset, bytes(one.data)) for one in decoder.feed(data[at : at + size])]
        assert decoder.partial_bytes < HEADER.size
    assert pushed(found) == [(1000 * n, body) for n, body in enumerate(bodies)]


@pytest.mark.parametrize(
    "data",
    [
        header(0, -1),
        header(0, FRAME_BYTES_MAX),
        HEADER.pack(-1, 0),
        HEADER.pack(-1, 4),
        HEADER.pack(2**63 - 1, 8),
    ],
)
def test_what_no_master_sends_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        PushDecoder().feed(data)


def test_a_negative_report_is_refused() -> None:
    with pytest.raises(ProtocolError):
        ReportDecoder().feed(bytes.fromhex("ffffffffffffffff"))


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_whatever_comes_only_protocol_errors_go_out(pieces: list[bytes]) -> None:
    for decoder in (ReportDecoder(), PushDecoder()):
        try:
            for piece in pieces:
                decoder.feed(piece)
                assert decoder.partial_bytes < HEADER.size
        except ProtocolError:
            continue
