"""What replicas copy of the clients of their master: the text, and texts that are none."""

import pytest

from brokers.service.clients.known_clients import KnownClients, KnownGroup, decode, encode
from brokers.service.clients.subscriptions import parse


def test_a_text_says_what_was_known() -> None:
    known = {
        "g": KnownGroup(
            "CONSUME_FROM_FIRST_OFFSET",
            {"T": parse("T", "A || B", 7), "U": parse("U", "*", 3)},
            {"10.0.0.1@7": 0, "10.0.0.2@8": 1_234},
        ),
        "empty": KnownGroup("CONSUME_FROM_LAST_OFFSET"),
    }
    assert decode(encode(known), 10_000) == known


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"g":1}',
        b'{"g":{"from":"x","subscriptions":[],"clients":[]}}',
        b'{"g":{"from":"x","subscriptions":[["T"]],"clients":{}}}',
        b'{"g":{"from":"x","subscriptions":[["T","*",null,"x","TAG"]],"clients":{}}}',
        b'{"g":{"from":"x","subscriptions":[],"clients":{"a":"soon"}}}',
    ],
)
def test_a_text_that_says_nothing_changes_nothing(text: bytes) -> None:
    known = KnownClients()
    known.adopt(encode({"g": KnownGroup("x", {}, {"a": 0})}), 10_000)
    with pytest.raises(ValueError):
        known.adopt(text, 10_000)
    assert list(known.ids("g")) == ["a"]


def test_a_slave_forgets_nobody_by_itself() -> None:
    known = KnownClients()
    known.adopt(encode({"g": KnownGroup("x", {}, {"a": 0})}), 10_000)
    assert not known.forget("g", "a") and list(known.ids("g")) == ["a"]
    assert known.expire(10**15) == () and list(known.ids("g")) == ["a"]
