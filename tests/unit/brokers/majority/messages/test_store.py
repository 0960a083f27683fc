"""A member's store: which folders it refuses, what a leader of another kind does to its queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.majority.entry import Entry
from brokers.majority.log_port import Taken
from brokers.majority.messages.message_log import EntryMessageLog
from brokers.store.files.errors import DiskFull, LogError
from brokers.store.recovery.checkpoint import CHECKPOINT_NAME, read_checkpoint
from brokers.store.store import MessageStore
from tests.support.message_stores import CONFIG, OfEntries, OfRecords, put
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, message


def test_a_replica_of_the_other_kind_is_refused_by_name(tmp_path: Path) -> None:
    other = OfRecords(tmp_path)
    put(other, message(), now_ms=NOW_MS)
    other.close(clean=True)
    with pytest.raises(LogError, match="replica of an in-sync set"):
        OfEntries(tmp_path)


def test_a_member_of_a_majority_group_is_no_replica_of_an_in_sync_set(tmp_path: Path) -> None:
    OfEntries(tmp_path).close(clean=True)
    with pytest.raises(LogError, match="member of a majority group"):
        MessageStore(tmp_path, CONFIG)


def test_bytes_of_a_master_are_not_taken(tmp_path: Path) -> None:
    one = OfEntries(tmp_path)
    for call in (
        lambda: one.store.append_raw(0, b"x"),
        lambda: one.store.truncate(0),
        lambda: one.store.is_message_start(0),
    ):
        with pytest.raises(LogError, match="one of entries"):
            call()
    one.close(clean=True)


def test_a_full_disk_refuses_clients_and_leaders(tmp_path: Path) -> None:
    one = OfEntries(tmp_path)
    one.lead()
    one.store.full = "as full as it may be"
    with pytest.raises(DiskFull, match="as full"):
        one.store.put(message(), NOW_MS)
    next_one = Entry(1, 1, one.store.log_end, b"x")
    assert one.folder.log.append_as_follower(next_one) is Taken.DISK_FULL
    assert one.store.writable() == one.store.full == "as full as it may be"
    one.store.full = None
    assert one.folder.log.append_as_follower(next_one) is Taken.APPENDED
    one.close(clean=True)


def test_committed_is_how_far_consumers_read(tmp_path: Path) -> None:
    one = OfEntries(tmp_path)
    one.lead()
    found = put(one, *[message(body=b"%d" % n) for n in range(9)], now_ms=NOW_MS)
    one.confirm(found[3].end_offset)
    log: EntryMessageLog = one.store.entries
    assert log.committed_offset == one.store.confirm_offset == found[3].end_offset
    one.close(clean=True)


def test_what_a_leader_of_java_takes_back_leaves_the_queues_too(tmp_path: Path) -> None:
    """Its rule commits what may be replaced: what was readable here is not any more."""
    one = OfEntries(tmp_path)
    one.lead()
    found = put(one, *[message(body=b"%d" % n) for n in range(30)], now_ms=NOW_MS)
    one.confirm()
    one.store.checkpoint()
    one.folder.log.committed_index = 20
    one.folder.log.truncate_from(21)
    assert one.store.log_end == one.store.confirm_offset == found[19].end_offset
    assert read_checkpoint(tmp_path / CHECKPOINT_NAME).confirm_offset <= found[19].end_offset
    assert bodies(one.store) == [b"%d" % n for n in range(20)]
    one.lead()
    (again,) = put(one, message(body=b"again"), now_ms=NOW_MS)
    assert again.queue_offset == 20
    one.confirm()
    assert bodies(one.store)[-1] == b"again"
    one.close(clean=True)
