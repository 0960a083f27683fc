"""The load generator's view of a stream of responses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from brokers.remoting import codec
from brokers.remoting.command import RemotingCommand
from tests.bench import pipelined


def response(opaque: int, code: int) -> bytes:
    request = RemotingCommand.request(310)
    request.opaque = opaque
    return codec.encode(request.reply(code, {"msgId": "A", "queueOffset": "7"}, body=b'"code":9'))


def test_frames_are_found_however_the_stream_is_cut() -> None:
    stream = response(pipelined.FIRST_OPAQUE, 0) + response(pipelined.FIRST_OPAQUE + 1, 12)
    for size in (1, 7, len(stream)):
        answers, found = pipelined.Answers(), []
        for at in range(0, len(stream), size):
            found += answers.feed(stream[at : at + size])
        assert found == [(0, pipelined.FIRST_OPAQUE), (12, pipelined.FIRST_OPAQUE + 1)]


def test_a_response_without_a_json_header_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pipelined.Answers().feed(b"\x00\x00\x00\x06\x00\x00\x00\x02{}")


def test_repeated_frames_differ_in_their_number_only() -> None:
    frame = codec.encode(
        RemotingCommand.request(310, {"a": "b"}, b"body"), opaque=pipelined.FIRST_OPAQUE
    )
    frames = pipelined.repeated(frame, 3)
    decoded = codec.FrameDecoder().feed(b"".join(frames))
    assert [one.opaque - pipelined.FIRST_OPAQUE for one in decoded] == [0, 1, 2]
    assert {one.body for one in decoded} == {b"body"}


def test_a_frame_made_with_another_number_cannot_be_repeated() -> None:
    with pytest.raises(ValueError, match="FIRST_OPAQUE"):
        pipelined.repeated(codec.encode(RemotingCommand.request(310), opaque=5), 1)


def test_answers_by_another_code_are_no_success() -> None:
    load = pipelined.Load(100, 2.0, {1: 20, 2: 10})
    assert (load.per_s, load.good_per_s) == (50.0, 35.0)


def served(answer: Callable[[socket.socket], None]) -> tuple[str, int]:
    """The address of a server whose every connection is answered by the function, on a thread of
    its own.
    """
    server = socket.create_server(("127.0.0.1", 0))

    def answered(link: socket.socket) -> None:
        with suppress(ConnectionError):  # Who gives up goes while answers are on their way.
            answer(link)

    def serve() -> None:
        with server:
            while True:
                link, _ = server.accept()
                threading.Thread(target=answered, args=(link,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return server.getsockname()[:2]


def answer_backwards(link: socket.socket) -> None:
    """Two at a time, the later one first, each second one refused; a last one alone."""
    decoder, waiting = codec.FrameDecoder(), []
    with link:
        while data := link.recv(65_536):
            waiting += decoder.feed(data)
            for one in reversed(waiting):
                link.sendall(response(one.opaque, one.opaque % 2))
            waiting.clear()


FRAMES = pipelined.repeated(
    codec.encode(RemotingCommand.request(310, {"a": "b"}, b"body"), opaque=pipelined.FIRST_OPAQUE),
    20,
)


@pytest.mark.parametrize(
    "load",
    [
        lambda at: pipelined.run(at, FRAMES, 4),
        lambda at: pipelined.paced(at, FRAMES, 2_000.0),
        lambda at: pipelined.producers(at, FRAMES, 3),
    ],
)
def test_every_frame_is_sent_once_and_its_delay_and_code_are_counted_in_whatever_order_answers_come(
    load,
) -> None:  # type: ignore[no-untyped-def]
    found = load(served(answer_backwards))
    assert (found.answered, len(found.delays_ms), found.bad) == (20, 20, {1: 10})
    assert 0 < found.p99_ms == max(found.delays_ms)


def busy_at_first(link: socket.socket) -> None:
    """Every third is answered with 2 the first time it comes."""
    decoder, seen = codec.FrameDecoder(), set()
    with link:
        while data := link.recv(65_536):
            for one in decoder.feed(data):
                first, _ = one.opaque not in seen, seen.add(one.opaque)
                link.sendall(response(one.opaque, 2 if first and one.opaque % 3 == 0 else 0))


@pytest.mark.parametrize(
    "load",
    [
        lambda at, **more: pipelined.run(at, FRAMES, 4, **more),
        lambda at, **more: pipelined.paced(at, FRAMES, 2_000.0, **more),
    ],
)
def test_what_a_server_is_too_busy_for_is_sent_again(load) -> None:  # type: ignore[no-untyped-def]
    thirds = sum((pipelined.FIRST_OPAQUE + number) % 3 == 0 for number in range(20))
    found = load(served(busy_at_first), again_code=2)
    assert (found.answered, found.bad, found.again) == (20, {}, thirds)
    counted = load(served(busy_at_first))
    assert (counted.answered, counted.bad, counted.again) == (20, {2: thirds}, 0)


def test_a_server_that_is_always_busy_is_given_up() -> None:
    def always(link: socket.socket) -> None:
        decoder = codec.FrameDecoder()
        with link:
            while data := link.recv(65_536):
                for one in decoder.feed(data):
                    link.sendall(response(one.opaque, 2))

    with pytest.raises(TimeoutError, match="by code 2 to 20 frames"):
        pipelined.run(served(always), FRAMES, 4, again_code=2)


@pytest.mark.parametrize(
    "load",
    [
        lambda at: pipelined.run(at, FRAMES, 4),
        lambda at: pipelined.paced(at, FRAMES, 2_000.0),
        lambda at: pipelined.producers(at, FRAMES, 3),
    ],
)
def test_a_server_that_says_nothing_is_not_waited_for(
    load, monkeypatch: pytest.MonkeyPatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(pipelined, "SILENCE_S", 0.2)

    def silent(link: socket.socket) -> None:
        with link:
            while link.recv(65_536):
                pass

    with pytest.raises(TimeoutError):
        load(served(silent))
