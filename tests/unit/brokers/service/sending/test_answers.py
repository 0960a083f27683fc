"""Answers to sends: the short encoding equals the general one, and one connection's answers leave
together.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.remoting.codec import FrameDecoder
from brokers.remoting.command import RemotingCommand
from brokers.service.sending.answers import AnswersTogether, answer_to, general_frame, stored_frame
from brokers.store.appender import PutResult

I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**63 - 1)
KEYS = st.none() | st.sampled_from(
    [
        "",
        "7F0000010A2B18B4AAC2000000000000",
        "KEY",
        "MSG",
        "%d",
        '"',
        "ä",
        "٣",
        "\x01",
        "\ud83d\ude00",
    ]
)
KEYS |= st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
STORED = PutResult(100, 200, 5, "0A00000200002A9F0000000000000064")


HANDLES = st.none() | st.from_regex(r"\A[A-Za-z0-9_-]{4,80}={0,2}\Z")


@given(I32, st.from_regex(r"\A[0-9A-F]{32}(,[0-9A-F]{56})?\Z"), I32, I64, KEYS, HANDLES)
def test_the_short_encoding_is_that_of_the_general_encoder(
    opaque: int, msg_id: str, queue_id: int, slot: int, key: str | None, handle: str | None
) -> None:
    assert stored_frame(opaque, msg_id, queue_id, slot, key, handle) == general_frame(
        opaque, msg_id, queue_id, slot, key, handle
    )


class Link:
    """What a connection is given."""

    def __init__(self) -> None:
        self.taken: list[tuple[list[RemotingCommand], int]] = []

    def answer_express(self, frames: list[bytes], body_bytes: int) -> None:
        self.taken.append((FrameDecoder().feed(b"".join(frames)), body_bytes))


def request(opaque: int) -> RemotingCommand:
    return RemotingCommand(310, opaque, body=b"xyz")


def test_answers_of_one_connection_leave_together_and_count_their_bodies() -> None:
    first, second = Link(), Link()
    together = AnswersTogether(0, None)
    for opaque, link in enumerate((first, first, second, first)):
        together.add(link, request(opaque), STORED, 2, "K")  # type: ignore[arg-type]
    together.go()
    together.go()
    assert [([each.opaque for each in frames], size) for frames, size in first.taken] == [
        ([0, 1], 6),
        ([3], 3),
    ]
    assert [([each.opaque for each in frames], size) for frames, size in second.taken] == [([2], 3)]


@pytest.mark.parametrize("code", [0, 12])
def test_what_is_stored_says_where_and_how_to_recall_it_confirmed_or_not(code: int) -> None:
    link = Link()
    together = AnswersTogether(code, None)
    together.add(link, request(1), STORED, 2, "K", "djEg")  # type: ignore[arg-type]
    together.go()
    (answer,) = link.taken[0][0]
    assert (answer.code, answer.ext["recallHandle"]) == (code, "djEg")
    assert answer.ext == answer_to(request(1), STORED, 2, "K", code, None, "djEg").ext


def test_a_refusal_carries_its_words_and_no_place() -> None:
    answer = answer_to(request(1), None, 2, "K", 14, "why")
    assert (answer.code, answer.remark, answer.ext, answer.opaque) == (14, "why", {}, 1)
