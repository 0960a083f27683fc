"""The load generator's view of a stream of responses."""

from __future__ import annotations

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
    frame = codec.encode(RemotingCommand.request(310, {"a": "b"}, b"body"), opaque=pipelined.FIRST_OPAQUE)
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
