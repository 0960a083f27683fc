"""Folders of one member with small files, filled."""

from __future__ import annotations

from pathlib import Path

from brokers.majority.entry import BEGIN, Entry, Link, link_of, sealed
from brokers.majority.log_port import TermAndVote
from brokers.majority.store.entry_log import EntryLog
from brokers.majority.store.folder import MajorityFolder, MajorityStoreConfig
from brokers.majority.store.layout import encode_entry, encode_filler

FILE = 1_024
CONFIG = MajorityStoreConfig(data_file_bytes=FILE, index_file_bytes=FILE)


def small_folder(root: Path, same_boot: bool = True, begins_at: int = 0) -> MajorityFolder:
    config = MajorityStoreConfig(FILE, FILE, begins_at)
    return MajorityFolder(root, config, same_boot=same_boot)


def filled(root: Path, sizes: list[int], term: int = 1) -> MajorityFolder:
    """With entries of these body sizes, none of it flushed."""
    folder = small_folder(root)
    folder.terms.save(TermAndVote(term, "n0"))
    for size in sizes:
        append(folder.log, size, term)
    return folder


def append(log: EntryLog, size: int, term: int = 1) -> Entry:
    return log.append_as_leader(
        term, size, lambda position: position.to_bytes(8, "big")[-1:] * size
    )


def kill(folder: MajorityFolder) -> None:
    """As `kill -9`: nothing more is written."""
    folder.log.data.close()
    folder.log.index.log.close()
    folder._lock.release()


def entries(log: EntryLog) -> list[Entry]:
    found = [log.get(index) for index in range(max(log.first_index, 0), log.last.index + 1)]
    return [entry for entry in found if entry is not None]


def chain(
    sizes: list[int], terms: list[int] | None = None, sums: bool = True, file_bytes: int = FILE
) -> tuple[bytes, list[Entry]]:
    """(bytes of whole data files, entries) as a leader lays them; Java makes no `sums`."""
    data, made, before = bytearray(), [], BEGIN
    for index, size in enumerate(sizes):
        left = file_bytes - len(data) % file_bytes
        if size + 48 + 8 > left:
            data += encode_filler(left).ljust(left, b"\0")
        plain = Entry(index, terms[index] if terms else 1, len(data), bytes([index % 251]) * size)
        entry = sealed(before, plain) if sums else plain
        before = link_of(entry)
        data += encode_entry(entry)
        made.append(entry)
    data += bytes(-len(data) % file_bytes)
    return bytes(data), made


def reader(data: bytes, file_bytes: int = FILE):
    """Reads as a log does: never across a file's end."""

    def read(position: int, count: int) -> bytes:
        end = position - position % file_bytes + file_bytes
        return data[position : min(position + count, end)]

    return read


__all__ = ["FILE", "Link", "append", "chain", "entries", "filled", "kill", "reader", "small_folder"]
