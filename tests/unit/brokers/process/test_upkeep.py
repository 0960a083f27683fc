"""The background work of a broker."""

import asyncio
from pathlib import Path

from brokers.process.upkeep import Upkeep
from brokers.service.tables.table_files import TableFiles
from brokers.store.log.records import MessageFields, host_bytes
from brokers.store.recovery.checkpoint import read_checkpoint
from brokers.store.store import MessageStore, StoreConfig
from tests.support.brokers import until
from tests.support.descriptors import none_left
from tests.support.small_disk import small_disk

HOST = host_bytes("127.0.0.1", 1)


def opened(folder: Path) -> MessageStore:
    return MessageStore(folder, StoreConfig(log_file_bytes=1 << 20, queue_file_bytes=20_000))


async def test_the_log_becomes_durable_and_offsets_reach_the_disk(tmp_path: Path) -> None:
    store, tables = opened(tmp_path), TableFiles(tmp_path)
    upkeep = Upkeep(store, tables, lambda reason: None)
    end = store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1).end_offset
    tables.offsets.commit("g", "T", 0, 1, 1)
    tables.kept.take_over(45, b'{"offsetTable":{1:7}}')
    tasks = [
        asyncio.ensure_future(upkeep.flush_every(10)),
        asyncio.ensure_future(upkeep.save_offsets_every(10)),
    ]
    await until(
        lambda: (
            store.log.flushed_offset == end and TableFiles(tmp_path).offsets.query("g", "T", 0) == 1
        ),
        "both were written",
    )
    await until(lambda: not tables.kept.unsaved, "what is kept for Java was written")
    assert not tables.offsets.dirty and TableFiles(tmp_path).kept.body(45, 0) == (
        b'{"offsetTable":{"1":7}}'
    )
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    store.close()


async def test_a_disk_that_refuses_is_told_once(tmp_path: Path) -> None:
    store, told = opened(tmp_path), []
    store.log.io_error = "planted"
    await Upkeep(store, TableFiles(tmp_path), told.append).flush_every(1)
    assert len(told) == 1
    store.close(clean=False)


async def test_a_full_disk_ends_nothing_and_what_it_put_off_is_done_when_there_is_room(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path, 32 << 20) as disk:
        store, tables, told = opened(disk.root), TableFiles(disk.root), []
        upkeep = Upkeep(
            store, tables, told.append, lambda offset: None if store.dispatch_to(offset) else None
        )
        store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1)
        store.spare.refill()
        disk.fill()
        (disk.root / "spare").unlink()
        disk.fill()
        end = store.log_end
        store.dispatch_to(end)  # no room for the queue's first file
        tables.groups.ensure("g", 1)
        tables.groups_file.save_soon()
        tasks = [
            asyncio.ensure_future(upkeep.flush_every(5)),
            asyncio.ensure_future(upkeep.make_good_every(5)),
        ]
        await until(lambda: upkeep._room_wanted, "the checkpoint finds no room")
        assert store.dispatched_offset == 0 and store.log.flushed_offset == end
        disk.free()
        await until(lambda: store.dispatched_offset == end, "the queue has its entry")
        await until(
            lambda: not upkeep._room_wanted and not tables.groups_file.unsaved, "all is written"
        )
        assert not told and not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (disk.root / "spare").exists() and TableFiles(disk.root).groups.get("g") is not None
        assert store.queue_bounds("T", 0) == (0, 1)
        store.close()


async def test_a_moment_without_descriptors_ends_nothing_and_nothing_stays_unwritten(
    tmp_path: Path,
) -> None:
    store, told = opened(tmp_path), []
    upkeep = Upkeep(
        store,
        TableFiles(tmp_path),
        told.append,
        lambda offset: None if store.dispatch_to(offset) else None,
    )
    store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1)
    store.dispatch_to(store.log_end)  # its queue file is open and has to be made durable
    tasks = [
        asyncio.ensure_future(upkeep.flush_every(5)),
        asyncio.ensure_future(upkeep.make_good_every(5)),
    ]
    with none_left():
        await until(lambda: upkeep._room_wanted, "the checkpoint waits")
        end = store.put(MessageFields("T", 0, b"y", b"", 1, HOST, HOST), 1).end_offset
    await until(lambda: upkeep._room_wanted is None, "the checkpoint was written")
    store.dispatch_to(end)
    await until(
        lambda: read_checkpoint(tmp_path / "checkpoint").flushed_offset == end, "all is durable"
    )
    assert not told and store.log.io_error is None and store.queues.take_unsynced() == ([], [])
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    store.close()


async def test_how_far_the_log_was_durable_is_noted_behind_the_checkpoint(tmp_path: Path) -> None:
    store, noted = opened(tmp_path), []
    upkeep = Upkeep(
        store,
        TableFiles(tmp_path),
        lambda reason: None,
        keep_held=lambda: lambda: noted.append(store.durable_offset),
    )
    end = store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1).end_offset
    store.dispatch_to(end)
    task = asyncio.ensure_future(upkeep.flush_every(5))
    await until(lambda: noted, "it was noted")
    assert noted[0] == end
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    store.close()
