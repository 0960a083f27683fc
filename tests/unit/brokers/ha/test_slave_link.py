"""The slave's side of one link: truncation, labels, acknowledgements behind their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import MasterHandshake, ProtocolError, SlaveAck, SlaveHandshake, Transfer
from brokers.ha.log_sender import LinkLimits
from brokers.ha.slave_link import (
    MASTER_BEGINS_LATER,
    AckDue,
    BytesReceived,
    ConfirmHeard,
    CutWanted,
    EpochsLearned,
    HandshakeAgreed,
    HandshakeFailed,
    SlaveLink,
    SlaveState,
)
from tests.support.examples import examples

H = EpochHistory.of
LIMITS = LinkLimits(
    file_bytes=1000, heartbeat_ms=100, housekeeping_ms=2000, handshake_timeout_ms=500
)
MASTER = MasterHandshake(735, H((1, 0), (3, 441)))


def opened(epochs: EpochHistory = H(), end: int = 0, **kwargs) -> SlaveLink:
    link = SlaveLink(LIMITS, broker_id=2, epochs=epochs, end_offset=end, now_ms=0, **kwargs)
    assert link.open() == SlaveHandshake(2).encode()
    return link


def agreed(epochs: EpochHistory = H(), end: int = 0, reply: MasterHandshake = MASTER) -> SlaveLink:
    link = opened(epochs, end)
    link.receive_data(reply.encode(), now_ms=0)
    assert link.state is SlaveState.TRANSFER
    return link


def transfer(offset: int, epoch: int, start: int, confirm: int, count: int) -> bytes:
    return Transfer(offset, epoch, start, confirm, b"d" * count).encode()


def body(start: int, end: int) -> bytes:
    return bytes(at % 251 for at in range(start, end))


def packet_starts(end: int) -> list[int]:
    """Offsets of packets of at most 7 bytes that stop at the epoch border and at the log end."""
    starts = []
    while end < 735:
        starts.append(end)
        end = min(end + 7, 441 if end < 441 else 735)
    return starts


def shape(events: list) -> list:
    """Events without the bytes themselves."""
    return [(e.offset, len(e.data)) if isinstance(e, BytesReceived) else e for e in events]


def test_an_empty_replica_acknowledges_nothing_at_once_and_waits_for_its_first_label() -> None:
    events = opened().receive_data(MASTER.encode(), now_ms=5)
    assert events == [HandshakeAgreed(0, 735), EpochsLearned(H()), AckDue(SlaveAck(0).encode(), 0)]


def test_equal_logs_are_joined_without_a_cut_and_acknowledged_at_once() -> None:
    events = opened(H((1, 0), (3, 441)), 735).receive_data(MASTER.encode(), now_ms=5)
    assert events == [
        HandshakeAgreed(735, 735),
        EpochsLearned(H((1, 0), (3, 441))),
        AckDue(SlaveAck(735).encode(), 735),
    ]


def test_a_superseded_empty_epoch_is_relabelled_at_the_handshake() -> None:
    link = opened(H((1, 0), (2, 441)), 441)
    events = link.receive_data(MASTER.encode(), now_ms=5)
    assert EpochsLearned(H((1, 0), (3, 441))) in events
    assert link.end_offset == 441


def test_a_parted_log_is_cut_before_anything_is_acknowledged() -> None:
    link = opened(H((1, 0), (2, 300)), 500)
    assert link.receive_data(MASTER.encode(), now_ms=0) == [CutWanted(300, 1)]
    assert link.state is SlaveState.CUTTING
    events = link.truncated(True, 300, now_ms=1)
    assert events == [
        HandshakeAgreed(300, 735),
        EpochsLearned(H((1, 0))),
        AckDue(SlaveAck(300).encode(), 300),
    ]


def test_a_cut_that_no_record_begins_at_fails_for_good() -> None:
    link = opened(H((1, 0), (2, 300)), 500)
    link.receive_data(MASTER.encode(), now_ms=0)
    (failed,) = link.truncated(False, 500, now_ms=1)
    assert isinstance(failed, HandshakeFailed) and failed.lasting
    assert failed.consistent_offset == 300
    assert link.receive_data(transfer(0, 1, 0, 0, 5), now_ms=2) == []


def test_a_cut_down_to_the_first_file_leaves_an_empty_log() -> None:
    link = opened(H((2, 1000)), 1500)
    link.receive_data(MasterHandshake(1200, H((3, 1000))).encode(), now_ms=0)
    events = link.truncated(True, 0, now_ms=1)
    assert AckDue(SlaveAck(0).encode(), 0) in events
    assert link.epochs == H()


def test_logs_without_a_common_epoch_are_left_to_an_operator() -> None:
    (failed,) = opened(H((1, 100), (2, 300)), 500).receive_data(
        MasterHandshake(900, H((1, 200))).encode(), now_ms=0
    )
    assert failed.lasting and "no common epoch" in failed.reason


@pytest.mark.parametrize(("wanted_epoch", "cut"), [(5, True), (None, False)])
def test_a_master_that_deleted_all_of_the_last_common_epoch_is_followed_from_its_first_file(
    wanted_epoch: int | None, cut: bool
) -> None:
    """It forgot that epoch with its bytes; a Java master might mean something else."""
    link = opened(H((1, 0), (2, 300)), 500, wanted_epoch=wanted_epoch)
    events = link.receive_data(MasterHandshake(900, H((4, 480), (5, 700))).encode(), now_ms=0)
    assert (events == [CutWanted(0, -1, MASTER_BEGINS_LATER)]) is cut
    assert link.state is (SlaveState.CUTTING if cut else SlaveState.FAILED)


@pytest.mark.parametrize("epoch", [2, 4])
def test_a_master_in_another_epoch_than_the_controller_said_gets_no_acknowledgement(
    epoch: int,
) -> None:
    link = opened(H((1, 0)), 10, wanted_epoch=epoch)
    (failed,) = link.receive_data(MASTER.encode(), now_ms=0)
    assert isinstance(failed, HandshakeFailed) and not failed.lasting


def test_the_label_stands_before_its_bytes_and_the_acknowledgement_behind_them() -> None:
    link = agreed()
    events = link.receive_data(transfer(0, 1, 0, 700, 441), now_ms=20)
    assert shape(events) == [
        EpochsLearned(H((1, 0))),
        (0, 441),
        EpochsLearned(H((1, 0), (3, 441))),  # reached: the next byte is of epoch 3
        ConfirmHeard(441),  # capped by what is here
        AckDue(SlaveAck(441).encode(), 441),
    ]


def test_the_early_label_of_a_java_master_does_not_lose_the_first_epoch() -> None:
    """2.4: offset 0, 441 bytes, labelled epoch 3 from 441 on, to a slave that acknowledged at
    once.
    """
    link = agreed()
    events = link.receive_data(transfer(0, 3, 441, 735, 441), now_ms=1)
    assert events[0] == EpochsLearned(H((1, 0)))
    link.receive_data(transfer(441, 3, 441, 735, 294), now_ms=2)
    assert link.epochs == H((1, 0), (3, 441))
    assert link.end_offset == 735


def test_a_packet_over_an_epoch_border_is_split_there() -> None:
    link = agreed()
    events = link.receive_data(transfer(0, 1, 0, 0, 500), now_ms=1)
    assert shape(events)[:4] == [
        EpochsLearned(H((1, 0))),
        (0, 441),
        EpochsLearned(H((1, 0), (3, 441))),
        (441, 59),
    ]


def test_an_epoch_the_master_begins_later_is_learned_from_its_label() -> None:
    link = agreed(H((1, 0), (3, 441)), 735)
    events = link.receive_data(Transfer(735, 5, 735, 735).encode(), now_ms=1)
    assert EpochsLearned(H((1, 0), (3, 441), (5, 735))) in events


def test_a_heartbeat_teaches_an_empty_replica_the_first_epoch() -> None:
    link = agreed(reply=MasterHandshake(0, H((1, 0))))
    assert link.receive_data(Transfer(-1, 1, 0, 0).encode(), now_ms=1) == [
        EpochsLearned(H((1, 0))),
        ConfirmHeard(0),
    ]


def test_an_empty_replica_of_a_late_beginning_log_takes_the_entry_of_its_first_byte() -> None:
    link = agreed(reply=MasterHandshake(2500, H((1, 0), (4, 1500), (6, 2200))))
    assert link.receive_data(Transfer(2000, 4, 1500, 0).encode(), now_ms=1) == [ConfirmHeard(0)]
    events = link.receive_data(transfer(2000, 4, 1500, 0, 100), now_ms=1)
    assert events[0] == EpochsLearned(H((4, 1500)))


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (transfer(700, 3, 441, 0, 5), "the log ends at 735"),
        (transfer(740, 3, 441, 0, 5), "the log ends at 735"),
        (transfer(735, 3, 440, 0, 5), "contradicts"),
        (transfer(735, 2, 300, 0, 5), "contradicts"),
        (transfer(735, 9, 440, 0, 5), "would start at"),
        (MASTER.encode(), "handshake reply in state transfer"),
    ],
)
def test_a_packet_that_does_not_continue_the_log_closes_the_link(
    packet: bytes, reason: str
) -> None:
    with pytest.raises(ProtocolError, match=reason):
        agreed(H((1, 0), (3, 441)), 735).receive_data(packet, now_ms=1)


def test_the_first_bytes_of_an_empty_replica_begin_a_file() -> None:
    with pytest.raises(ProtocolError, match="not at the start of a file"):
        agreed().receive_data(transfer(300, 1, 0, 0, 5), now_ms=1)


def test_bytes_before_the_handshake_reply_close_the_link() -> None:
    with pytest.raises(ProtocolError, match="in state handshake"):
        opened().receive_data(transfer(0, 1, 0, 0, 5), now_ms=1)


def test_an_idle_slave_repeats_its_acknowledgement() -> None:
    link = agreed(H((1, 0), (3, 441)), 735)
    assert link.tick(now_ms=99) == []
    assert link.tick(now_ms=100) == [AckDue(SlaveAck(735).encode(), 735)]
    assert link.tick(now_ms=150) == []


def test_an_acknowledgement_that_was_put_off_goes_with_the_next_tick() -> None:
    link = agreed(H((1, 0)), 100)
    assert not any(
        isinstance(event, AckDue)
        for event in link.receive_data(transfer(100, 1, 0, 0, 50), now_ms=1)
    )
    assert link.tick(now_ms=2) == [AckDue(SlaveAck(150).encode(), 150)]
    assert link.tick(now_ms=3) == []


def test_of_several_confirm_offsets_at_once_the_last_is_told() -> None:
    link = agreed(H((1, 0)), 100)
    events = link.receive_data(transfer(100, 1, 0, 40, 50) + transfer(150, 1, 0, 140, 50), now_ms=1)
    assert shape(events) == [(100, 50), (150, 50), ConfirmHeard(140)]


def test_silence_ends_the_link_at_its_limits() -> None:
    link = opened()
    assert link.silent_too_long(now_ms=499) is None
    assert "no handshake reply" in link.silent_too_long(now_ms=500)
    link = agreed()
    assert link.silent_too_long(now_ms=1999) is None
    assert "nothing read" in link.silent_too_long(now_ms=2000)
    link.forgive(1)
    assert link.silent_too_long(now_ms=2000) is None


def test_a_master_that_waits_for_a_cut_is_not_silent() -> None:
    link = opened(H((1, 0), (2, 300)), 700)
    assert shape(link.receive_data(MASTER.encode(), now_ms=0))[-1] == CutWanted(300, 1)
    assert link.silent_too_long(now_ms=9000) is None
    link.truncated(True, 300, now_ms=9000)
    assert link.silent_too_long(now_ms=10_999) is None and link.silent_too_long(now_ms=11_000)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.integers(1, 80), min_size=1, max_size=30), st.integers(0, 735))
def test_a_stream_cut_anywhere_gives_the_same_log_and_labels(sizes: list[int], end: int) -> None:
    epochs = H((1, 0), (3, 441)) if end >= 441 else H((1, 0)) if end else H()
    stream = MASTER.encode() + b"".join(
        Transfer(
            at,
            *((1, 0) if at < 441 else (3, 441)),
            735,
            body(at, min(at + 7, 441 if at < 441 else 735)),
        ).encode()
        for at in packet_starts(end)
    )
    link = opened(epochs, end)
    log = bytearray(at % 251 for at in range(end))
    labels, acked = epochs, -1
    position = index = 0
    while position < len(stream):
        size = sizes[index % len(sizes)]
        for event in link.receive_data(stream[position : position + size], now_ms=1):
            if isinstance(event, BytesReceived):
                assert event.offset == len(log)
                log += event.data
                assert labels.find(len(log) - 1) == MASTER.epochs.find(len(log) - 1)
            elif isinstance(event, EpochsLearned):
                labels = event.epochs
                assert labels.newest_start <= len(log)
            elif isinstance(event, AckDue):
                assert event.offset == len(log) >= acked
                acked = event.offset
        position, index = position + size, index + 1
    assert bytes(log) == bytes(at % 251 for at in range(735))
    assert labels == MASTER.epochs and acked == 735


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=8), st.booleans())
def test_hostile_masters_end_in_a_protocol_error_only(
    pieces: list[bytes], in_transfer: bool
) -> None:
    link = agreed(H((1, 0)), 441) if in_transfer else opened()
    try:
        for piece in pieces:
            link.receive_data(piece, now_ms=1)
    except ProtocolError:
        pass


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 255))
def test_one_changed_byte_of_a_master_never_breaks_more_than_the_link(
    position: int, flip: int
) -> None:
    stream = bytearray(MASTER.encode() + transfer(0, 1, 0, 10, 20))
    stream[position % len(stream)] ^= flip
    link = opened()
    try:
        for event in link.receive_data(bytes(stream), now_ms=1):
            assert not isinstance(event, BytesReceived) or event.offset % LIMITS.file_bytes == 0
    except ProtocolError:
        pass


def test_bytes_that_may_be_torn_are_copied_again_even_where_the_epochs_agree() -> None:
    """S5: after a loss of power a record may read well and still differ where no checksum looks."""
    link = opened(H((1, 0), (3, 441)), 735, trusted_end=600)
    assert link.receive_data(MASTER.encode(), now_ms=0) == [CutWanted(600, 3)]
    assert shape(link.truncated(True, 600, now_ms=0))[0] == HandshakeAgreed(600, 735)
    deeper = opened(H((1, 0), (2, 300)), 735, trusted_end=600)
    assert deeper.receive_data(MASTER.encode(), now_ms=0) == [CutWanted(300, 1)]


# A Java master that began epoch 5 where epoch 3 began, without a byte in between: it rejected its
# own entry (2.7).
COLLIDED = MasterHandshake(900, H((1, 0), (3, 441)))


def test_bytes_of_an_older_epoch_are_not_taken_for_a_java_masters_that_share_the_label() -> None:
    waiting = opened(H((1, 0), (3, 441)), 735, led_epoch=5, patient=True)
    (failed,) = waiting.receive_data(COLLIDED.encode(), now_ms=0)
    assert isinstance(failed, HandshakeFailed) and not failed.lasting
    link = opened(H((1, 0), (3, 441)), 735, led_epoch=5)
    assert link.receive_data(COLLIDED.encode(), now_ms=0) == [CutWanted(441, 1)]
    events = link.truncated(True, 441, now_ms=1)
    assert link.state is SlaveState.TRANSFER and link.epochs == H((1, 0), (3, 441))
    assert isinstance(events[0], HandshakeAgreed)


@pytest.mark.parametrize(
    ("own", "end", "reply", "led"),
    [
        (H((1, 0), (3, 441)), 441, COLLIDED, 5),  # nothing there that could differ
        (H((1, 0)), 441, COLLIDED, 5),
        # an entry of its own
        (H((1, 0), (3, 441)), 735, MasterHandshake(900, H((1, 0), (3, 441), (5, 735))), 5),
        (H((1, 0), (3, 441)), 735, COLLIDED, None),  # bytes that this very master sent
        (H(), 0, COLLIDED, 5),
    ],
)
def test_otherwise_a_java_masters_label_is_believed_at_once(
    own: EpochHistory, end: int, reply: MasterHandshake, led: int | None
) -> None:
    link = opened(own, end, led_epoch=led, patient=True)
    assert not [
        one
        for one in link.receive_data(reply.encode(), now_ms=0)
        if isinstance(one, HandshakeFailed | CutWanted)
    ]
    assert link.state is SlaveState.TRANSFER


def test_a_heartbeat_from_beyond_the_end_says_that_the_master_deleted_what_is_missing() -> None:
    known = H((1, 0), (3, 441))
    for end, offset, wanted_epoch, cut in (
        (500, 600, 3, True),
        (500, 501, 3, True),
        (500, 500, 3, False),  # an ordinary one
        (500, 600, None, False),  # a Java master never means this
    ):
        link = opened(known, end, wanted_epoch=wanted_epoch)
        link.receive_data(MASTER.encode(), now_ms=0)
        events = link.receive_data(transfer(offset, 3, 441, 0, 0), now_ms=1)
        assert (
            (CutWanted(0, -1, MASTER_BEGINS_LATER) in events)
            == (link.state is SlaveState.CUTTING)
            == cut
        )
        if cut:
            assert (
                AckDue(SlaveAck(0).encode(), 0) in link.truncated(True, 0, now_ms=2)
                and link.end_offset == 0
            )


def test_an_empty_replica_takes_a_heartbeat_from_wherever_the_log_begins() -> None:
    link = opened(wanted_epoch=3)
    link.receive_data(MasterHandshake(735, H((3, 441))).encode(), now_ms=0)
    link.receive_data(transfer(441, 3, 441, 0, 0), now_ms=1)
    assert link.state is SlaveState.TRANSFER
