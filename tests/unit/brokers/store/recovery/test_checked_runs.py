"""Runs of complete messages: as far as one after the other finds them complete, and never
beyond.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.store.log.records import MessageFields
from brokers.store.log.scan import LogWalk
from brokers.store.queues.entry_runs import entry_runs
from brokers.store.recovery.checked_runs import checked_runs
from tests.support.examples import examples
from tests.unit.brokers.store.log_samples import message
from tests.unit.brokers.store.queues.test_entry_runs import FILE_BYTES, log_of, messages


def walked(data: bytes) -> list[tuple[int, int]]:
    """(end, store time) of each message that counts although nothing is known to be written."""
    walk = LogWalk(
        lambda at, n: data[at : at + n], 0, len(data), FILE_BYTES, check_body=True, written_end=0
    )
    return [(record.physical_offset + record.size, record.store_ms) for record in walk]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(messages, min_size=1, max_size=15), st.data())
def test_bytes_changed_or_cut_off(sent: list[MessageFields], draw: st.DataObject) -> None:
    data = bytearray(log_of(sent))
    for _ in range(draw.draw(st.integers(0, 2))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    left = bytes(data[: draw.draw(st.integers(0, len(data)))])
    count, made = checked_runs(left, 0)
    one_by_one = walked(left)[:count]
    assert len(one_by_one) == count
    assert (made.end, made.store_ms) == (one_by_one[-1] if count else (0, 0))
    assert made == entry_runs(left[: made.end], 0)


def test_sound_messages_are_all_taken() -> None:
    data = log_of(
        [
            message("AB"[number % 2], number % 3, b"x" * (number % 70), tag="t")
            for number in range(500)
        ]
    )
    assert checked_runs(data, 0)[0] == 500


def test_it_stops_in_front_of_a_body_that_does_not_match() -> None:
    one = len(log_of([message(body=b"x" * 50)]))
    data = bytearray(log_of([message(body=b"x" * 50)] * 20))
    data[one * 7 + 100] ^= 1
    assert checked_runs(bytes(data), 0)[0] == 7


def test_it_stops_in_front_of_what_may_not_be_written_to_its_end() -> None:
    odd = MessageFields("T", 0, b"body", b"a\x01\0", 1, message().born_host, message().store_host)
    assert checked_runs(log_of([message(), message(), odd, message()]), 0)[0] == 2
