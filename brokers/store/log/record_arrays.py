"""The records of a stretch of log as arrays: where each begins, what its head says, where its parts
lie.

Responsible for: the lengths and places of many plain version 1 messages at once, as records.py has
them for one.
Refuses to know: files, queues, what is wrong with a record: it stops in front of the first one that
is not plain.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.store.log.properties import PROPERTIES_BYTES_MAX
from brokers.store.log.records import MAGIC_V1, MESSAGE_BYTES_MIN, TOPIC_BYTES_MAX_V1

# Records of one size are looked for this far ahead, at first and at most.
SAME_SIZE_MIN, SAME_SIZE_MAX = 32, 4096

Ints = NDArray[np.int64]
Bytes = bytes | memoryview

_HEAD = np.dtype({
    "names": ["size", "magic", "crc", "queue_id", "slot", "physical", "flags"],
    "formats": [">i4", ">u4", ">u4", ">i4", ">i8", ">i8", ">u4"],
    "offsets": [0, 4, 8, 12, 20, 28, 36],
    "itemsize": 40,
})  # fmt: skip
_STORE_MS = struct.Struct(">q")
_size_at = struct.Struct(">i").unpack_from


class RecordArrays(NamedTuple):
    """An item for each record, places relative to the data they were found in. `topic_at`: of the
    topic's length, where the body ends.
    """

    at: Ints
    heads: NDArray[Any]
    flags: Ints
    body_at: Ints
    topic_at: Ints
    topic_bytes: Ints
    properties_at: Ints
    properties_bytes: Ints
    end: Ints

    def store_ms(self, data: Bytes, number: int) -> int:
        """When that record was stored."""
        return _STORE_MS.unpack_from(
            data, int(self.at[number]) + (68 if self.flags[number] & 0x10 else 56)
        )[0]


def record_starts(data: Bytes) -> Ints:
    """Where whole records may begin: the chain of sizes from the front, as long as they make
    sense.
    """
    found: list[Ints] = []
    one_by_one: list[int] = []
    total, size_at = len(data), _size_at
    at, last, before, reach = 0, total - MESSAGE_BYTES_MIN, 0, SAME_SIZE_MIN
    while at <= last:
        (size,) = size_at(data, at)
        if size < MESSAGE_BYTES_MIN or at + size > total:
            break
        if size == before and (same := _same_size(data, at, size, reach)) > 1:
            found += [np.array(one_by_one, np.int64), at + size * np.arange(same)]
            one_by_one, reach = [], min(4 * reach, SAME_SIZE_MAX)
            at += size * same
            continue
        one_by_one.append(at)
        at, before, reach = at + size, size, SAME_SIZE_MIN
    found.append(np.array(one_by_one, np.int64))
    return np.concatenate(found)


def _same_size(data: Bytes, at: int, size: int, reach: int) -> int:
    """How many records of `size` follow each other from `at`, as far as `reach`: whole ones
    only.
    """
    count = min(reach, (len(data) - at) // size)
    if count < 2:
        return 0
    sizes = np.ndarray((count,), ">i4", data, at, (size,))
    return leading(sizes == size)


def leading(good: NDArray[np.bool_]) -> int:
    """How many are true before the first that is not."""
    return len(good) if good.all() else int(good.argmin())


def gather(data: Bytes, at: Ints, item: str) -> NDArray[Any]:
    """The items that begin at each of `at`; all must lie within `data`."""
    kind = np.dtype(item)
    places = max(0, len(data) - kind.itemsize + 1)
    raw = np.ndarray((places,), f"V{kind.itemsize}", data, strides=(1,))[at]
    return raw if kind.kind == "V" else raw.view(kind)


def record_arrays(data: Bytes, start: int, at: Ints) -> RecordArrays | int:
    """Of the records at `at` of `data`, the log's bytes from `start`; or how many of them are plain
    messages, when not all.
    """
    heads = gather(data, at, f"V{_HEAD.itemsize}").view(_HEAD)
    size, flags = heads["size"].astype(np.int64), heads["flags"].astype(np.int64)
    end = at + size
    good = (heads["magic"] == MAGIC_V1) & (heads["physical"] == start + at)
    hosts = 12 * ((flags >> 4 & 1) + (flags >> 5 & 1))  # IPv6 hosts are 12 bytes longer
    body_at = at + 88 + hosts
    good &= body_at < end
    if not good.all():
        return leading(good)
    topic_at = body_at + gather(data, body_at - 4, ">i4")
    good = (topic_at >= body_at) & (topic_at < end)
    if not good.all():
        return leading(good)
    topic_bytes = gather(data, topic_at, "u1").astype(np.int64)
    properties_at = topic_at + topic_bytes + 3
    good = (topic_bytes <= TOPIC_BYTES_MAX_V1) & (properties_at <= end)
    if not good.all():
        return leading(good)
    properties_bytes = gather(data, properties_at - 2, ">u2").astype(np.int64)
    good = (properties_bytes <= PROPERTIES_BYTES_MAX) & (properties_at + properties_bytes == end)
    if not good.all():
        return leading(good)
    return RecordArrays(
        at, heads, flags, body_at, topic_at, topic_bytes, properties_at, properties_bytes, end
    )
