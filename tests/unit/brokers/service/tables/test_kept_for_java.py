"""Which of a master's answers are taken over for Java's services."""

import struct

import pytest

from brokers.service.tables.kept_for_java import KeptDocument, TimerCheckPoint


def check_point(*fields: int) -> bytes:
    return struct.pack(">7q", *fields)


def test_positions_in_the_own_timer_log_stay() -> None:
    own = TimerCheckPoint()
    own.from_file(check_point(1_000, 52, 1, 1, 1, 1, 1))
    own.take_over(check_point(9_000, 5200, 90, 91, 2, 9_100, 4))
    assert own.body(0) == own.to_file()[:56] == check_point(9_000, 52, 1, 91, 2, 9_100, 4)


def test_without_a_check_point_timers_are_read_from_the_oldest_message_on() -> None:
    assert TimerCheckPoint().body(1_700_000_000_999) == check_point(
        1_700_000_000_000, 0, 0, 0, 0, 0, 0
    )


def test_who_knows_no_check_point_wipes_out_none() -> None:
    own = TimerCheckPoint()
    own.take_over(check_point(9_000, 0, 0, 91, 2, 9_100, 4))
    own.take_over(TimerCheckPoint().body(9_999_000))
    assert own.body(0) == check_point(9_000, 0, 0, 91, 2, 9_100, 4)


@pytest.mark.parametrize("size", [0, 32, 55, 57])
def test_a_check_point_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} bytes"):
        TimerCheckPoint().take_over(b"\0" * size)


def test_an_empty_document_takes_no_ones_place_and_a_full_one_does() -> None:
    table = KeptDocument("offsetTable")
    table.take_over(b'{"offsetTable":{1:5}}')
    first = table.value
    table.take_over(b'{"offsetTable":{}}')
    table.take_over(b'{"offsetTable":{"1":5}}')
    assert table.value is first
    table.take_over(b'{"offsetTable":{"1":6}}')
    assert table.body(0) == b'{"offsetTable":{"1":6}}'


def test_a_document_too_deep_to_be_written_is_refused() -> None:
    table = KeptDocument("offsetTable")
    with pytest.raises(ValueError, match="deep"):
        table.take_over(b'{"offsetTable":' + b'{"a":' * 700 + b"1" + b"}" * 701)
    assert table.body(0) == (
        b'{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"offsetTable":{}}'
    )
