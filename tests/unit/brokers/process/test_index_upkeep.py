"""The pace of the index."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from brokers.process.index_upkeep import IndexUpkeep
from brokers.store.log.properties import encode_properties
from brokers.store.store import MessageStore, StoreConfig
from tests.unit.brokers.store.log_samples import NOW_MS, message


def fill(root: Path, *, index: bool) -> None:
    store = MessageStore(root, StoreConfig(log_file_bytes=1 << 16, message_index=index))
    for number in range(300):
        store.put(replace(message(), properties=encode_properties({"KEYS": f"k{number}"})), NOW_MS)
    store.dispatch_to(store.log_end)
    store.close()


async def run_until(upkeep: IndexUpkeep, done) -> None:  # type: ignore[no-untyped-def]
    task = asyncio.ensure_future(upkeep.run())
    try:
        async with asyncio.timeout(20):
            while not done():
                await asyncio.sleep(0.005)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_an_index_that_is_behind_follows_and_is_made_durable(tmp_path: Path) -> None:
    fill(tmp_path, index=False)
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=1 << 16))
    index = store.index
    assert index is not None and index.position < store.dispatched_offset
    note = tmp_path / "indexPosition"

    def flushed() -> bool:
        return note.exists() and int(note.read_text().split()[0]) == store.dispatched_offset

    asyncio.run(run_until(IndexUpkeep(store, flush_ms=20, look_ms=5), flushed))
    assert index.position == store.dispatched_offset
    index.close(flush=False)
    store.index = None
    store.close()
    again = MessageStore(tmp_path, StoreConfig(log_file_bytes=1 << 16))
    assert again.index is not None
    assert len(list(again.index.find("T", "k299", 0, 1 << 60))) == 1
    again.close()


def test_a_store_without_an_index_needs_nothing(tmp_path: Path) -> None:
    fill(tmp_path, index=False)
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=1 << 16, message_index=False))
    asyncio.run(run_until(IndexUpkeep(store, flush_ms=5, look_ms=5), lambda: True))
    assert not (tmp_path / "indexPosition").exists()
    store.close()
