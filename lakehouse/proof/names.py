"""Names for the bytes of landed records, block by block, and the chain of a partition's names
(P apart from its Arrow types).

A block is a thousand offsets. Its name covers every column of bronze: what the log gave (offset,
timestamp, its type, key, value), and apart from that what landing noted (when, in which batch), so
that a record that landed again can be told from one that is another. Equal names mean equal rows,
missing and doubled ones too. The chain links the names of what the log gave, so that one link
stands for everything before it: the same for a lake that was landed anew.
Refuses to know where rows come from and what becomes of a name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLOCK_RECORDS = 1_000
LOG_COLUMNS = ("offset", "timestamp", "timestamp_type", "key", "value")
LANDING_COLUMNS = ("landed_at", "batch")
NAMED_COLUMNS = (*LOG_COLUMNS, *LANDING_COLUMNS)
NAME_BYTES = 32
NAMING = 2
"""How names are made. 1: of offset, length and value of each record alone (`older_name`)."""

Names = Mapping[int, "BlockName"]
"""End of a block, or of a part of one from its first offset on (exclusive) -> its name."""


@dataclass(frozen=True, slots=True)
class BlockName:
    """What a block of rows is called."""

    log: bytes
    """Of what the log gave: SHA-256."""
    landing: bytes
    """Of what landing noted."""

    @property
    def packed(self) -> bytes:
        """Both, to be kept."""
        return self.log + self.landing


def block_names(
    rows: pa.Table, end: int, cuts: Collection[int] = (), size: int = BLOCK_RECORDS
) -> dict[int, BlockName]:
    """The names of the blocks of `size` offsets that these rows of one partition are whole blocks
    of, and of each block up to every cut in it.

    `rows` may be of any stretch that begins and ends with a block, or ends at `end`, the offset
    behind the last record that landed. Blocks without rows have no name.
    """
    ordered = _in_order(rows)
    offsets = ordered["offset"].to_numpy()
    log, landing = ([_column(ordered[name]) for name in names] for names in _NAMED)
    found: dict[int, BlockName] = {}
    for number in np.unique(offsets // size).tolist():
        first, behind = number * size, (number + 1) * size
        ends = {cut for cut in (*cuts, end) if first < cut < behind}
        if behind <= end:
            ends.add(behind)
        start = int(np.searchsorted(offsets, first))
        for one in ends:
            stop = int(np.searchsorted(offsets, one))
            if stop > start:
                found[one] = BlockName(_hash(log, start, stop), _hash(landing, start, stop))
    return found


def block_ends(first: int, end: int, size: int = BLOCK_RECORDS) -> list[int]:
    """The ends of the blocks from `first`, which begins one, to `end`, which may lie in one."""
    ends = list(range(first + size, end + 1, size))
    return ends if end == first or end % size == 0 else [*ends, end]


def piece_name(names: Names, first: int, end: int, size: int = BLOCK_RECORDS) -> str:
    """One name for consecutive whole blocks, in hex."""
    found = sha256()
    for one in block_ends(first, end, size):
        found.update(names.get(one, NOTHING).packed)
    return found.hexdigest()


def older_name(rows: pa.Table) -> str:
    """The name that the first releases kept of these rows, which are in the order of offsets."""
    found = sha256()
    for offset, value in zip(rows["offset"].to_pylist(), rows["value"].to_pylist(), strict=True):
        length = b"\xff" * 8 if value is None else len(value).to_bytes(8, "big")
        found.update(b"".join((offset.to_bytes(8, "big"), length, value or b"")))
    return found.hexdigest()


def first_link(cluster_id: str, topic: str, partition: int) -> bytes:
    """Where the chain of a partition begins."""
    return sha256(f"regent {cluster_id} {topic} {partition}".encode()).digest()


def next_link(link: bytes, log_name: bytes) -> bytes:
    """The chain behind one more block."""
    return sha256(link + log_name).digest()


@dataclass(slots=True)
class Chain:
    """The chain of a partition's names, up to the end of a block."""

    link: bytes
    at: int = 0
    """Offset behind the last block in it."""
    size: int = BLOCK_RECORDS

    def to(self, end: int, names: Names) -> bytes:
        """Go on to `end` and give its link. An end within a block has a link of its own, and the
        chain goes on from the block before.
        """
        while self.at + self.size <= end:
            self.at += self.size
            self.link = next_link(self.link, names.get(self.at, NOTHING).log)
        return self.link if end == self.at else next_link(self.link, names.get(end, NOTHING).log)


def _in_order(rows: pa.Table) -> pa.Table:
    """By offset; rows of one offset by all that is in them, so that their order says nothing."""
    offsets = rows["offset"].to_numpy()
    if (np.diff(offsets) > 0).all():
        return rows
    doubled = (np.diff(np.sort(offsets)) == 0).any()
    keys = NAMED_COLUMNS if doubled else NAMED_COLUMNS[:1]
    return rows.sort_by([(name, "ascending") for name in keys])


@dataclass(frozen=True, slots=True)
class _Column:
    """A column as bytes to be hashed by ranges of rows."""

    valid: np.ndarray
    """A byte for each row."""
    numbers: np.ndarray
    """Values, or of bytes their lengths; big endian."""
    data: bytes
    """Bytes one behind the other."""
    starts: np.ndarray
    """Where those of each row begin; one more than rows."""


def _column(column: pa.ChunkedArray) -> _Column:
    valid = np.asarray(column.is_valid(), dtype=np.uint8)
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        lengths = np.asarray(pc.fill_null(pc.binary_length(column), 0), dtype=">i8")
        data = b"".join(map(_bytes_in, column.chunks))
        return _Column(valid, lengths, data, np.concatenate(([0], np.cumsum(lengths))))
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("us", tz=column.type.tz), safe=False)
    numbers = pc.fill_null(pc.cast(column, pa.int64()), 0)
    return _Column(valid, np.asarray(numbers, dtype=">i8"), b"", np.zeros(len(numbers) + 1, int))


def _bytes_in(chunk: pa.Array) -> bytes:
    """The bytes of all values, one behind the other."""
    if not len(chunk) or chunk.null_count or not pa.types.is_binary(chunk.type):
        return b"".join(filter(None, chunk.to_pylist()))
    _, ends, data = chunk.buffers()
    if data is None:
        return b""
    first, last = np.frombuffer(ends, np.int32)[[chunk.offset, chunk.offset + len(chunk)]].tolist()
    return bytes(data[first:last])


def _hash(columns: Sequence[_Column], start: int, stop: int) -> bytes:
    found = sha256((stop - start).to_bytes(8, "big"))
    for one in columns:
        found.update(one.valid[start:stop].tobytes())
        found.update(one.numbers[start:stop].tobytes())
        found.update(memoryview(one.data)[one.starts[start] : one.starts[stop]])
    return found.digest()


_NAMED = (LOG_COLUMNS, LANDING_COLUMNS)
NOTHING = BlockName(_hash([], 0, 0), _hash([], 0, 0))
"""The name of a block in which nothing landed."""
