"""What can be wrong with the files of a broker's store: cut, overwritten, flipped, gone.

Responsible for: finding records and files by their layout (PROTOCOL 3.2 to 3.7),
and the damage itself.
Refuses to know: when a store is damaged and what must become of it. Nothing here uses the product's
own readers.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

MAGICS = (0xDAA320A7, 0xDAA320AB)
BLANK = 0xCBD43194
BODY_AT = 88
# Bytes of a header (with IPv4 hosts) that a place, a length or the checksum of the body gives away:
# total size, magic, checksum, queue and its offset, place, length of the body. Of the rest (flags,
# times, hosts, counts) nothing tells.
TOLD_IN_HEADER = (*range(16), *range(20, 36), *range(84, 88))
UNTOLD_IN_HEADER = (*range(16, 20), *range(40, 84))
QUEUE_ENTRY = struct.Struct(">qiq")
GARBAGE_BYTES = 3_000


class Stored(NamedTuple):
    """One message of the log: its file, its place there in bytes, its size, its offset in the
    log.
    """

    path: Path
    position: int
    size: int
    offset: int


def log_files(store: Path) -> list[Path]:
    """Files of the log, oldest first."""
    return sorted(path for path in (store / "commitlog").glob("*") if path.name.isdigit())


def messages(store: Path) -> Iterator[Stored]:
    """Every message from the first to the last whole one."""
    for path in log_files(store):
        data, at = path.read_bytes(), 0
        while at + BODY_AT <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if magic not in MAGICS or at + size > len(data):
                break
            yield Stored(path, at, size, int(path.name) + at)
            at += size
        if struct.unpack_from(">I", data, min(at + 4, len(data) - 4))[0] != BLANK:
            return


def last_message(store: Path) -> Stored:
    return list(messages(store))[-1]


def log_end(store: Path) -> int:
    """Behind the last whole message."""
    last = last_message(store)
    return last.offset + last.size


def stored_ms(message: Stored) -> int:
    """When the master stored it, ms since 1970 (with IPv4 hosts)."""
    return int(struct.unpack(">q", _get(message.path, message.position + 56, 8))[0])


# -- the end of the log ----------------------------------------------------------------------------


def tear_last(store: Path) -> int:
    """The last message is there by half, as if its second page never came; its offset."""
    last = last_message(store)
    _put(last.path, last.position + last.size // 2, bytes(last.size - last.size // 2))
    return last.offset


def zero_last(store: Path, count: int) -> int:
    """The last `count` messages are zeros; the offset where they begin."""
    gone = list(messages(store))[-count:]
    for one in gone:
        _put(one.path, one.position, bytes(one.size))
    return gone[0].offset


def garbage_behind(store: Path, chance: random.Random) -> int:
    """Bytes of nobody stand behind the end; where they begin."""
    last = last_message(store)
    at = last.position + last.size
    _put(last.path, at, chance.randbytes(min(GARBAGE_BYTES, last.path.stat().st_size - at)))
    return last.offset + last.size


# -- bits ------------------------------------------------------------------------------------------


def flip(path: Path, position: int, bit: int = 0) -> None:
    """One bit of one byte of a file."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes((byte ^ (1 << bit),)))


def flip_bodies(
    store: Path, below: int, count: int, chance: random.Random, spared: Collection[int] = ()
) -> list[int]:
    """One bit in the body of each of `count` messages that end below an offset; their offsets.
    Those at `spared` are left.
    """
    hit = chance.sample(
        [
            one
            for one in messages(store)
            if one.offset + one.size <= below and one.offset not in spared
        ],
        count,
    )
    for one in hit:
        (body_bytes,) = struct.unpack(">i", _get(one.path, one.position + BODY_AT - 4, 4))
        flip(one.path, one.position + BODY_AT + chance.randrange(body_bytes), chance.randrange(8))
    return sorted(one.offset for one in hit)


class Flipped(NamedTuple):
    """One byte as it was and as it is, and the offset of the message it belongs to."""

    path: Path
    position: int
    was: int
    now: int
    offset: int


def flip_at(one: Stored, within: int, chance: random.Random) -> Flipped:
    """One bit of the byte `within` a message."""
    position = one.position + within
    was = _get(one.path, position, 1)[0]
    flip(one.path, position, bit := chance.randrange(8))
    return Flipped(one.path, position, was, was ^ 1 << bit, one.offset)


def flip_headers(
    found: Sequence[Stored], bytes_of: Sequence[int], chance: random.Random
) -> list[Flipped]:
    """One bit in the header of each message, in one of these of its bytes."""
    return [flip_at(one, chance.choice(bytes_of), chance) for one in found]


def flip_properties(found: Sequence[Stored], chance: random.Random) -> list[Flipped]:
    """One bit in the properties of each message: nothing tells it."""
    return [
        flip_at(one, one.size - 1 - chance.randrange(_properties_bytes(one)), chance)
        for one in found
    ]


def topic_of(one: Stored) -> str:
    """The topic of a sound message."""
    data = _get(one.path, one.position, one.size)
    begin, end = _topic_span(data)
    return data[begin:end].decode()


def _properties_bytes(one: Stored) -> int:
    return one.size - _topic_span(_get(one.path, one.position, one.size))[1] - 2


def _topic_span(data: bytes) -> tuple[int, int]:
    at = BODY_AT + struct.unpack_from(">i", data, BODY_AT - 4)[0]
    if struct.unpack_from(">I", data, 4)[0] == MAGICS[0]:
        return at + 1, at + 1 + data[at]
    return at + 2, at + 2 + struct.unpack_from(">H", data, at)[0]


def is_as_it_was(one: Flipped) -> bool:
    """False also when the file is gone or shorter by now."""
    return one.path.exists() and _get(one.path, one.position, 1) == bytes((one.was,))


def put_back(flipped: Sequence[Flipped]) -> None:
    """What nobody made good: bytes that are still as they were damaged."""
    for one in flipped:
        if one.path.exists() and _get(one.path, one.position, 1) == bytes((one.now,)):
            _put(one.path, one.position, bytes((one.was,)))


def flip_anywhere(path: Path, count: int, chance: random.Random) -> None:
    """`count` bits of a file, wherever."""
    for _ in range(count):
        flip(path, chance.randrange(path.stat().st_size), chance.randrange(8))


def queue_files(store: Path, topic: str) -> list[Path]:
    """Queue files of a topic that hold entries."""
    return sorted(path for path in (store / "consumequeue" / topic).glob("*/*") if _entries(path))


def _entries(path: Path) -> int:
    return sum(any(entry) for entry in QUEUE_ENTRY.iter_unpack(path.read_bytes()))


def flip_entries(store: Path, topic: str, count: int, chance: random.Random) -> None:
    """One bit in each of `count` queue entries of a topic: in the offset or size of the message
    they point to.
    """
    for _ in range(count):
        path = chance.choice(queue_files(store, topic))
        entry = chance.randrange(_entries(path))
        # The lower bytes: a place that could be one. The highest would only make a number that no
        # log reaches.
        flip(path, entry * QUEUE_ENTRY.size + chance.choice((5, 6, 7, 10, 11)), chance.randrange(8))


def used_part(path: Path) -> int:
    """Up to the last byte of a file that is not zero."""
    return len(path.read_bytes().rstrip(b"\0"))


def flip_used(path: Path, count: int, chance: random.Random) -> None:
    """`count` bits where a file holds anything."""
    used = used_part(path)
    for _ in range(count):
        flip(path, chance.randrange(used), chance.randrange(8))


# -- gone ------------------------------------------------------------------------------------------


def empty(store: Path) -> None:
    """Nothing is left in the data folder."""
    for path in store.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _get(path: Path, position: int, count: int) -> bytes:
    with path.open("rb") as file:
        return os.pread(file.fileno(), count, position)


def _put(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), data, position)
