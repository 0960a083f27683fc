"""A load generator that costs little: frames made beforehand, a fixed number of them under way, on
one connection or on many, or as many a second as asked for.

Responses are matched by their number only; an answer counts as good when its code is the wanted
one.
Refuses to know what the requests mean.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tests.bench.samples import percentile

_LENGTH = struct.Struct(">i")
_CODE = re.compile(rb'"code":(-?\d+)')
_OPAQUE = re.compile(rb'"opaque":(\d+)')
RECEIVE_BYTES = 1 << 18
SILENCE_S = 20.0
FIRST_OPAQUE = 1_000_000_000
# Frames sent again, for each one of a run, beyond which it leads nowhere.
AGAIN_MOST = 20


@dataclass(frozen=True, slots=True)
class Load:
    """What a run gave. `bad` counts answers by code other than the wanted one; `delays_ms` from
    each frame to its answer; `again`: how often one was sent once more, since the answer was that
    it should be.
    """

    answered: int
    seconds: float
    bad: dict[int, int]
    delays_ms: Sequence[float] = ()
    again: int = 0

    @property
    def per_s(self) -> float:
        return self.answered / self.seconds

    @property
    def good_per_s(self) -> float:
        return (self.answered - sum(self.bad.values())) / self.seconds

    @property
    def p99_ms(self) -> float:
        return percentile(self.delays_ms, 0.99)


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
            found.append(
                (self._number(_CODE, stream, at, end), self._number(_OPAQUE, stream, at, end))
            )
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


class _Clock:
    """When each frame went out and came back; answers are matched by number, so they may come in
    any order. One answered by `again_code` goes out again, its delay goes on.
    """

    def __init__(self, frames: Sequence[bytes], again_code: int | None = None) -> None:
        self._frames, self._again_code, self._again = frames, again_code, 0
        match = _OPAQUE.search(frames[0]) if frames else None
        self._first = int(match.group(1)) if match else 0
        self._sent_s = [0.0] * len(frames)
        self.delays_ms: list[float] = []
        self.bad: dict[int, int] = {}

    def sent(self, start: int, end: int, at_s: float) -> None:
        self._sent_s[start:end] = [at_s] * (end - start)

    def answered(self, found: Sequence[tuple[int, int]], good_code: int) -> bytes:
        """Takes answers; gives what is to be sent once more. TimeoutError when that never ends."""
        now_s = time.perf_counter()
        again: list[bytes] = []
        for code, opaque in found:
            if code == self._again_code:
                again.append(self._frames[opaque - self._first])
                continue
            self.delays_ms.append((now_s - self._sent_s[opaque - self._first]) * 1000)
            if code != good_code:
                self.bad[code] = self.bad.get(code, 0) + 1
        self._again += len(again)
        if self._again > AGAIN_MOST * len(self._frames):
            raise TimeoutError(
                f"{self._again} answers by code {self._again_code} to {len(self._frames)} frames"
            )
        return b"".join(again)

    def load(self, seconds: float) -> Load:
        return Load(len(self.delays_ms), seconds, self.bad, self.delays_ms, self._again)


def _connected(address: tuple[str, int]) -> socket.socket:
    link = socket.create_connection(address, SILENCE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def _received(link: socket.socket, answered: int) -> bytes:
    data = link.recv(RECEIVE_BYTES)
    if not data:
        raise ConnectionError(f"closed by the peer after {answered} answers")
    return data


def run(
    address: tuple[str, int],
    frames: Sequence[bytes],
    window: int,
    good_code: int = 0,
    again_code: int | None = None,
) -> Load:
    """Send all frames, numbered one after the other, `window` under way at a time; returns when all
    are answered.
    """
    answers, clock = Answers(), _Clock(frames, again_code)
    with _connected(address) as link:
        began = time.perf_counter()
        sent, answered = 0, 0
        while answered < len(frames):
            upto = min(len(frames), answered + window)
            if upto > sent:
                clock.sent(sent, upto, time.perf_counter())
                link.sendall(b"".join(frames[sent:upto]))
                sent = upto
            link.sendall(clock.answered(answers.feed(_received(link, answered)), good_code))
            answered = len(clock.delays_ms)
        return clock.load(time.perf_counter() - began)


def paced(
    address: tuple[str, int],
    frames: Sequence[bytes],
    per_s: float,
    good_code: int = 0,
    again_code: int | None = None,
) -> Load:
    """Send so many frames a second whatever is answered; a delay counts from the moment at which
    its frame was due.
    """
    answers, clock = Answers(), _Clock(frames, again_code)
    with _connected(address) as link:
        poll = select.poll()  # select() knows no descriptor above 1023
        poll.register(link, select.POLLIN)
        began = time.perf_counter()
        for number in range(len(frames)):
            clock.sent(number, number + 1, began + number / per_s)
        sent = 0
        while len(clock.delays_ms) < len(frames):
            now = time.perf_counter()
            due = min(len(frames), int((now - began) * per_s) + 1)
            if due > sent:
                link.sendall(b"".join(frames[sent:due]))
                sent = due
            wait_s = began + sent / per_s - time.perf_counter() if sent < len(frames) else SILENCE_S
            if poll.poll(max(0.0, wait_s) * 1000):
                link.sendall(
                    clock.answered(answers.feed(_received(link, len(clock.delays_ms))), good_code)
                )
            elif sent == len(frames):
                raise TimeoutError(f"silence after {len(clock.delays_ms)} answers")
        return clock.load(time.perf_counter() - began)


def producers(
    address: tuple[str, int], frames: Sequence[bytes], connections: int, good_code: int = 0
) -> Load:
    """As so many producers do who each wait for an answer before they send again: one frame under
    way per connection.
    """
    clock = _Clock(frames)
    with ExitStack() as stack:
        links = {
            link.fileno(): link
            for link in (stack.enter_context(_connected(address)) for _ in range(connections))
        }
        answers = {number: Answers() for number in links}
        poll = stack.enter_context(select.epoll())
        began, sent = time.perf_counter(), 0
        for number, link in links.items():
            poll.register(number, select.EPOLLIN)
            sent = _one_more(link, frames, sent, clock)
        while len(clock.delays_ms) < len(frames):
            events = poll.poll(SILENCE_S)
            if not events:
                raise TimeoutError(f"silence after {len(clock.delays_ms)} answers")
            for number, _ in events:
                found = answers[number].feed(_received(links[number], len(clock.delays_ms)))
                clock.answered(found, good_code)
                if found:
                    sent = _one_more(links[number], frames, sent, clock)
        return clock.load(time.perf_counter() - began)


def _one_more(link: socket.socket, frames: Sequence[bytes], sent: int, clock: _Clock) -> int:
    if sent < len(frames):
        clock.sent(sent, sent + 1, time.perf_counter())
        link.sendall(frames[sent])
        sent += 1
    return sent


def one_by_one(address: tuple[str, int], frames: Sequence[bytes]) -> list[float]:
    """Each frame alone on the connection; times in ms."""
    times, answers = [], Answers()
    with _connected(address) as link:
        for frame in frames:
            began = time.perf_counter()
            link.sendall(frame)
            while not answers.feed(_received(link, len(times))):
                pass
            times.append((time.perf_counter() - began) * 1000)
    return times
