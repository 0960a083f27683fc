"""Compare the logs of a majority group's members entry by entry, from their files: by index, term
and checksum of the body.

Knows how entries lie in files (PROTOCOL 9.2); refuses to know what bodies mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from brokers.majority.entry import HEAD_BYTES, body_crc
from brokers.majority.store.layout import Malformed, decode_entry, decode_head, filler_bytes
from brokers.store.log.records import BLANK_BYTES_MIN
from infra.cluster.replica_logs import LogFiles

Identity = tuple[int, int, int]
"""Index, term, checksum of the body."""


@dataclass(frozen=True, slots=True)
class EntriesCompared:
    """`first_difference`: the first index at which two logs are not the same one, None: none."""

    replicas: tuple[str, ...]
    entries: int
    terms: int
    first_difference: int | None


def identities(log: LogFiles, start: int, end: int) -> Iterator[Identity]:
    """Of the entries from position `start`, a border of entries, up to `end`. ValueError where no
    entry is.
    """
    at = start
    while at < end:
        lead = log.read(at, HEAD_BYTES)
        filler = filler_bytes(lead, 0) if len(lead) >= BLANK_BYTES_MIN else None
        if filler is not None:
            at += max(filler, 1)
            continue
        try:
            size = decode_head(lead).size
            entry = decode_entry(log.read(at, size))
        except Malformed as error:
            raise ValueError(f"no entry at {at}: {error}") from None
        yield entry.index, entry.term, body_crc(entry.body)
        at += size


def compare(folders: Mapping[str, Path], end: int) -> EntriesCompared:
    """From where all of them have entries up to position `end`, behind an entry. ValueError."""
    logs = {name: LogFiles(folder) for name, folder in folders.items()}
    start = max(log.start for log in logs.values())
    rows = zip_longest(*(identities(log, start, end) for log in logs.values()))
    terms: set[int] = set()
    count, names = 0, tuple(sorted(logs))
    for row in rows:
        if len(set(row)) > 1:
            index = min(one[0] for one in row if one is not None)
            return EntriesCompared(names, count, len(terms), index)
        count += 1
        terms.add(row[0][1])
    return EntriesCompared(names, count, len(terms), None)
