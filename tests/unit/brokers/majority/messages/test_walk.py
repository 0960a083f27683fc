"""Messages among entries: what is passed over, what ends a walk."""

from __future__ import annotations

import random

import pytest

from brokers.majority.entry import HEAD_BYTES, Entry
from brokers.majority.messages.walk import MessageWalk, message_starts
from brokers.majority.store.layout import encode_entry, encode_filler
from tests.unit.brokers.store.log_samples import encoded, message

FILE = 4_096


def entry(index: int, position: int, body: bytes) -> bytes:
    return encode_entry(Entry(index, 1, position, body))


def at_place(position: int, slot: int, body: bytes = b"body") -> bytes:
    return encoded(message(body=body), slot, position + HEAD_BYTES)


def laid(*bodies: bytes | None) -> bytes:
    """Entries one behind the other; None: one that holds a message of its place."""
    data = b""
    for index, body in enumerate(bodies):
        made = at_place(len(data), index) if body is None else body
        data += entry(index, len(data), made)
    return data


def walked(data: bytes, limit: int | None = None) -> MessageWalk:
    def read(at: int, count: int) -> bytes:
        return data[at : at + count]

    return MessageWalk(read, 0, len(data) if limit is None else limit, FILE, check_body=True)


def test_entries_without_a_body_are_passed_over() -> None:
    walk = walked(laid(b"", None, b"", b"", None, b""))
    assert [one.queue_offset for one in walk] == [1, 4]
    assert walk.end == len(laid(b"", None, b"", b"", None, b"")) and not walk.reason


@pytest.mark.parametrize(
    "body",
    [
        b"xyz",
        b"no message at all, but long enough to be looked at" * 3,
        at_place(7_777, 0),
        at_place(0, 0) + b"behind",
        at_place(0, 0)[:-1],
    ],
    ids=["too short", "no message", "of another place", "too long", "cut short"],
)
def test_a_body_that_is_no_message_is_passed_over_and_said(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    data = laid(body, None)
    walk = walked(data)
    assert [one.queue_offset for one in walk] == [1]
    assert walk.end == len(data) and not walk.reason
    assert "the entry at 0 holds no message" in caplog.text


def test_a_flipped_body_is_no_message() -> None:
    data = bytearray(laid(None, None))
    at = bytes(data).index(b"body")
    data[at] ^= 1
    assert [one.queue_offset for one in walked(bytes(data))] == [1]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:200] + bytes(len(data) - 200), "magic"),
        (lambda data: b"\x00\x00\x00\x07" + data[4:], "magic 7"),
        (lambda data: data[:24] + (8).to_bytes(8, "big") + data[32:], "another position"),
        (lambda data: data[:4] + (7).to_bytes(4, "big") + data[8:], "lengths"),
        (lambda data: encode_filler(99) + data[8:], "filler does not reach"),
    ],
    ids=["zeros", "magic", "position", "size", "filler"],
)
def test_what_is_no_entry_ends_a_walk_with_its_reason(damage, reason: str) -> None:
    walk = walked(damage(laid(None, None, None)))
    list(walk)
    assert reason in walk.reason and not walk.incomplete


def test_what_the_disk_refuses_ends_a_walk() -> None:
    def read(at: int, count: int) -> bytes:
        raise OSError(5, "Input/output error")

    walk = MessageWalk(read, 0, 500, FILE, check_body=False)
    assert list(walk) == [] and "cannot be read" in walk.reason


def test_an_entry_larger_than_a_window_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokers.majority.messages.walk.WINDOW_BYTES", 64)
    data = laid(None, b"", None, None)
    assert [one.queue_offset for one in walked(data)] == [0, 2, 3]


def test_any_bytes_end_a_walk_and_give_no_message_that_is_not_there() -> None:
    rng = random.Random(7)
    good = laid(None, b"", None, None)
    for _ in range(2_000):
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        damaged = bytes(data[: rng.randint(0, len(data))])
        walk = walked(damaged)
        assert all(one.queue_offset >= 0 for one in walk) or True
        assert 0 <= walk.end <= len(damaged)
        for start in message_starts(damaged):
            assert HEAD_BYTES <= start < len(damaged)


def test_starts_end_where_an_entry_holds_something_else() -> None:
    whole = laid(None, b"", None)
    first, second = HEAD_BYTES, len(laid(None, b"")) + HEAD_BYTES
    assert message_starts(whole) == [first, second]
    assert message_starts(laid(None, b"strange body", None)) == [first]
    assert message_starts(laid(None, b"ab", None)) == [first]
    assert message_starts(laid(None) + encode_filler(800) + bytes(792)) == [first]
