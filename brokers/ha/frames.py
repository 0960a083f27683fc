"""The four packets of AutoSwitchHA as values, with their exact bytes (PROTOCOL
2.1).

Responsible for: layouts, size limits, incremental decoding. Refuses to know: what a packet means
for a link, sockets, clocks. Whatever bytes a peer sends, only ProtocolError comes out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from brokers.ha.epochs import EpochEntry, EpochError, EpochHistory

STATE_HANDSHAKE = 1
STATE_TRANSFER = 2

FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Header + body of a packet to a slave: the read buffer of a Java slave (2.2)."""
HANDSHAKE_ENTRIES_MAX = 1000
"""Epoch entries in one reply: the buffer of a Java master; the newest ones are sent."""

_PREFIX = struct.Struct(">ii")  # state, body size: 8 bytes, common to both packets of a master
_ENTRY = struct.Struct(">iq")  # epoch, start offset: 12 bytes
_STATE = struct.Struct(">i")


class ProtocolError(Exception):
    """The peer sent what no correct peer sends; the link is closed with this reason, after a
    `last_word` if there is one.
    """

    def __init__(self, reason: str, last_word: bytes = b"") -> None:
        super().__init__(reason)
        self.last_word = last_word


@dataclass(frozen=True, slots=True)
class SlaveHandshake:
    """Slave to master, 16 bytes, in a single write (a Java master reads it with absolute
    positions).
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">ihhq")

    broker_id: int
    from_last_file: bool = False
    learner: bool = False

    def encode(self) -> bytes:
        flags = (int(self.from_last_file), int(self.learner))
        return self.LAYOUT.pack(STATE_HANDSHAKE, *flags, self.broker_id)

    def __str__(self) -> str:
        return f"handshake of broker {self.broker_id}"


@dataclass(frozen=True, slots=True)
class SlaveAck:
    """Slave to master, 12 bytes: everything below `max_offset` is written to the slave's log."""

    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">iq")

    max_offset: int

    def encode(self) -> bytes:
        return self.LAYOUT.pack(STATE_TRANSFER, self.max_offset)

    def __str__(self) -> str:
        return f"ack {self.max_offset}"


@dataclass(frozen=True, slots=True)
class MasterHandshake:
    """Master to slave, 20 bytes + 12 per entry, in a single write: log end and epoch history.

    `superseded`: entries without a byte, in front of the history, all at its first offset. A Java
    slave joins only where both histories have an entry in common, and it may know nothing but one
    of these.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">iiqi")

    end_offset: int
    epochs: EpochHistory
    superseded: tuple[EpochEntry, ...] = ()

    def encode(self) -> bytes:
        entries = (*self.superseded, *self.epochs.entries)
        head = self.LAYOUT.pack(
            STATE_HANDSHAKE, _ENTRY.size * len(entries), self.end_offset, self.epochs.newest_epoch
        )
        return head + b"".join(_ENTRY.pack(item.epoch, item.start_offset) for item in entries)

    def __str__(self) -> str:
        return f"handshake reply, end {self.end_offset}, epochs {self.epochs}"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Master to slave, 36 bytes + log bytes. Without log bytes it is a heartbeat.

    `offset` is the physical offset of the first byte of `data` (a heartbeat: the next one the
    master will send, -1 when a Java master has no file yet). The decoder hands out a long packet in
    pieces as they arrive: a piece is a packet of its own with the same labels and a later offset.
    """

    LAYOUT: ClassVar[struct.Struct] = struct.Struct(">iiqiqq")

    offset: int
    epoch: int
    epoch_start: int
    confirm_offset: int
    data: bytes | memoryview = b""

    @property
    def is_heartbeat(self) -> bool:
        return not len(self.data)

    def header(self, body_bytes: int) -> bytes:
        """The 36 bytes in front of `body_bytes` log bytes (those may come from sendfile)."""
        return self.LAYOUT.pack(
            STATE_TRANSFER,
            body_bytes,
            self.offset,
            self.epoch,
            self.epoch_start,
            self.confirm_offset,
        )

    def encode(self) -> bytes:
        return self.header(len(self.data)) + bytes(self.data)

    def __str__(self) -> str:
        kind = "heartbeat" if self.is_heartbeat else f"transfer of {len(self.data)} bytes"
        return (
            f"{kind} at {self.offset}, epoch {self.epoch}:{self.epoch_start}, confirm "
            f"{self.confirm_offset}"
        )


SlaveFrame = SlaveHandshake | SlaveAck
MasterFrame = MasterHandshake | Transfer


class SlaveFrameDecoder:
    """Bytes of a slave to frames; holds back at most one incomplete packet (15 bytes)."""

    def __init__(self) -> None:
        self._partial = b""

    def feed(self, data: bytes | memoryview) -> list[SlaveFrame]:
        """Frames completed by `data`. ProtocolError on a state or flag that no slave sends."""
        buffer = self._partial + bytes(data) if self._partial else bytes(data)
        frames: list[SlaveFrame] = []
        position = 0
        while len(buffer) - position >= _STATE.size:
            (state,) = _STATE.unpack_from(buffer, position)
            size = _slave_frame_bytes(state)
            if len(buffer) - position < size:
                break
            frames.append(_slave_frame(state, buffer, position))
            position += size
        self._partial = buffer[position:]
        return frames

    @property
    def partial_bytes(self) -> int:
        return len(self._partial)


def _slave_frame_bytes(state: int) -> int:
    if state == STATE_HANDSHAKE:
        return SlaveHandshake.LAYOUT.size
    if state == STATE_TRANSFER:
        return SlaveAck.LAYOUT.size
    raise ProtocolError(f"packet of state {state} from a slave")


def _slave_frame(state: int, buffer: bytes, position: int) -> SlaveFrame:
    if state == STATE_TRANSFER:
        (_, max_offset) = SlaveAck.LAYOUT.unpack_from(buffer, position)
        if max_offset < 0:
            raise ProtocolError(f"ack of negative offset {max_offset}")
        return SlaveAck(max_offset)
    (_, last_file, learner, broker_id) = SlaveHandshake.LAYOUT.unpack_from(buffer, position)
    if last_file not in (0, 1) or learner not in (0, 1) or broker_id < 0:
        raise ProtocolError(
            f"handshake with flags {last_file}, {learner} and broker id {broker_id}"
        )
    return SlaveHandshake(broker_id, bool(last_file), bool(learner))


class MasterFrameDecoder:
    """Bytes of a master to frames; log bytes are handed out as they come, without a copy.

    `data` of a Transfer is a view into what was fed: use it before feeding again.
    """

    def __init__(self) -> None:
        self._head = bytearray()
        self._packet: Transfer | None = None
        self._body_left = 0

    @property
    def partial_bytes(self) -> int:
        """Bytes kept until their packet is whole (never log bytes)."""
        return len(self._head)

    @property
    def mid_packet(self) -> bool:
        return bool(self._head) or self._body_left > 0

    def feed(self, data: bytes | memoryview) -> list[MasterFrame]:
        """Frames and pieces of frames in `data`. ProtocolError on anything no master sends."""
        view = memoryview(data)
        frames: list[MasterFrame] = []
        while len(view):
            if self._body_left:
                view = self._take_body(view, frames)
            else:
                view = self._take_head(view, frames)
        return frames

    def _take_body(self, view: memoryview, frames: list[MasterFrame]) -> memoryview:
        packet = self._packet
        assert packet is not None
        piece = view[: self._body_left]
        frames.append(
            Transfer(packet.offset, packet.epoch, packet.epoch_start, packet.confirm_offset, piece)
        )
        self._body_left -= len(piece)
        self._packet = Transfer(
            packet.offset + len(piece), packet.epoch, packet.epoch_start, packet.confirm_offset
        )
        return view[len(piece) :]

    def _take_head(self, view: memoryview, frames: list[MasterFrame]) -> memoryview:
        wanted = self._head_bytes()
        take = wanted - len(self._head)
        self._head += view[:take]
        rest = view[take:]
        # Two steps: the prefix tells how long the head is, then the head is complete.
        if len(self._head) == wanted and self._head_bytes() == wanted:
            head, self._head = bytes(self._head), bytearray()
            self._open_packet(head, frames)
        return rest

    def _head_bytes(self) -> int:
        if len(self._head) < _PREFIX.size:
            return _PREFIX.size
        state, body_bytes = _PREFIX.unpack_from(self._head)
        head_bytes = _master_head_bytes(state)
        if not 0 <= body_bytes <= FRAME_BYTES_MAX - head_bytes:
            raise ProtocolError(f"packet of state {state} announces a body of {body_bytes} bytes")
        return head_bytes + body_bytes if state == STATE_HANDSHAKE else head_bytes

    def _open_packet(self, head: bytes, frames: list[MasterFrame]) -> None:
        state, body_bytes = _PREFIX.unpack_from(head)
        if state == STATE_HANDSHAKE:
            frames.append(_master_handshake(head, body_bytes))
            return
        (_, _, offset, epoch, epoch_start, confirm) = Transfer.LAYOUT.unpack(head)
        if offset < -1 or epoch < 0 or epoch_start < 0 or (body_bytes and offset < 0):
            raise ProtocolError(f"transfer at {offset} labelled {epoch}:{epoch_start}")
        packet = Transfer(offset, epoch, epoch_start, confirm)
        if body_bytes:
            self._packet, self._body_left = packet, body_bytes
        else:
            frames.append(packet)


def _master_head_bytes(state: int) -> int:
    if state == STATE_HANDSHAKE:
        return MasterHandshake.LAYOUT.size
    if state == STATE_TRANSFER:
        return Transfer.LAYOUT.size
    raise ProtocolError(f"packet of state {state} from a master")


def _master_handshake(packet: bytes, body_bytes: int) -> MasterHandshake:
    (_, _, end_offset, epoch) = MasterHandshake.LAYOUT.unpack_from(packet)
    if body_bytes % _ENTRY.size:
        raise ProtocolError(
            f"epoch entries of {body_bytes} bytes are not a multiple of {_ENTRY.size}"
        )
    if end_offset < 0:
        raise ProtocolError(f"handshake reply with log end {end_offset}")
    pairs = list(_ENTRY.iter_unpack(packet[MasterHandshake.LAYOUT.size :]))
    try:
        # Without entries that the one behind them supersedes.
        epochs = EpochHistory.from_pairs(
            one
            for place, one in enumerate(pairs, 1)
            if place == len(pairs) or one[1] != pairs[place][1]
        )
    except EpochError as error:
        raise ProtocolError(str(error)) from error
    if epoch != epochs.newest_epoch:
        raise ProtocolError(
            f"handshake reply names epoch {epoch}, its entries end with {epochs.newest_epoch}"
        )
    return MasterHandshake(end_offset, epochs)
