"""The default HA stream of real RocketMQ 5.3.3 brokers, replayed against both of our ends.

`default-ha.jsonl`: one process spoke with a Java master as its slave would, and with a Java slave
as its master; every line is what one of the two wrote, with the seconds since the link was made.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers.ha.default_frames import PushDecoder, ReportDecoder, header, heartbeat, report
from brokers.ha.default_master_link import DefaultMasterLink
from brokers.ha.default_slave_link import Agreed, DefaultSlaveLink, Differs, Received, ReportDue
from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import ProtocolError
from brokers.ha.log_sender import LinkLimits, LogView
from brokers.store.log.records import decode_messages

LIMITS = LinkLimits(
    file_bytes=16 * 1024 * 1024, heartbeat_ms=5_000, housekeeping_ms=20_000, batch_bytes=32 * 1024
)


def said(conversation: str) -> list[dict]:
    lines = map(json.loads, (Path(__file__).parent / "default-ha.jsonl").read_text().splitlines())
    return [line for line in lines if line["conversation"] == conversation]


def raw(line: dict) -> bytes:
    return bytes.fromhex(line["raw_hex"])


def by_master(conversation: str) -> list[bytes]:
    return [raw(one) for one in said(conversation) if one["direction"] == "master->slave"]


def log() -> bytes:
    """The Java master's log, as it sent it to an empty slave."""
    pushed = [one for data in by_master("empty slave") for one in PushDecoder().feed(data)]
    return b"".join(bytes(one.data) for one in pushed)


def ours(end: int) -> LogView:
    return LogView(EpochHistory(), 0, end, end)


def test_our_slave_copies_from_a_java_master_byte_by_byte() -> None:
    link = DefaultSlaveLink(LIMITS, check_from=0, end_offset=0, now_ms=0)
    sent = [one.data for one in link.open() if isinstance(one, ReportDue)]
    copied = b""
    for data in by_master("empty slave"):
        for event in link.receive_data(data, now_ms=1):
            if isinstance(event, Received):
                copied += bytes(event.data)
            elif isinstance(event, ReportDue):
                sent.append(event.data)
    wanted = [raw(one) for one in said("empty slave") if one["direction"] == "slave->master"]
    assert sent == wanted
    assert copied == log() and len(decode_messages(copied)) > 3


def test_our_master_sends_an_empty_slave_the_bytes_that_a_java_master_sent() -> None:
    link, end = DefaultMasterLink(LIMITS, now_ms=0), len(log())
    link.receive_data(report(0), ours(end), now_ms=30)
    sent = link.data_to_send(ours(end), now_ms=40)
    data = b"".join(one.header + log()[one.offset : one.offset + one.count] for one in sent)
    first, beat = by_master("empty slave")[0], by_master("empty slave")[-1]
    assert data[:12] == header(0, len(first) - 12) and data == first
    assert link.heartbeat_due(now_ms=5_040) == beat


def test_a_java_master_says_nothing_about_a_log_that_ends_before_its_slaves() -> None:
    """It beats from where the slave asked: ours takes two of these for the end of that log."""
    name = "slave beyond the master's end"
    asked = int.from_bytes(raw(said(name)[0]))
    beats = by_master(name)
    assert len(log()) < asked and beats == [heartbeat(asked)] * 2
    link = DefaultSlaveLink(LIMITS, check_from=asked, end_offset=asked + 9, now_ms=0)
    link.open()
    events = [event for beat in beats for event in link.receive_data(beat, now_ms=1)]
    assert events == [Differs(asked, master_ends=True)]
    with pytest.raises(ProtocolError):
        DefaultMasterLink(LIMITS, now_ms=0).receive_data(report(asked), ours(len(log())), now_ms=1)


def test_a_java_master_drops_a_silent_slave_after_the_idle_limit() -> None:
    *beats, last = said("silent slave")[1:]
    assert [round(one["t"] / 5) for one in beats] == [1, 2, 3]
    assert last["note"] == "closed" and 20 <= last["t"] < 22


def test_our_master_takes_what_a_java_slave_reports() -> None:
    """A half message is reported as any other bytes are."""
    link, end = DefaultMasterLink(LIMITS, now_ms=0), len(log())
    reports = []
    for one in said("Java slave"):
        if one["direction"] == "slave->master" and raw(one):
            reports += ReportDecoder().feed(raw(one))
            link.receive_data(raw(one), ours(end), now_ms=int(one["t"] * 1_000))
            link.data_to_send(ours(end), now_ms=int(one["t"] * 1_000))
    assert reports == [0, end // 2, end, end] and link.acked == end


def test_a_java_slave_closes_on_a_push_from_elsewhere_and_comes_back_after_a_while() -> None:
    assert said("Java slave")[-1]["note"] == "closed"
    back, first, *_ = said("Java slave, a master that says nothing")
    assert 4 <= back["t"] <= 12
    assert raw(first) == report(len(log())) and Agreed() == Agreed()
