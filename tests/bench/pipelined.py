"""A load generator that costs little: frames made beforehand, a fixed number of them under way on one connection.

Responses are matched by their number only; an answer counts as good when its code is the wanted one.
Refuses to know what the requests mean.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

_LENGTH = struct.Struct(">i")
_CODE = re.compile(rb'"code":(-?\d+)')
_OPAQUE = re.compile(rb'"opaque":(\d+)')
RECEIVE_BYTES = 1 << 18
SILENCE_S = 20.0
FIRST_OPAQUE = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Load:
    """What a run gave. `bad` counts answers by code other than the wanted one."""

    answered: int
    seconds: float
    bad: dict[int, int]

    @property
    def per_s(self) -> float:
        return self.answered / self.seconds

    @property
    def good_per_s(self) -> float:
        return (self.answered - sum(self.bad.values())) / self.seconds


class Answers:
    """Frames in a stream of bytes, looked at no closer than needed: (code, opaque)."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[int, int]]:
        """Every complete frame. ValueError for one without a JSON header."""
        stream = self._rest + data
        at, found = 0, []
        while len(stream) - at >= 8:
            (length,) = _LENGTH.unpack_from(stream, at)
            if len(stream) - at < 4 + length:
                break
            (word,) = _LENGTH.unpack_from(stream, at + 4)
            end = at + 8 + (word & 0xFFFFFF)
            found.append((self._number(_CODE, stream, at, end), self._number(_OPAQUE, stream, at, end)))
            at += 4 + length
        self._rest = stream[at:]
        return found

    @staticmethod
    def _number(pattern: re.Pattern[bytes], stream: bytes, at: int, end: int) -> int:
        match = pattern.search(stream, at + 8, end)
        if match is None:
            raise ValueError("a response without a JSON header")
        return int(match.group(1))


def split_at_opaque(frame: bytes) -> tuple[bytes, bytes]:
    """A frame encoded with FIRST_OPAQUE, as what stands before and behind that number."""
    before, _, behind = frame.partition(b"%d" % FIRST_OPAQUE)
    if not behind:
        raise ValueError("the frame was not made with FIRST_OPAQUE")
    return before, behind


def repeated(frame: bytes, count: int, first: int = 0) -> list[bytes]:
    """`count` copies of a frame made with FIRST_OPAQUE, each with a number of its own."""
    before, behind = split_at_opaque(frame)
    return [b"%b%d%b" % (before, FIRST_OPAQUE + first + number, behind) for number in range(count)]


def run(address: tuple[str, int], frames: Sequence[bytes], window: int, good_code: int = 0) -> Load:
    """Send all frames, `window` under way at a time; returns when all are answered."""
    answers, bad = Answers(), {}
    answered = 0
    with socket.create_connection(address, SILENCE_S) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        sent = min(window, len(frames))
        link.sendall(b"".join(frames[:sent]))
        while answered < len(frames):
            data = link.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionError(f"closed by the peer after {answered} answers")
            got = answers.feed(data)
            answered += len(got)
            for code, _ in got:
                if code != good_code:
                    bad[code] = bad.get(code, 0) + 1
            upto = min(len(frames), answered + window)
            if upto > sent:
                link.sendall(b"".join(frames[sent:upto]))
                sent = upto
        return Load(answered, time.perf_counter() - began, bad)


def one_by_one(address: tuple[str, int], frames: Sequence[bytes]) -> list[float]:
    """Each frame alone on the connection; times in ms."""
    times, answers = [], Answers()
    with socket.create_connection(address, SILENCE_S) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for frame in frames:
            began = time.perf_counter()
            link.sendall(frame)
            answered = False
            while not answered:
                data = link.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionError("closed by the peer")
                answered = bool(answers.feed(data))
            times.append((time.perf_counter() - began) * 1000)
    return times
