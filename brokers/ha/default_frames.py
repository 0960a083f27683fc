"""The two packets of RocketMQ's default HA stream: of sets without controllers (PROTOCOL 2.12).

Responsible for: layouts, size limits, incremental decoding. Refuses to know: what a packet means
for a link, sockets, clocks. Whatever bytes a peer sends, only ProtocolError comes out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from brokers.ha.frames import FRAME_BYTES_MAX, ProtocolError

REPORT = struct.Struct(">q")
"""Slave to master: where the slave's log ends."""
HEADER = struct.Struct(">qi")
"""Master to slave: physical offset of the first log byte, number of log bytes; 0 is a heartbeat."""
OFFSET_MAX = 2**63 - 1


def report(end_offset: int) -> bytes:
    """8 bytes: everything below `end_offset` is in the slave's log."""
    return REPORT.pack(end_offset)


def header(offset: int, body_bytes: int) -> bytes:
    """12 bytes in front of `body_bytes` log bytes (those may come from sendfile)."""
    return HEADER.pack(offset, body_bytes)


def heartbeat(next_offset: int) -> bytes:
    """A header without log bytes; `next_offset`: of the next byte that the master will send."""
    return header(next_offset, 0)


@dataclass(frozen=True, slots=True)
class Pushed:
    """Log bytes of a master at `offset`, or, without any, its heartbeat from there. The decoder
    hands out a long packet in pieces as they arrive; `data` is a view into what was fed.
    """

    offset: int
    data: bytes | memoryview = b""

    @property
    def is_heartbeat(self) -> bool:
        return not len(self.data)


class ReportDecoder:
    """Bytes of a slave to the offsets it reports; holds back at most 7 bytes."""

    def __init__(self) -> None:
        self._partial = b""

    @property
    def partial_bytes(self) -> int:
        return len(self._partial)

    def feed(self, data: bytes | memoryview) -> list[int]:
        """Offsets completed by `data`, oldest first. ProtocolError on a negative one."""
        buffer = self._partial + bytes(data)
        whole = len(buffer) - len(buffer) % REPORT.size
        self._partial = buffer[whole:]
        offsets = [offset for (offset,) in REPORT.iter_unpack(buffer[:whole])]
        if offsets and min(offsets) < 0:
            raise ProtocolError(f"report of negative offset {min(offsets)}")
        return offsets


class PushDecoder:
    """Bytes of a master to what it pushed; log bytes are handed out as they come, without a copy.
    Use `data` before feeding again.
    """

    def __init__(self) -> None:
        self._head = b""
        self._offset = self._body_left = 0

    @property
    def partial_bytes(self) -> int:
        """Bytes kept until their header is whole (never log bytes)."""
        return len(self._head)

    def feed(self, data: bytes | memoryview) -> list[Pushed]:
        """Packets and pieces of packets in `data`. ProtocolError on anything no master sends."""
        view, found = memoryview(data), []
        while len(view):
            if self._body_left:
                piece = view[: self._body_left]
                found.append(Pushed(self._offset, piece))
                self._offset += len(piece)
                self._body_left -= len(piece)
                view = view[len(piece) :]
                continue
            taken = HEADER.size - len(self._head)
            self._head += bytes(view[:taken])
            view = view[taken:]
            if len(self._head) == HEADER.size:
                self._open_packet(found)
        return found

    def _open_packet(self, found: list[Pushed]) -> None:
        offset, body_bytes = HEADER.unpack(self._head)
        self._head = b""
        if not 0 <= body_bytes <= FRAME_BYTES_MAX - HEADER.size:
            raise ProtocolError(f"packet announces a body of {body_bytes} bytes")
        if not 0 <= offset <= OFFSET_MAX - body_bytes:
            raise ProtocolError(f"packet at offset {offset}")
        if body_bytes:
            self._offset, self._body_left = offset, body_bytes
        else:
            found.append(Pushed(offset))
