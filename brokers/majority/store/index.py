"""The index of a majority log: for each entry, 32 bytes that say where it lies.

Responsible for: PROTOCOL 9.3 over a log of fixed records; that it can be made again from the data
at any time. Refuses to know: what entries say, which of them is good.
"""

from __future__ import annotations

from pathlib import Path

from brokers.majority.store.layout import (
    INDEX_RECORD_BYTES,
    IndexRecord,
    Malformed,
    decode_index_record,
)
from brokers.store.files.errors import LogError, unreadable_told
from brokers.store.log.commit_log import CommitLog
from brokers.store.log.segments import file_start


class EntryIndex:
    """Over a log whose files hold whole records."""

    def __init__(self, log: CommitLog) -> None:
        if log.file_bytes % INDEX_RECORD_BYTES:
            raise LogError(
                f"index files of {log.file_bytes} bytes hold no whole number of records: a "
                f"multiple of {INDEX_RECORD_BYTES} is needed"
            )
        self.log = log

    def record(self, index: int) -> IndexRecord:
        """LogError when the record of an entry that is here cannot be made out."""
        data = self.raw(index, 1)
        try:
            return decode_index_record(data, index)
        except Malformed as error:
            raise LogError(f"index record {index}: {error}") from error

    def find(self, index: int) -> IndexRecord | None:
        """The same, None when it cannot: during a recovery that is no wonder."""
        try:
            return self.record(index)
        except LogError:
            return None

    def records(self, first: int, count: int) -> list[IndexRecord]:
        """Up to `count`, fewer where a file ends. LogError as for one."""
        data = self.raw(first, count)
        try:
            return [
                decode_index_record(data, first + number, number * INDEX_RECORD_BYTES)
                for number in range(len(data) // INDEX_RECORD_BYTES)
            ]
        except Malformed as error:
            raise LogError(f"index records from {first}: {error}") from error

    def make_room(self, count: int = 1) -> None:
        """The files of so many next records are there. DiskFull: nothing changed."""
        log = self.log
        if not log.file_starts:
            return
        first = file_start(log.end_offset, log.file_bytes)
        last = log.end_offset + (count - 1) * INDEX_RECORD_BYTES
        for start in range(first, last + 1, log.file_bytes):
            log.make_file(start)

    def append(self, index: int, records: bytes) -> None:
        """The next records, from `index` on; an empty index begins with any. DiskFull, LogError."""
        at = index * INDEX_RECORD_BYTES
        if not self.log.file_starts:
            self.log.begin_within(at)
        self.log.append_raw(at, records)

    def cut_from(self, index: int) -> None:
        """Durably: the next record is that of `index`, unless there are fewer, or all go."""
        at = index * INDEX_RECORD_BYTES
        if at < self.log.end_offset:
            self.log.truncate(at)

    def restart_from(self, index: int) -> None:
        """As `cut_from`, and the next record may be that of `index` also where there was a gap."""
        at = index * INDEX_RECORD_BYTES
        self.log.truncate(at if at <= self.log.end_offset else 0)

    def first_at(self, position: int, last: int) -> int:
        """The first index up to `last` whose entry lies at `position` or behind."""
        low, high = self.log.min_offset // INDEX_RECORD_BYTES, last
        while low < high:
            middle = (low + high) // 2
            record = self.find(middle)
            if record is None or record.position < position:
                low = middle + 1
            else:
                high = middle
        return low

    def raw(self, index: int, count: int) -> bytes:
        """The bytes of up to `count` records, fewer where a file ends. LogError when they cannot be
        read.
        """
        with unreadable_told(f"index records from {index}"):
            return self.log.read(index * INDEX_RECORD_BYTES, count * INDEX_RECORD_BYTES)

    def trim(self, first: int) -> list[Path]:
        """Files of which no record is needed when the log begins at `first`; to be removed."""
        return self.log.forget_before(first * INDEX_RECORD_BYTES)
