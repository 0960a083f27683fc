"""Pulls: the header's flags and the table of PROTOCOL 4.5, row by row."""

import pytest

from brokers.service.reading.pull_request import answer_ext, code_of, parse

EXT = {
    "consumerGroup": "g",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "5",
    "maxMsgNums": "32",
    "sysFlag": "7",
    "commitOffset": "3",
    "suspendTimeoutMillis": "15000",
    "subscription": "A",
    "subVersion": "0",
}


@pytest.mark.parametrize(
    ("flags", "suspend_ms", "commit_offset", "subscription"),
    [
        ("7", 15000, 3, "A"),
        ("0", 0, None, None),
        ("1", 0, 3, None),
        ("2", 15000, None, None),
        ("4", 0, None, "A"),
        ("22", 15000, None, "A"),
    ],
)
def test_flags_choose_what_counts(
    flags: str, suspend_ms: int, commit_offset: int | None, subscription: str | None
) -> None:
    pull = parse({**EXT, "sysFlag": flags})
    assert (pull.suspend_ms, pull.commit_offset, pull.subscription) == (
        suspend_ms,
        commit_offset,
        subscription,
    )


def test_hostile_numbers_are_bounded() -> None:
    pull = parse(
        {
            **EXT,
            "maxMsgNums": "2147483647",
            "suspendTimeoutMillis": "9999999999",
            "commitOffset": "-1",
        }
    )
    assert (pull.max_messages, pull.suspend_ms, pull.commit_offset) == (32, 60_000, None)
    assert parse({**EXT, "maxMsgNums": "-5"}).max_messages == 1


@pytest.mark.parametrize(
    ("status", "offset", "code"),
    [
        ("FOUND", 5, 0),
        ("NO_MATCHED_MESSAGE", 5, 20),
        ("MESSAGE_WAS_REMOVING", 5, 20),
        ("OFFSET_FOUND_NULL", 5, 19),
        ("RECORD_REFUSED", 5, 1),
        ("OFFSET_OVERFLOW_ONE", 5, 19),
        ("NO_MESSAGE_IN_QUEUE", 0, 19),
        ("NO_MESSAGE_IN_QUEUE", 1, 21),
        ("NO_MATCHED_LOGIC_QUEUE", 0, 19),
        ("NO_MATCHED_LOGIC_QUEUE", 1, 21),
        ("OFFSET_TOO_SMALL", 5, 21),
        ("OFFSET_OVERFLOW_BADLY", 5, 21),
        ("OFFSET_RESET", 5, 21),
    ],
)
def test_each_result_of_the_store_has_its_code(status: str, offset: int, code: int) -> None:
    assert code_of(status, offset) == code


def test_an_unknown_result_is_our_error() -> None:
    with pytest.raises(ValueError):
        code_of("WHATEVER", 0)


def test_the_answer_suggests_the_master() -> None:
    assert answer_ext(1, 2, 3)["suggestWhichBrokerId"] == "0"
    assert answer_ext(1, 2, 3, 7)["suggestWhichBrokerId"] == "7"
