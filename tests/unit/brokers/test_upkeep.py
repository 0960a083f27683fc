"""The background work of a broker."""

import asyncio
from pathlib import Path

from brokers.log.records import MessageFields, host_bytes
from brokers.log.store import MessageStore, StoreConfig
from brokers.service.table_files import TableFiles
from brokers.upkeep import Upkeep
from tests.support.brokers import until

HOST = host_bytes("127.0.0.1", 1)


def opened(folder: Path) -> MessageStore:
    return MessageStore(folder, StoreConfig(log_file_bytes=1 << 20, queue_file_bytes=20_000))


async def test_the_log_becomes_durable_and_offsets_reach_the_disk(tmp_path: Path) -> None:
    store, tables = opened(tmp_path), TableFiles(tmp_path)
    upkeep = Upkeep(store, tables, lambda reason: None)
    end = store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1).end_offset
    tables.offsets.commit("g", "T", 0, 1, 1)
    tasks = [asyncio.ensure_future(upkeep.flush_every(10)), asyncio.ensure_future(upkeep.save_offsets_every(10))]
    await until(lambda: store.log.flushed_offset == end and not tables.offsets.dirty, "both were written")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert TableFiles(tmp_path).offsets.query("g", "T", 0) == 1
    store.close()


async def test_a_disk_that_refuses_is_told_once(tmp_path: Path) -> None:
    store, told = opened(tmp_path), []
    store.log.io_error = "planted"
    await Upkeep(store, TableFiles(tmp_path), told.append).flush_every(1)
    assert len(told) == 1
    store.close(clean=False)
