"""Tables in pieces: never of two moments, and nothing where nothing changed."""

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.service.metadata import table_pieces
from brokers.service.metadata.table_pieces import (
    BYTES,
    DIGEST,
    FROM,
    PiecesCopied,
    table_piece,
    whole_table,
)


def asked(pieces: PiecesCopied) -> RemotingCommand:
    return RemotingCommand.request(21, pieces.wanted)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_pieces, "PIECE_BYTES", 10)


@pytest.mark.parametrize("length", [2, 10, 11, 95])
def test_a_text_comes_piece_by_piece(length: int) -> None:
    text = bytes(range(length))
    pieces, found, questions = PiecesCopied(b"{}"), None, 0
    while found is None:
        found, questions = pieces.take(table_piece(asked(pieces), text)), questions + 1
    assert found == text and questions == -(-length // 10)


def test_a_text_that_is_here_already_is_not_told() -> None:
    text = b"x" * 95
    pieces = PiecesCopied(text)
    answer = table_piece(asked(pieces), text)
    assert answer.body == b"" and pieces.take(answer) == text


def test_a_text_that_changes_in_between_is_begun_anew() -> None:
    pieces = PiecesCopied(b"{}")
    assert pieces.take(table_piece(asked(pieces), b"a" * 25)) is None
    found = None
    while found is None:
        found = pieces.take(table_piece(asked(pieces), b"b" * 35))
    assert found == b"b" * 35


def test_a_java_master_tells_all_at_once() -> None:
    pieces = PiecesCopied(b"{}")
    assert pieces.take(asked(pieces).reply(body=b"whole")) == b"whole"


@pytest.mark.parametrize(
    "ext",
    [
        {FROM: "0", BYTES: str(2**40), DIGEST: "x"},
        {FROM: "5", BYTES: "9", DIGEST: "x"},
        {FROM: "0", BYTES: "1", DIGEST: "x"},
        {FROM: "x", BYTES: "1"},
    ],
)
def test_pieces_that_make_no_text_are_an_error(ext: dict[str, str]) -> None:
    pieces = PiecesCopied(b"{}")
    with pytest.raises(ValueError):
        pieces.take(asked(pieces).reply(ext=ext, body=b"y"))


@pytest.mark.parametrize("start", ["-1", "99"])
def test_a_question_from_nowhere_gets_the_first_piece(start: str) -> None:
    answer = table_piece(RemotingCommand.request(21, {FROM: start}), b"abc")
    assert (answer.ext[FROM], answer.body) == ("0", b"abc")
    assert table_piece(RemotingCommand.request(21, {FROM: "x"}), b"abc").code == 1


def test_a_table_that_outgrew_a_frame_is_refused_in_words() -> None:
    request = RemotingCommand.request(43)
    assert whole_table(request, b"abc", {"n": "1"}).body == b"abc"
    refused = whole_table(request, bytes(16_777_216))
    assert refused.code == 1 and "does not fit a frame" in (refused.remark or "")
