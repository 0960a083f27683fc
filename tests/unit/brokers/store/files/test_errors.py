"""The kinds of refusal, and one rule for errors of the disk, row by row (ARCHITECTURE.md,
decisions).

What makes acknowledged bytes durable stops the log for good when the disk breaks, for the kernel
may have dropped the pages; want of room, descriptors or memory refuses, and passes; what can be
made again is tried again; what cannot be read costs what lies there and nothing else.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokers.store.files.errors import DiskFull, LogError, is_unreadable, unreadable_told
from brokers.store.queues.query import GetStatus
from brokers.store.store import MessageStore
from tests.unit.brokers.store.log_samples import NOW_MS, message, small_store

EIO, ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM = (
    errno.EIO,
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
)
LARGE = bytes(3990)  # it needs another file of the log


@contextmanager
def failing(call: str, within: str, number: int) -> Iterator[None]:
    """That call of the system fails for all files whose path has `within`."""
    real: Callable[..., Any] = getattr(os, call)

    def fails(first: Any, *args: Any, **how: Any) -> Any:
        path = str(first) if call == "open" else os.readlink(f"/proc/self/fd/{first}")
        if f"/{within}" in path:
            raise OSError(number, os.strerror(number), path)
        return real(first, *args, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, fails)
        yield


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    store = small_store(tmp_path)
    store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    yield store
    store.close(clean=False)


def goes_on(store: MessageStore) -> bool:
    """Whether it takes, keeps and gives messages again once the disk is well."""
    store.log.ask_for_room()
    store.log.disk_full = None
    try:
        slot = store.put(message(), NOW_MS).queue_offset
        store.dispatch_to(store.log_end)
        store.checkpoint()
    except LogError:
        return False
    return store.query("T", 0, slot, 1).status is GetStatus.FOUND


@pytest.mark.parametrize(
    ("call", "within"),
    [
        ("pwrite", "commitlog"),
        ("open", "commitlog"),
        ("fdatasync", "commitlog"),
        ("fdatasync", "consumequeue"),
        ("fsync", "consumequeue"),
    ],
)
def test_a_broken_disk_stops_the_log_where_it_makes_bytes_durable(
    store: MessageStore, call: str, within: str
) -> None:
    with failing(call, within, EIO), pytest.raises(LogError) as refusal:
        store.put(message(body=LARGE, queue_id=1), NOW_MS)
        store.dispatch_to(store.log_end)
        store.checkpoint()
    assert not isinstance(refusal.value, DiskFull) and store.io_error is not None
    assert not goes_on(store)


@pytest.mark.parametrize("number", [ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM])
@pytest.mark.parametrize(("call", "within"), [("pwrite", "commitlog"), ("open", "commitlog")])
def test_what_runs_out_refuses_a_message_and_passes(
    store: MessageStore, call: str, within: str, number: int
) -> None:
    end = store.log_end
    with failing(call, within, number), pytest.raises(DiskFull):
        store.put(message(body=LARGE), NOW_MS)
    assert store.log_end in (end, 4096) and store.io_error is None
    assert goes_on(store)


@pytest.mark.parametrize("number", [EIO, ENOSPC, EMFILE])
def test_an_entry_that_cannot_be_written_is_made_with_the_next_confirm_offset(
    store: MessageStore, number: int
) -> None:
    put = store.put(message(), NOW_MS)
    with failing("pwrite", "consumequeue", number):
        assert store.dispatch_to(store.log_end) == []
    assert store.io_error is None and store.dispatch_to(store.log_end) == [
        ("T", 0, put.queue_offset + 1)
    ]
    assert goes_on(store)


@pytest.mark.parametrize("number", [EIO, ENOSPC, EMFILE])
@pytest.mark.parametrize(
    ("call", "within"), [("open", "checkpoint"), ("fsync", "checkpoint"), ("open", "queueEnds")]
)
def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one(
    store: MessageStore, call: str, within: str, number: int
) -> None:
    before = store.durable_offset
    with failing(call, within, number), pytest.raises((OSError, DiskFull)):
        store.checkpoint()
    assert store.io_error is None and store.durable_offset == before
    assert goes_on(store)


@pytest.mark.parametrize("within", ["commitlog", "consumequeue"])
def test_a_message_that_cannot_be_read_is_refused_alone(store: MessageStore, within: str) -> None:
    with failing("pread", within, EIO):
        assert store.query("T", 0, 0, 1).status is GetStatus.RECORD_REFUSED
    assert store.query("T", 0, 0, 1).status is GetStatus.FOUND and goes_on(store)


def test_a_full_disk_is_a_refusal_of_the_log_that_can_be_told_from_others() -> None:
    assert issubclass(DiskFull, LogError) and not isinstance(LogError("x"), DiskFull)


def test_a_sector_that_cannot_be_read_is_told_from_a_want_of_descriptors() -> None:
    assert is_unreadable(OSError(errno.EIO, "")) and not is_unreadable(OSError(errno.EMFILE, ""))


def test_what_cannot_be_read_is_refused_in_one_line_and_all_else_goes_on() -> None:
    with pytest.raises(LogError, match="a file cannot be read: bad"), unreadable_told("a file"):
        raise OSError(errno.EIO, "bad sector")
    with pytest.raises(OSError, match="descriptors"), unreadable_told("a file"):
        raise OSError(errno.EMFILE, "descriptors")
