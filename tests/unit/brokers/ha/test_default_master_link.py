"""A master's end of one default HA link, row by row."""

from __future__ import annotations

import pytest

from brokers.ha.default_frames import header, heartbeat, report
from brokers.ha.default_master_link import DefaultMasterLink
from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import ProtocolError
from brokers.ha.log_sender import LinkLimits, LogView

FILE_BYTES = 1000
LIMITS = LinkLimits(
    file_bytes=FILE_BYTES,
    heartbeat_ms=5_000,
    housekeeping_ms=20_000,
    batch_bytes=300,
    unacked_bytes_max=1_500,
)


def log(end: int, begin: int = 0) -> LogView:
    return LogView(EpochHistory(), begin, end, end)


def linked(reported: int, view: LogView, now_ms: int = 0) -> DefaultMasterLink:
    link = DefaultMasterLink(LIMITS, now_ms=now_ms)
    link.receive_data(report(reported), view, now_ms=now_ms)
    return link


@pytest.mark.parametrize(
    ("reported", "begin", "end", "start"),
    [
        (0, 0, 0, 0),
        (0, 0, 700, 0),
        (0, 0, 2300, 2000),
        (0, 0, 2000, 1000),  # not at a file that has no byte yet
        (0, 2000, 2300, 2000),
        (1, 0, 2300, 1),
        (2300, 0, 2300, 2300),
        (1500, 1000, 2300, 1500),
    ],
)
def test_where_sending_starts(reported: int, begin: int, end: int, start: int) -> None:
    link = linked(reported, log(end, begin))
    assert link.next_offset == start
    sent = link.data_to_send(log(end, begin), now_ms=0)
    assert (sent[0].offset if sent else end) == start


@pytest.mark.parametrize(
    ("reported", "begin", "end"), [(2301, 0, 2300), (999, 1000, 2300), (1, 0, 0)]
)
def test_a_slave_that_cannot_be_served_is_told_by_the_end_of_its_link(
    reported: int, begin: int, end: int
) -> None:
    with pytest.raises(ProtocolError):
        linked(reported, log(end, begin))


def test_nothing_is_sent_before_the_first_report() -> None:
    link = DefaultMasterLink(LIMITS, now_ms=0)
    assert link.data_to_send(log(500), now_ms=0) == []
    assert link.heartbeat_due(now_ms=60_000) is None


def test_packets_stay_within_files_batches_and_the_window() -> None:
    link, view = linked(900, log(5000)), log(5000)
    sent = link.data_to_send(view, now_ms=0)
    assert [(one.offset, one.count) for one in sent][:3] == [(900, 100), (1000, 300), (1300, 300)]
    assert sent[0].header == header(900, 100)
    assert sum(one.count for one in sent) == LIMITS.unacked_bytes_max
    assert link.data_to_send(view, now_ms=0) == []
    link.receive_data(report(1900), view, now_ms=1)
    assert sum(one.count for one in link.data_to_send(view, now_ms=1)) == 1000


@pytest.mark.parametrize("reported", [899, 2401])
def test_a_report_of_what_it_never_got_ends_the_link(reported: int) -> None:
    link, view = linked(900, log(5000)), log(5000)
    link.data_to_send(view, now_ms=0)
    with pytest.raises(ProtocolError):
        link.receive_data(report(reported), view, now_ms=1)


def test_a_heartbeat_comes_when_nothing_was_sent_for_the_interval() -> None:
    link = linked(500, log(500))
    assert link.heartbeat_due(now_ms=4_999) is None
    assert link.heartbeat_due(now_ms=5_000) == heartbeat(500)
    assert link.heartbeat_due(now_ms=9_999) is None


def test_the_idle_limit_counts_from_what_was_read_last_and_not_while_this_process_stood_still() -> (
    None
):
    link = linked(500, log(500), now_ms=100)
    assert link.silent_too_long(now_ms=20_099) is None
    assert link.silent_too_long(now_ms=20_100)
    link.forgive(5_000)
    assert link.silent_too_long(now_ms=20_100) is None


def test_a_slow_slave_is_not_served_from_files_that_are_gone() -> None:
    link = linked(500, log(5000))
    with pytest.raises(ProtocolError):
        link.data_to_send(log(5000, 1000), now_ms=0)


def test_the_flow_limit_holds_back() -> None:
    limits = LinkLimits(file_bytes=FILE_BYTES, flow_bytes_per_s=1_000)
    link = DefaultMasterLink(limits, now_ms=0)
    link.receive_data(report(1), log(5000), now_ms=0)
    assert sum(one.count for one in link.data_to_send(log(5000), now_ms=0)) == 100
    assert link.held_back
