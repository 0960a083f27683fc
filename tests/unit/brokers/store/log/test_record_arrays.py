"""Records as arrays: places and lengths are those that one record after the other has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.store.log.record_arrays import (
    RecordArrays,
    gather,
    leading,
    record_arrays,
    record_starts,
)
from brokers.store.log.records import MessageFields, decode_message
from tests.support.examples import examples
from tests.unit.brokers.store.log_samples import message
from tests.unit.brokers.store.queues.test_entry_runs import log_of, messages


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(messages, min_size=1, max_size=20))
def test_parts_lie_where_each_record_has_them(sent: list[MessageFields]) -> None:
    data = log_of(sent, start=4096)
    at = record_starts(data)
    found = record_arrays(data, 4096, at)
    assert isinstance(found, RecordArrays) and len(at) == len(sent)
    for number in range(len(sent)):
        stored = decode_message(data, int(at[number]))
        assert found.end[number] == at[number] + stored.size
        assert data[found.body_at[number] : found.topic_at[number]] == stored.fields.body
        topic_at = found.topic_at[number] + 1
        assert data[topic_at : topic_at + found.topic_bytes[number]] == stored.fields.topic.encode()
        text_at = found.properties_at[number]
        assert data[text_at : text_at + found.properties_bytes[number]] == stored.fields.properties
        assert found.store_ms(data, number) == stored.store_ms
        assert (found.heads["crc"][number], found.heads["slot"][number]) == (
            stored.body_crc,
            stored.queue_offset,
        )


@pytest.mark.parametrize(
    "sizes", [[5] * 3000, list(range(400)), [5] * 100 + [6] + [5] * 100, [5, 6] * 200]
)
def test_records_of_one_size_and_of_many(sizes: list[int]) -> None:
    data = log_of([message(body=b"x" * size) for size in sizes])
    begins = np.cumsum([0] + [len(log_of([message(body=b"x" * size)])) for size in sizes[:-1]])
    assert record_starts(data).tolist() == begins.tolist()
    assert record_starts(data[:-1]).tolist() == begins.tolist()[:-1]


@pytest.mark.parametrize("size", [0, 1, -1, 90, 5_000])
def test_no_record_begins_where_the_size_makes_no_sense(size: int) -> None:
    """As where a window of the log begins at what was never written, or at a size that was
    overwritten.
    """
    nonsense = size.to_bytes(4, "big", signed=True) + bytes(4_092)
    assert record_starts(nonsense).tolist() == []
    data = log_of([message()] * 3)
    assert len(record_starts(data + nonsense)) == 3


def test_it_says_how_many_are_plain() -> None:
    first = log_of([message()] * 3)
    # version 2; another position
    for other in (log_of([message("t" * 128)], len(first)), log_of([message()])):
        data = first + other
        assert record_arrays(data, 0, record_starts(data)) == 3


def test_the_leading_ones() -> None:
    assert [leading(np.array(good, bool)) for good in ([], [1, 1], [1, 0, 1], [0, 1])] == [
        0,
        2,
        1,
        0,
    ]
    assert gather(b"\0\1\0\2\0\3", np.array([0, 2, 4, 3]), ">u2").tolist() == [1, 2, 3, 512]
