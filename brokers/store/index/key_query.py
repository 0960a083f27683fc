"""Messages by place and by key, checked before anybody gets them.

Responsible for: reading one message at an offset; choosing those that really have a key and a time;
damage on the way.
Refuses to know: who asks, requests, what is done about damage.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple, Protocol

from brokers.store.index.keys import keys_of
from brokers.store.log.commit_log import store_ms_of
from brokers.store.log.integrity import RECORD_BYTES_MAX, BadRecord, Place, problem
from brokers.store.log.records import (
    MAGIC_V1,
    MAGIC_V2,
    MESSAGE_BYTES_MIN,
    read_record,
    size_and_magic,
)

CANDIDATES_MAX = 1_000
ANSWER_BYTES_MAX = 8 * 1024 * 1024


class Found(NamedTuple):
    """Messages as they are stored, and those that could not be given."""

    messages: list[bytes]
    refused: list[BadRecord]


class Readable(Protocol):
    """A log, or what was taken of it to be read on another thread."""

    def read(self, offset: int, max_bytes: int) -> bytes: ...


def message_at(log: Readable, offset: int, readable_end: int) -> bytes | BadRecord | None:
    """The message that begins at `offset` and ends at or below `readable_end`; None when none
    begins there.
    """
    try:
        head = log.read(offset, MESSAGE_BYTES_MIN)
        if len(head) < MESSAGE_BYTES_MIN:
            return None
        size, magic = size_and_magic(head, 0)
        begins = magic in (MAGIC_V1, MAGIC_V2) and int.from_bytes(head[28:36], "big") == offset
        if not begins or not MESSAGE_BYTES_MIN <= size <= min(
            RECORD_BYTES_MAX, readable_end - offset
        ):
            return None
        data = log.read(offset, size)
    except OSError as error:
        return BadRecord(
            Place(offset, MESSAGE_BYTES_MIN), f"it cannot be read: {error.strerror or error}"
        )
    reason = problem(data, Place(offset, size))
    return BadRecord(Place(offset, size), reason) if reason else data


def messages_with_key(
    log: Readable,
    candidates: Iterable[int],
    topic: str,
    key: str,
    limit: int,
    begin_ms: int,
    end_ms: int,
    readable_end: int,
) -> Found:
    """Up to `limit` messages of a topic with a key, stored between two times (ms), in the order of
    `candidates`.
    """
    wanted = key.encode("utf-8", "surrogateescape")
    found = Found([], [])
    left = ANSWER_BYTES_MAX
    for offset in islice(candidates, CANDIDATES_MAX):
        data = message_at(log, offset, readable_end)
        if isinstance(data, BadRecord):
            found.refused.append(data)
        elif data is not None and begin_ms <= store_ms_of(data) <= end_ms:
            record = read_record(data, 0, check_body=False)
            if record.topic == topic and wanted in keys_of(record.properties):
                found.messages.append(data)
                left -= len(data)
        if len(found.messages) >= limit or left <= 0:
            break
    return found
