"""A slave's end of one default HA link, row by row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.ha.default_frames import header, heartbeat, report
from brokers.ha.default_slave_link import (
    Agreed,
    Compare,
    DefaultSlaveLink,
    Differs,
    Received,
    ReportDue,
)
from brokers.ha.frames import ProtocolError
from brokers.ha.log_sender import LinkLimits

FILE_BYTES = 1000
LIMITS = LinkLimits(file_bytes=FILE_BYTES, heartbeat_ms=5_000, housekeeping_ms=20_000)


def link(check_from: int, end: int) -> DefaultSlaveLink:
    return DefaultSlaveLink(LIMITS, check_from=check_from, end_offset=end, now_ms=0)


def packet(offset: int, data: bytes) -> bytes:
    return header(offset, len(data)) + data


def test_an_empty_log_reports_zero_and_begins_where_the_master_pushes() -> None:
    one = link(0, 0)
    assert one.open() == [Agreed(), ReportDue(report(0))]
    assert one.receive_data(heartbeat(2000), now_ms=1) == []
    events = one.receive_data(packet(2000, b"abc"), now_ms=1)
    assert events == [Received(2000, b"abc"), ReportDue(report(2003))]


def test_an_empty_log_begins_at_a_border_of_its_own_files_only() -> None:
    one = link(0, 0)
    one.open()
    with pytest.raises(ProtocolError, match="sizes differ"):
        one.receive_data(packet(2500, b"abc"), now_ms=1)


def test_the_end_of_the_log_is_compared_before_it_grows() -> None:
    one = link(96, 100)
    assert one.open() == [ReportDue(report(96))]
    assert one.receive_data(packet(96, b"abcdef"), now_ms=1) == [Compare(96, b"abcd")]
    assert one.compared(96, 4, 4) == [Agreed(), Received(100, b"ef"), ReportDue(report(102))]
    assert one.receive_data(packet(102, b"g"), now_ms=2) == [
        Received(102, b"g"),
        ReportDue(report(103)),
    ]


def test_other_bytes_than_the_masters_are_told_and_nothing_is_added() -> None:
    one = link(96, 100)
    one.open()
    one.receive_data(packet(96, b"abXXef"), now_ms=1)
    assert one.compared(96, 2, 4) == [Differs(98, master_ends=False)]
    assert one.end_offset == 100


def test_a_master_whose_log_ends_earlier_is_told_by_its_second_heartbeat() -> None:
    one = link(96, 100)
    one.open()
    one.receive_data(packet(96, b"ab"), now_ms=1)
    assert one.compared(96, 2, 2) == []
    assert one.receive_data(heartbeat(98), now_ms=5_000) == []
    assert one.receive_data(heartbeat(98), now_ms=10_000) == [Differs(98, master_ends=True)]


def test_a_master_that_says_where_its_log_ends_is_believed_at_once() -> None:
    one = link(96, 100)
    one.open()
    assert one.receive_data(heartbeat(50), now_ms=1) == [Differs(50, master_ends=True)]


def test_while_bytes_are_compared_no_more_than_those_is_reported() -> None:
    one = link(96, 100)
    one.open()
    one.receive_data(packet(96, b"ab"), now_ms=1)
    one.compared(96, 2, 2)
    assert one.tick(now_ms=5_000) == [ReportDue(report(98))]


@pytest.mark.parametrize("data", [packet(101, b"x"), packet(99, b"x"), heartbeat(101)])
def test_a_push_that_does_not_go_on_where_the_log_ends_closes_the_link(data: bytes) -> None:
    one = link(100, 100)
    assert one.open() == [Agreed(), ReportDue(report(100))]
    with pytest.raises(ProtocolError):
        one.receive_data(data, now_ms=1)


def test_a_report_is_due_at_least_every_interval_and_silence_has_a_limit() -> None:
    one = link(100, 100)
    one.open()
    one.wrote(0)
    assert one.tick(now_ms=4_999) == []
    assert one.tick(now_ms=5_000) == [ReportDue(report(100))]
    assert one.silent_too_long(now_ms=19_999) is None
    assert one.silent_too_long(now_ms=20_000)
    one.forgive(1_000)
    assert one.silent_too_long(now_ms=20_000) is None


@given(st.integers(0, 30), st.lists(st.binary(max_size=40), max_size=6))
def test_whatever_comes_no_byte_is_added_out_of_place(window: int, pieces: list[bytes]) -> None:
    one, end = link(100 - window, 100), 100
    one.open()
    try:
        for piece in pieces:
            for event in one.receive_data(piece, now_ms=1):
                if isinstance(event, Received):
                    assert event.offset == end
                    end += len(event.data)
    except ProtocolError:
        pass
    assert one.end_offset == end
