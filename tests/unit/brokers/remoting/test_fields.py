"""Ext fields: text on the wire, numbers within 64 bits, one error for everything else."""

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadField, flag, number, reading_fields, text


@pytest.mark.parametrize(
    ("value", "result"),
    [("0", 0), ("-1", -1), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63))],
)
def test_numbers_reach_over_the_whole_of_64_bits(value: str, result: int) -> None:
    assert number({"n": value}, "n") == result


@pytest.mark.parametrize(
    "value", ["", "x", "1_0", str(2**63), "9" * 5000, "1.0", " 1", "1\n", "+-1"]
)
def test_anything_else_is_no_number(value: str) -> None:
    with pytest.raises(BadField):
        number({"n": value}, "n")


def test_missing_fields_take_their_default_or_are_refused() -> None:
    assert number({}, "n", 7) == 7 and number({"n": ""}, "n", 7) == 7
    assert (
        flag({}, "f") is False
        and flag({"f": "TRUE"}, "f") is True
        and flag({"f": "1"}, "f") is False
    )
    with pytest.raises(BadField):
        text({}, "t")


def test_a_handler_answers_what_it_cannot_read_with_code_1() -> None:
    handle = reading_fields(lambda request: request.reply(ext={"read": text(request.ext, "topic")}))
    assert handle(None, RemotingCommand.request(1, {"topic": "T"})).ext == {"read": "T"}
    refused = handle(None, RemotingCommand.request(1, {}))
    assert (refused.code, refused.remark) == (1, "the custom field <topic> is null")
