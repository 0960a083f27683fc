"""What a log of entries says of itself as a broker's log, beside what every log says
(`tests/unit/brokers/store/log/test_message_log.py`).
"""

from __future__ import annotations

from pathlib import Path

from brokers.majority.messages.message_log import EntryMessageLog
from brokers.store.log.message_log import MessageLog
from tests.support.message_stores import LOG_FILE_BYTES, OfEntries, put
from tests.unit.brokers.store.log_samples import NOW_MS, message


def test_it_is_a_brokers_log(tmp_path: Path) -> None:
    one = OfEntries(tmp_path)
    log: MessageLog = EntryMessageLog(one.folder.log)
    assert (log.min_offset, log.end_offset, log.file_starts, log.file_bytes) == (
        0, 0, (), LOG_FILE_BYTES,
    )  # fmt: skip
    assert log.store_ms_at(0) is None and log.disk_full is None
    one.close(clean=True)


def test_a_file_that_begins_with_an_empty_entry_has_the_time_of_its_first_message(
    tmp_path: Path,
) -> None:
    one = OfEntries(tmp_path)
    one.lead()
    assert one.store.log.store_ms_at(0) is None
    put(one, message(), now_ms=NOW_MS)
    assert one.store.log.store_ms_at(0) == NOW_MS
    assert one.store.first_store_ms() == -1, "nothing is committed"
    one.confirm()
    assert one.store.first_store_ms() == NOW_MS
    one.close(clean=True)


def test_files_go_with_their_index_and_never_behind_what_is_committed(tmp_path: Path) -> None:
    one = OfEntries(tmp_path)
    one.lead()
    found = put(one, *[message(body=b"%d" % n) for n in range(120)], now_ms=NOW_MS)
    one.confirm(found[60].end_offset)
    one.store.log.trim(1 << 40)()
    entry = one.folder.log.get(one.folder.log.committed_index)
    assert entry is not None
    assert one.store.log_min == entry.position // LOG_FILE_BYTES * LOG_FILE_BYTES
    assert one.folder.log.get(one.folder.log.first_index) is not None
    one.close(clean=True)


def test_a_disk_that_is_full_for_the_index_is_full(tmp_path: Path) -> None:
    one = OfEntries(tmp_path)
    one.folder.log.index.log.disk_full = "no room"
    assert one.store.writable() == "no room"
    one.store.log.ask_for_room()
    assert one.store.writable() is None
    one.close(clean=True)
