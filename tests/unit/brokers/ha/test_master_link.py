"""The master's side of one link: handshake, where sending starts, how packets are cut, who
waits.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import (
    MasterFrameDecoder,
    MasterHandshake,
    ProtocolError,
    SlaveAck,
    SlaveHandshake,
    Transfer,
)
from brokers.ha.log_sender import LinkLimits, LogView, RangeToSend
from brokers.ha.master_link import MasterLink, SlaveAcknowledged, SlaveIntroduced

LIMITS = LinkLimits(
    file_bytes=1000,
    heartbeat_ms=100,
    housekeeping_ms=2000,
    handshake_timeout_ms=500,
    batch_bytes=300,
)
EPOCHS = EpochHistory.of((1, 0), (3, 441), (4, 882))
LOG = LogView(EPOCHS, 0, 1029, 1000)


def linked(
    log: LogView = LOG, *, acked: int = 0, limits: LinkLimits = LIMITS, last_file: bool = False
) -> MasterLink:
    link = MasterLink(limits, own_id=1, now_ms=0)
    link.receive_data(SlaveHandshake(2, last_file).encode(), log, now_ms=0)
    link.receive_data(SlaveAck(acked).encode(), log, now_ms=0)
    return link


def header_of(packet: RangeToSend) -> tuple:
    """(offset, body bytes, epoch, epoch start, confirm offset) of a packet's header."""
    (_, body, offset, epoch, start, confirm) = struct.unpack(">iiqiqq", packet.header)
    assert (offset, body) == (packet.offset, packet.count)
    return offset, body, epoch, start, confirm


def test_the_reply_carries_end_and_all_entries_in_one_piece() -> None:
    link = MasterLink(LIMITS, own_id=1, now_ms=0)
    (event,) = link.receive_data(SlaveHandshake(2).encode(), LOG, now_ms=0)
    assert event == SlaveIntroduced(2, False, MasterHandshake(1029, EPOCHS).encode())
    assert len(event.reply) == 20 + 3 * 12
    assert link.data_to_send(LOG, now_ms=0) == []  # nothing before the first acknowledgement
    assert link.heartbeat_due(LOG, now_ms=10_000) is None


def test_a_repeated_handshake_gets_no_second_answer() -> None:
    link = MasterLink(LIMITS, own_id=1, now_ms=0)
    link.receive_data(SlaveHandshake(2).encode(), LOG, now_ms=0)
    assert link.receive_data(SlaveHandshake(2).encode() * 2, LOG, now_ms=1) == []
    with pytest.raises(ProtocolError, match="now calls itself 3"):
        link.receive_data(SlaveHandshake(3).encode(), LOG, now_ms=2)


def test_a_heartbeat_does_not_tell_of_an_epoch_before_its_first_byte() -> None:
    for epochs, acked, label in (
        (EpochHistory.of((1, 0), (3, 441)), 441, (1, 0)),  # epoch 3 has no byte yet
        (EpochHistory.of((1, 0), (3, 441)), 500, (3, 441)),
        (EpochHistory.of((2, 0)), 0, (2, 0)),  # there is no earlier one
        (EpochHistory.of((5, 300)), 300, (5, 300)),
    ):
        log = LogView(epochs, epochs.entries[0].start_offset, acked, 0)
        link = linked(log, acked=acked)
        (_, _, offset, *found, _) = struct.unpack(
            ">iiqiqq", link.heartbeat_due(log, now_ms=1000) or b""
        )
        assert (offset, tuple(found)) == (acked, label)


def reply_to(broker_id: int, log: LogView, unjoined: set[int]) -> bytes:
    link = MasterLink(LIMITS, own_id=1, now_ms=0, unjoined=unjoined)
    (event,) = link.receive_data(SlaveHandshake(broker_id).encode(), log, now_ms=0)
    return event.reply


def entries_of(reply: bytes) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">iq", reply[20:]))


def test_a_slave_that_left_without_an_ack_is_told_of_superseded_epochs_every_other_time() -> None:
    """A Java slave that knows only (1, 0) finds no common epoch in (3, 0) and would try for ever
    (2.6).
    """
    log, unjoined = LogView(EpochHistory.of((3, 0), (4, 500)), 0, 600, 0), set[int]()
    plain, wide = [(3, 0), (4, 500)], [(1, 0), (2, 0), (3, 0), (4, 500)]
    assert [entries_of(reply_to(2, log, unjoined)) for _ in range(4)] == [plain, wide, plain, wide]
    assert entries_of(reply_to(5, log, unjoined)) == plain


def java_joins_at(own: EpochHistory, own_end: int, reply: bytes) -> int | None:
    """Where a Java slave would cut its log, as 2.6 has it; None: it closes the link and tries again
    for ever.
    """
    (master_end,) = struct.unpack_from(">q", reply, 8)
    theirs = entries_of(reply)
    ends = {
        epoch: end
        for (epoch, _), end in zip(
            theirs, [*(start for _, start in theirs[1:]), master_end], strict=True
        )
    }
    for entry in reversed(own.entries):
        if (entry.epoch, entry.start_offset) in theirs:
            return min(own.end_of(entry.epoch, own_end), ends[entry.epoch])
    return None


@pytest.mark.parametrize(
    ("own", "own_end", "epochs", "plain", "wide"),
    [
        # nothing was written in epoch 1
        (EpochHistory.of((1, 0)), 0, EpochHistory.of((2, 0)), None, 0),
        # what was is not the master's
        (EpochHistory.of((1, 0)), 300, EpochHistory.of((3, 0), (4, 441)), None, 0),
        (EpochHistory.of((1, 0), (2, 200)), 300, EpochHistory.of((1, 0), (3, 200)), 200, 200),
        (EpochHistory.of((3, 0)), 300, EpochHistory.of((3, 0), (4, 441)), 300, 300),
        # older files are gone on both sides
        (EpochHistory.of((2, 500)), 700, EpochHistory.of((5, 500)), None, 500),
    ],
)
def test_a_java_slave_joins_where_the_logs_are_equal_at_the_latest_with_the_second_reply(
    own: EpochHistory, own_end: int, epochs: EpochHistory, plain: int | None, wide: int
) -> None:
    log, unjoined = LogView(epochs, epochs.entries[0].start_offset, 900, 0), set[int]()
    assert [java_joins_at(own, own_end, reply_to(2, log, unjoined)) for _ in range(2)] == [
        plain,
        wide,
    ]


def test_a_slave_that_acknowledged_gets_the_plain_reply_again() -> None:
    log, unjoined = LogView(EpochHistory.of((3, 0)), 0, 600, 0), set[int]()
    link = MasterLink(LIMITS, own_id=1, now_ms=0, unjoined=unjoined)
    link.receive_data(SlaveHandshake(2).encode() + SlaveAck(0).encode(), log, now_ms=0)
    assert entries_of(reply_to(2, log, unjoined)) == [(3, 0)]


def test_our_own_slaves_read_past_superseded_epochs() -> None:
    reply = MasterHandshake(
        600, EpochHistory.of((3, 7), (4, 500)), EpochHistory.of((3, 7)).before_first(10)
    )
    assert MasterFrameDecoder().feed(reply.encode()) == [
        MasterHandshake(600, EpochHistory.of((3, 7), (4, 500)))
    ]


def test_a_history_longer_than_a_java_buffer_is_answered_with_its_newest_part() -> None:
    long = EpochHistory.from_pairs((i, 10 * i) for i in range(1, 1501))
    link = MasterLink(LIMITS, own_id=1, now_ms=0)
    (event,) = link.receive_data(SlaveHandshake(2).encode(), LogView(long, 0, 20_000, 0), now_ms=0)
    (reply,) = MasterFrameDecoder().feed(event.reply)
    assert len(reply.epochs.entries) == 1000
    assert reply.epochs.newest_epoch == 1500


@pytest.mark.parametrize(
    ("acked", "last_file", "log_min", "start"),
    [
        (0, False, 0, 0),
        (0, False, 1000, 1000),
        (0, True, 0, 2000),
        (0, True, 1000, 2000),
        (1234, True, 0, 1234),
    ],
)
def test_sending_starts_where_the_slave_ends_or_an_empty_one_must_begin(
    acked: int, last_file: bool, log_min: int, start: int
) -> None:
    log = LogView(EpochHistory.of((1, 0)), log_min, 2345, 0)
    link = linked(log, acked=acked, last_file=last_file)
    assert link.data_to_send(log, now_ms=0)[0].offset == start


def test_the_last_file_is_the_last_one_that_holds_bytes() -> None:
    for end, start in ((2000, 1000), (2001, 2000), (1000, 0)):
        log = LogView(EpochHistory.of((1, 0)), 0, end, 0)
        assert linked(log, last_file=True).data_to_send(log, now_ms=0)[0].offset == start


@pytest.mark.parametrize("acked", [1030, 2**62])
def test_a_slave_that_claims_more_than_the_log_holds_is_refused(acked: int) -> None:
    with pytest.raises(ProtocolError, match="beyond the log end"):
        linked(acked=acked)


def test_a_slave_that_ends_below_the_first_file_is_refused() -> None:
    with pytest.raises(ProtocolError, match="log begins at 1000"):
        linked(LogView(EPOCHS, 1000, 3000, 0), acked=500)


def test_an_acknowledgement_before_the_handshake_is_refused() -> None:
    with pytest.raises(ProtocolError, match="before the handshake"):
        MasterLink(LIMITS, own_id=1, now_ms=0).receive_data(SlaveAck(0).encode(), LOG, now_ms=0)


def test_a_slave_with_the_masters_own_id_is_refused() -> None:
    with pytest.raises(ProtocolError, match="own broker id"):
        MasterLink(LIMITS, own_id=2, now_ms=0).receive_data(
            SlaveHandshake(2).encode(), LOG, now_ms=0
        )


def test_acknowledgements_stay_between_the_last_one_and_what_was_sent() -> None:
    link = linked(acked=441)
    link.data_to_send(LOG, now_ms=0)
    assert link.receive_data(SlaveAck(500).encode(), LOG, now_ms=1) == [
        SlaveAcknowledged(500, False)
    ]
    for wrong in (499, 1030):
        with pytest.raises(ProtocolError, match="outside of"):
            link.receive_data(SlaveAck(wrong).encode(), LOG, now_ms=1)


def test_every_packet_bears_the_epoch_of_its_first_byte() -> None:
    """Not Java's way of labelling the last packet of an epoch with the next one (2.4)."""
    packets = [header_of(item) for item in linked().data_to_send(LOG, now_ms=0)]
    assert packets == [
        (0, 300, 1, 0, 1000),
        (300, 141, 1, 0, 1000),
        (441, 300, 3, 441, 1000),
        (741, 141, 3, 441, 1000),
        (882, 118, 4, 882, 1000),  # to the end of the file
        (1000, 29, 4, 882, 1000),
    ]


@settings(deadline=None)
@given(
    st.integers(1, 4000),
    st.integers(0, 4000),
    st.integers(1, 700),
    st.lists(st.integers(1, 3999), max_size=5),
)
def test_packets_never_cross_a_file_or_an_epoch_and_cover_the_log(
    end: int, acked: int, batch: int, borders: list[int]
) -> None:
    starts = sorted({0, *(border for border in borders if border <= end)})
    log = LogView(
        EpochHistory.from_pairs((i + 1, start) for i, start in enumerate(starts)), 0, end, 0
    )
    acked = min(acked, end)
    link = linked(log, acked=acked, limits=LinkLimits(file_bytes=1000, batch_bytes=batch))
    at = acked
    for packet in link.data_to_send(log, now_ms=0):
        offset, count, epoch, epoch_start, _ = header_of(packet)
        assert offset == at and 0 < count <= batch
        assert offset // 1000 == (offset + count - 1) // 1000
        for byte in (offset, offset + count - 1):
            assert (log.epochs.find(byte).epoch, log.epochs.find(byte).start_offset) == (
                epoch,
                epoch_start,
            )
        at += count
    assert at == end


def test_bytes_in_flight_are_bounded_and_flow_again_with_acknowledgements() -> None:
    limits = LinkLimits(file_bytes=10_000, batch_bytes=100, unacked_bytes_max=250)
    log = LogView(EpochHistory.of((1, 0)), 0, 1000, 0)
    link = linked(log, limits=limits)
    assert [item.count for item in link.data_to_send(log, now_ms=0)] == [100, 100, 50]
    assert link.data_to_send(log, now_ms=0) == []
    link.receive_data(SlaveAck(100).encode(), log, now_ms=1)
    assert [(item.offset, item.count) for item in link.data_to_send(log, now_ms=1)] == [(250, 100)]


def test_a_late_beginning_log_does_not_count_as_bytes_in_flight() -> None:
    limits = LinkLimits(file_bytes=1000, batch_bytes=1000, unacked_bytes_max=500)
    log = LogView(EpochHistory.of((1, 0)), 5000, 5600, 0)
    link = linked(log, limits=limits)
    assert [(item.offset, item.count) for item in link.data_to_send(log, now_ms=0)] == [(5000, 500)]


def test_a_blocked_link_sends_nothing_until_the_shell_has_room() -> None:
    link = linked()
    link.blocked = True
    assert link.data_to_send(LOG, now_ms=0) == []
    assert link.heartbeat_due(LOG, now_ms=1000) is None
    link.blocked = False
    assert link.data_to_send(LOG, now_ms=0)


def test_a_log_without_a_covering_epoch_is_not_sent_under_a_wrong_label() -> None:
    log = LogView(EpochHistory.of((5, 100)), 0, 300, 0)
    link = linked(log)
    with pytest.raises(ProtocolError, match="no epoch covers offset 0"):
        link.data_to_send(log, now_ms=0)


def test_heartbeats_come_when_idle_and_when_the_confirm_offset_is_news() -> None:
    log = LogView(EPOCHS, 0, 1029, 0)
    link = linked(log, acked=1029)
    # confirm never told
    assert Transfer(1029, 4, 882, 0).encode() == link.heartbeat_due(log, now_ms=1)
    assert link.heartbeat_due(log, now_ms=50) is None
    assert link.heartbeat_due(log, now_ms=101) is not None
    moved = LogView(EPOCHS, 0, 1029, 1029)
    assert Transfer(1029, 4, 882, 1029).encode() == link.heartbeat_due(moved, now_ms=102)
    assert link.heartbeat_due(moved, now_ms=103) is None


def test_silence_ends_the_link_at_its_limits() -> None:
    link = MasterLink(LIMITS, own_id=1, now_ms=0)
    assert link.silent_too_long(now_ms=499) is None
    assert link.silent_too_long(now_ms=500) == "no handshake within 500 ms"
    link = linked()
    assert link.silent_too_long(now_ms=1999) is None
    assert link.silent_too_long(now_ms=2000) == "nothing read for 2000 ms"
    link.forgive(1500)  # the master itself stood still
    assert link.silent_too_long(now_ms=2000) is None


def test_waiting_is_counted_from_when_unacknowledged_bytes_began_to_wait() -> None:
    log = LogView(EpochHistory.of((1, 0)), 0, 100, 0)
    link = linked(log, acked=100)
    assert link.waiting_ms(now_ms=5000) == 0  # nothing to acknowledge
    link.log_grew(150, now_ms=6000)
    grown = LogView(log.epochs, 0, 200, 0)
    link.data_to_send(grown, now_ms=6000)
    link.log_grew(200, now_ms=6400)
    assert link.waiting_ms(now_ms=6500) == 500
    # the mark is reached, a new one set
    link.receive_data(SlaveAck(150).encode(), grown, now_ms=6600)
    assert link.waiting_ms(now_ms=6700) == 100
    link.receive_data(SlaveAck(200).encode(), grown, now_ms=6800)
    assert link.waiting_ms(now_ms=9000) == 0
    link.log_grew(300, now_ms=9000)
    link.forgive(700)
    assert link.waiting_ms(now_ms=10_000) == 300


def test_a_slave_that_never_acknowledges_after_its_handshake_is_waiting() -> None:
    link = MasterLink(LIMITS, own_id=1, now_ms=0)
    link.receive_data(SlaveHandshake(2).encode(), LOG, now_ms=100)
    assert link.waiting_ms(now_ms=1200) == 1100


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_hostile_slaves_end_in_a_protocol_error_only(pieces: list[bytes]) -> None:
    link = linked()
    link.data_to_send(LOG, now_ms=0)
    try:
        for piece in pieces:
            link.receive_data(piece, LOG, now_ms=1)
            link.data_to_send(LOG, now_ms=1)
            assert 0 <= link.acked <= link.next_offset <= LOG.end_offset
    except ProtocolError:
        pass


def test_a_slave_behind_the_first_file_hears_where_the_log_begins() -> None:
    log = LogView(EpochHistory.of((3, 441), (4, 882)), 1000, 1029, 1000)
    with pytest.raises(
        ProtocolError,
        match=("slave ends at 600, this log begins at 1000: it needs an empty store folder"),
    ) as refused:
        linked(log, acked=600)
    (word,) = MasterFrameDecoder().feed(refused.value.last_word)
    assert (word.offset, word.epoch, word.epoch_start, word.is_heartbeat) == (1000, 4, 882, True)


def test_a_flow_limit_holds_packets_back_until_their_time() -> None:
    link = linked(limits=replace(LIMITS, flow_bytes_per_s=2_000))
    sent = [packet.count for packet in link.data_to_send(LOG, now_ms=0)]
    assert sum(sent) == 200 and link.held_back
    assert link.data_to_send(LOG, now_ms=0) == []
    for now_ms in range(25, 500, 25):
        sent += [packet.count for packet in link.data_to_send(LOG, now_ms=now_ms)]
        assert sum(sent) <= 200 + 2 * now_ms
    assert sum(sent) == LOG.end_offset and not link.held_back


def test_without_a_limit_nothing_is_held_back() -> None:
    link = linked()
    assert (
        sum(packet.count for packet in link.data_to_send(LOG, now_ms=0)) == LOG.end_offset
        and not link.held_back
    )
