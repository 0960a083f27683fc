"""Frames: bytes to commands and back, in both header serialisations.

Responsible for: the layout of PROTOCOL 1.1 to 1.3 and its limits; every bad input
ends in FrameError.
Refuses to know: sockets, codes, what a command means.
"""

from __future__ import annotations

import struct

from brokers.remoting.command import RemotingCommand
from brokers.remoting.headers import FrameError, decode_header, encode_header

__all__ = [
    "FRAME_BYTES_MAX",
    "HEADER_BYTES_MAX",
    "FrameDecoder",
    "FrameError",
    "TlsRefused",
    "encode",
]

# Counted with the length word, as both Java sides do (1.1).
FRAME_BYTES_MAX = 16_777_216
# A send header with the largest legal properties stays under 100 KiB; JSON costs far more memory
# than its text.
HEADER_BYTES_MAX = 1_048_576
TLS_HANDSHAKE_BYTE = 0x16
# TLS alert, fatal, handshake failure: reported at once.
TLS_ALERT = bytes.fromhex("15030100020228")

_HEAD = struct.Struct(">iI")
_LENGTH = struct.Struct(">i")


class TlsRefused(FrameError):
    """The peer opened with a TLS handshake on a plain port."""


def encode(
    command: RemotingCommand, *, opaque: int | None = None, flag: int | None = None
) -> bytes:
    """The whole frame. `opaque` and `flag` stand in for the command's own, so that a request may be
    shared.

    Raises ValueError when the command does not fit the format, TypeError when ext holds anything
    but strings.
    """
    return b"".join((encode_start(command, opaque=opaque, flag=flag), command.body))


def encode_start(
    command: RemotingCommand, *, opaque: int | None = None, flag: int | None = None
) -> bytes:
    """The frame up to its body, which then need not be copied. Errors as with `encode`."""
    opaque = command.opaque if opaque is None else opaque
    flag = command.flag if flag is None else flag
    header = encode_header(command, opaque, flag)
    total = 4 + len(header) + len(command.body)
    if len(header) > HEADER_BYTES_MAX or total + 4 > FRAME_BYTES_MAX:
        raise ValueError(
            f"a frame of {total + 4} bytes, header {len(header)}, is larger than the protocol "
            "allows"
        )
    return _HEAD.pack(total, command.serialization << 24 | len(header)) + header


class FrameDecoder:
    """Cuts a byte stream into commands. Keeps at most one unfinished frame, and only the bytes that
    arrived.
    """

    __slots__ = ("_frame_bytes_max", "_needed", "_pending", "_started", "failure")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pending = bytearray()
        self._needed = 0
        self._started = False
        self.failure: FrameError | None = None

    @property
    def partial_bytes(self) -> int:
        """Bytes held of a frame that is not complete."""
        return len(self._pending)

    def feed(self, data: bytes | bytearray | memoryview) -> list[RemotingCommand]:
        """Commands completed by `data`.

        Raises FrameError on a bad frame; when good frames came before it in `data`, these are
        returned, `failure` is set, and the next call raises.
        """
        if self.failure is not None:
            raise self.failure
        if self._pending:
            self._pending += data
            if len(self._pending) < self._needed:
                return []
            data = bytes(self._pending)
            self._pending.clear()
        elif type(data) is not bytes:
            data = bytes(data)
        commands: list[RemotingCommand] = []
        try:
            self._cut(data, commands)
        except FrameError as error:
            self.failure = error
            if not commands:
                raise
        return commands

    def _cut(self, data: bytes, commands: list[RemotingCommand]) -> None:
        position, end = 0, len(data)
        if not self._started and end:
            self._started = True
            if data[0] == TLS_HANDSHAKE_BYTE:
                raise TlsRefused("TLS is not served on this port")
        while end - position >= 8:
            total, word = _HEAD.unpack_from(data, position)
            header_bytes = word & 0xFFFFFF
            self._check_lengths(total, header_bytes)
            stop = position + 4 + total
            if stop > end:
                self._needed = stop - position
                break
            body_start = position + 8 + header_bytes
            commands.append(
                decode_header(word >> 24, data[position + 8 : body_start], data[body_start:stop])
            )
            position = stop
        else:
            self._needed = 4
            if end - position >= 4:
                self._needed = 8
                self._check_lengths(_LENGTH.unpack_from(data, position)[0], 0)
        if position < end:
            self._pending += data[position:] if position else data

    def _check_lengths(self, total: int, header_bytes: int) -> None:
        if not 4 <= total <= self._frame_bytes_max - 4:
            raise FrameError(
                f"a frame of {total} bytes is announced, allowed are 4 to "
                f"{self._frame_bytes_max - 4}"
            )
        if header_bytes > HEADER_BYTES_MAX or header_bytes > total - 4:
            raise FrameError(f"a header of {header_bytes} bytes is announced in a frame of {total}")
