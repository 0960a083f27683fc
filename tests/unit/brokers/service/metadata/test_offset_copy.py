"""How far a slave has copied its master's offsets."""

import pytest

from brokers.service.metadata.offset_copy import AFTER, LINE, MORE, UP_TO, OffsetCopy


def told(line: str, up_to: int, more: bool = False) -> dict[str, str]:
    return {LINE: line, UP_TO: str(up_to), MORE: str(more).lower()}


def test_the_next_question_goes_on_where_the_last_answer_ended() -> None:
    copy = OffsetCopy()
    assert copy.wanted == {LINE: "", AFTER: "0"} and not copy.tells_changes
    assert not copy.is_whole(told("a", 7, True)) and copy.wanted == {LINE: "a", AFTER: "7"}
    assert copy.is_whole(told("a", 9)) and copy.is_whole(told("a", 9)) and copy.tells_changes


def test_another_master_counts_anew() -> None:
    copy = OffsetCopy()
    copy.is_whole(told("a", 900))
    assert not copy.is_whole(told("b", 3, True)) and copy.wanted == {LINE: "b", AFTER: "3"}


def test_a_java_master_is_not_asked_often() -> None:
    copy = OffsetCopy()
    copy.is_whole(told("a", 900))
    assert copy.is_whole({}) and not copy.tells_changes and copy.wanted == {LINE: "", AFTER: "0"}


def test_pieces_that_do_not_go_on_are_an_error() -> None:
    copy = OffsetCopy()
    copy.is_whole(told("a", 7, True))
    with pytest.raises(ValueError, match="asked for already"):
        copy.is_whole(told("a", 7, True))
