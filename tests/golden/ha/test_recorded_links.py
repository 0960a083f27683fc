"""HA links of real RocketMQ 5.3.3 brokers, replayed against ours, from both sides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers.ha.epoch_file import parse_epochs
from brokers.ha.epochs import EpochHistory, consistent_offset
from brokers.ha.frames import (
    MasterFrameDecoder,
    MasterHandshake,
    SlaveAck,
    SlaveFrameDecoder,
    SlaveHandshake,
    Transfer,
)
from brokers.ha.log_sender import LinkLimits, LogView, RangeToSend
from brokers.ha.master_link import MasterLink, SlaveAcknowledged, SlaveIntroduced
from brokers.ha.slave_link import AckDue, BytesReceived, HandshakeAgreed, SlaveLink

HERE = Path(__file__).parent
LIMITS = LinkLimits(file_bytes=16 * 1024 * 1024)
CUT_BY_THE_RECORDER = "packet cut at"


def lines(name: str) -> list[dict]:
    return [json.loads(line) for line in (HERE / name).read_text().splitlines()]


def packets(name: str = "ha.jsonl") -> list[dict]:
    return [line for line in lines(name) if line.get("packet")]


def conversations(name: str = "ha.jsonl") -> dict[int, list[dict]]:
    """Packets per connection, of those recorded from their handshake on."""
    links: dict[int, list[dict]] = {}
    for packet in packets(name):
        links.setdefault(packet["conn"], []).append(packet)
    return {conn: said for conn, said in links.items() if said[0]["packet"] == "handshake"}


def raw(packet: dict) -> bytes:
    return bytes.fromhex(packet["raw_hex"])


def from_slave(packet: dict) -> bool:
    return packet["direction"].startswith("slave->")


ALL = packets() + packets("epoch-collision-rejoin.jsonl")
LINKS = [*conversations().values(), *conversations("epoch-collision-rejoin.jsonl").values()]


def test_the_recording_holds_every_kind_of_packet() -> None:
    assert {packet["packet"] for packet in ALL} == {
        "handshake",
        "handshake_reply",
        "ack",
        "heartbeat",
        "transfer",
    }
    assert len(LINKS) >= 6


@pytest.mark.parametrize(
    "packet", [p for p in ALL if from_slave(p)], ids=lambda p: f"{p['conn']}-{p['t']}"
)
def test_every_packet_of_a_slave_reads_and_writes_byte_equal(packet: dict) -> None:
    (frame,) = SlaveFrameDecoder().feed(raw(packet))
    assert frame.encode() == raw(packet)
    fields = packet["fields"]
    if packet["packet"] == "ack":
        assert frame == SlaveAck(fields["maxPhyOffset"])
    else:
        flags = bool(fields["isSyncFromLastFile"]), bool(fields["isAsyncLearner"])
        assert frame == SlaveHandshake(fields["slaveBrokerId"], *flags)


@pytest.mark.parametrize(
    "packet", [p for p in ALL if not from_slave(p)], ids=lambda p: f"{p['conn']}-{p['t']}"
)
def test_every_packet_of_a_master_reads_and_writes_byte_equal(packet: dict) -> None:
    (frame,) = MasterFrameDecoder().feed(raw(packet))
    fields = packet["fields"]
    if packet["packet"] == "handshake_reply":
        assert frame.encode() == raw(packet)
        assert frame == MasterHandshake(
            fields["maxPhyOffset"], EpochHistory.from_pairs(fields["entries"])
        )
        return
    labels = fields["offset"], fields["epoch"], fields["epochStartOffset"], fields["confirmOffset"]
    assert (frame.offset, frame.epoch, frame.epoch_start, frame.confirm_offset) == labels
    assert frame.header(fields["bodySize"]) == raw(packet)[:36]
    assert raw(packet)[36:] == bytes(frame.data)
    assert len(frame.data) == fields["bodySize"] or CUT_BY_THE_RECORDER in packet["note"]


@pytest.mark.parametrize("said", LINKS, ids=lambda said: f"conn-{said[0]['conn']}")
def test_our_master_serves_the_recorded_slave(said: list[dict]) -> None:
    """The slave's packets as recorded; the log grows as the recorded master's did. Our answers: the
    very reply, and packets that bring the slave exactly the bytes the recorded ones brought.
    """
    recorded_reply = next(p for p in said if p["packet"] == "handshake_reply")
    reply = recorded_reply["fields"]
    epochs, end = EpochHistory.from_pairs(reply["entries"]), reply["maxPhyOffset"]
    link = MasterLink(LIMITS, own_id=0, now_ms=0)
    sent_to = None
    for packet in said:
        fields = packet["fields"]
        if not from_slave(packet):
            if packet["packet"] == "transfer":
                end = max(end, fields["offset"] + fields["bodySize"])
            continue
        if packet["packet"] == "ack":
            end = max(end, fields["maxPhyOffset"])
        log = LogView(epochs, 0, end, end)
        if sent_to is not None:
            link.data_to_send(log, now_ms=0)
        events = link.receive_data(raw(packet), log, now_ms=0)
        if packet["packet"] == "handshake":
            (event,) = events
            assert isinstance(event, SlaveIntroduced)
            assert event.reply == raw(recorded_reply)
        else:
            assert events == [SlaveAcknowledged(fields["maxPhyOffset"], sent_to is None)]
            ranges = link.data_to_send(log, now_ms=0)
            assert all(isinstance(item, RangeToSend) for item in ranges)
            assert sum(item.count for item in ranges) == end - max(
                sent_to or 0, fields["maxPhyOffset"]
            )
            sent_to = end


@pytest.mark.parametrize("said", LINKS, ids=lambda said: f"conn-{said[0]['conn']}")
def test_our_slave_follows_the_recorded_master(said: list[dict]) -> None:
    """The master's packets as recorded, to a slave with the log and history the recorded one
    had.
    """
    reply = next(p for p in said if p["packet"] == "handshake_reply")["fields"]
    first_ack = next((p for p in said if p["packet"] == "ack"), None)
    had = first_ack["fields"]["maxPhyOffset"] if first_ack else 0
    epochs = EpochHistory.from_pairs(reply["entries"]).truncate_suffix(had)
    link = SlaveLink(
        LIMITS,
        broker_id=said[0]["fields"]["slaveBrokerId"],
        epochs=epochs,
        end_offset=had,
        now_ms=0,
    )
    assert link.open() == raw(said[0])
    end, acked = had, -1
    for packet in said:
        # The recording leaves out repeats of one shape: a gap in the offsets ends the replay.
        fields = packet["fields"]
        if from_slave(packet):
            continue
        if packet["packet"] == "transfer" and (
            fields["offset"] != end or CUT_BY_THE_RECORDER in packet["note"]
        ):
            break
        for event in link.receive_data(raw(packet), now_ms=0):
            if isinstance(event, BytesReceived):
                assert event.offset == end
                end += len(event.data)
            elif isinstance(event, AckDue):
                assert event.offset == end
                acked = end
            elif isinstance(event, HandshakeAgreed):
                assert event.consistent_offset == had
    assert acked == end
    taught = EpochHistory.from_pairs(reply["entries"]).truncate_suffix(end + 1)
    assert link.epochs == (taught if end or acked_heartbeat(said) else EpochHistory())


def acked_heartbeat(said: list[dict]) -> bool:
    """Whether the master spoke after its reply: an empty slave learns its first label from that."""
    return any(packet["packet"] == "heartbeat" for packet in said)


def test_the_one_packet_early_label_of_the_recording_is_understood() -> None:
    """Connection 61: an empty slave, bytes 0 to 6002 of epoch 1 labelled epoch 2 from 6002 on."""
    said = conversations()[61]
    early = next(p for p in said if p["packet"] == "transfer")
    fields = early["fields"]
    assert (fields["offset"], fields["bodySize"], fields["epoch"], fields["epochStartOffset"]) == (
        0,
        6002,
        2,
        6002,
    )
    reply = raw(next(p for p in said if p["packet"] == "handshake_reply"))
    link = SlaveLink(LIMITS, broker_id=4, epochs=EpochHistory(), end_offset=0, now_ms=0)
    link.open()
    link.receive_data(reply, now_ms=0)
    header = Transfer(0, 2, 6002, 7302).header(6002)
    # without the heartbeat that saved the Java slave
    link.receive_data(header + b"x" * 6002, now_ms=0)
    assert link.epochs == EpochHistory.of((1, 0), (2, 6002))
    second = [p for p in said if p["packet"] == "transfer"][1]
    link.receive_data(raw(second), now_ms=0)
    assert link.end_offset == 7302
    assert link.epochs == EpochHistory.of((1, 0), (2, 6002))


def test_the_epoch_collision_is_cut_where_it_began_once_epochs_supersede() -> None:
    """epoch-collision-rejoin.jsonl: with Java's histories nothing is cut although the bytes differ;
    the same story told with superseded entries cuts at the offset where both masters began.
    """
    master_log = (HERE / "epoch-collision-master__commitlog").read_bytes()[:448]
    returned_log = (HERE / "epoch-collision-returned__commitlog").read_bytes()[:448]
    differ_at = next(
        i for i, (a, b) in enumerate(zip(master_log, returned_log, strict=True)) if a != b
    )
    java = parse_epochs((HERE / "epoch-collision-master__epochFileCheckpoint").read_text())
    assert java == parse_epochs(
        (HERE / "epoch-collision-returned__epochFileCheckpoint").read_text()
    )
    assert consistent_offset(java, 448, java, 448) == 448  # Java's mistake, in one line

    x = java.entries[1].start_offset
    assert x == 220 <= differ_at
    returned = EpochHistory.of((1, 0)).append(2, x)
    master = EpochHistory.of((1, 0)).append(2, x).append(3, x)  # nothing of epoch 2 reached it
    assert master == EpochHistory.of((1, 0), (3, x))
    assert consistent_offset(returned, 448, master, 448) == x
