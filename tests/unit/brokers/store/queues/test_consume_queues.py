"""All queues of a store: finding them, names, a bounded number of open files, the cost of opening
many.
"""

import os
from pathlib import Path

import pytest

from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.entries import ENTRY_BYTES, pack_entry
from tests.unit.brokers.store.log_samples import fill, open_queues


def test_many_queues_share_a_bounded_number_of_open_files(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    queues = open_queues(tmp_path, open_files_max=4)
    for round_number in range(3):
        for queue_id in range(40):
            fill(queues, range(round_number * 4, round_number * 4 + 4), queue_id)
    assert len(os.listdir("/proc/self/fd")) <= before + 4
    assert {queue.max_offset for _, queue in queues} == {12}
    taken = queues.take_unsynced()
    assert len(taken.files) == 80
    assert len(taken.folders) == 42
    queues.close()


@pytest.mark.parametrize(
    ("topic", "queue_id"), [("../x", 0), ("", 0), ("a/b", 0), ("T", -1), ("t" * 256, 0)]
)
def test_names_that_cannot_be_folders_get_no_queue(
    tmp_path: Path, topic: str, queue_id: int
) -> None:
    assert open_queues(tmp_path).get_or_create(topic, queue_id) is None


def test_opening_many_queues_reads_only_where_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = ConsumeQueues(tmp_path, 300_000 * ENTRY_BYTES)
    for number in range(1000):
        count = 2000 if number % 10 == 0 else 1
        entries = b"".join(pack_entry(100 * slot, 100, 0) for slot in range(count))
        queue = queues.get_or_create(f"T{number % 20}", number // 20)
        assert queue is not None
        queue.append(0, entries, 100 * (count - 1))
    queues.close()
    read, real = [0], os.pread

    def counted(fd: int, count: int, position: int) -> bytes:
        data = real(fd, count, position)
        read[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    again = ConsumeQueues(tmp_path, 300_000 * ENTRY_BYTES)
    assert sum(queue.max_offset for _, queue in again) == 100 * 2000 + 900
    assert read[0] < 1000 * 10_000  # not the six megabytes of each
    again.close()


def test_after_a_loss_of_power_many_queues_are_read_only_where_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = ConsumeQueues(tmp_path, 300_000 * ENTRY_BYTES)
    for number in range(300):
        queue = queues.get_or_create("T", number)
        assert queue is not None
        queue.append(0, b"".join(pack_entry(100 * slot, 100, 0) for slot in range(1000)), 99_900)
    queues.close()
    again = ConsumeQueues(tmp_path, 300_000 * ENTRY_BYTES)
    read, real = [0], os.pread

    def counted(fd: int, count: int, position: int) -> bytes:
        data = real(fd, count, position)
        read[0] += len(data)
        return data

    monkeypatch.setattr(os, "pread", counted)
    again.keep_valid_below(99_000)
    assert {queue.max_offset for _, queue in again} == {990}
    assert read[0] < 300 * 25_000
    again.close()
