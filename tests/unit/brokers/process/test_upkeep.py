"""The background work of a broker."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from brokers.process.config import BrokerConfig
from brokers.process.upkeep import (
    IndexUpkeep,
    Upkeep,
    repair_what_the_start_found,
    store_care,
    tell_what_is_hidden,
)
from brokers.service.tables.table_files import TableFiles
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import MessageFields, host_bytes
from brokers.store.recovery.checkpoint import read_checkpoint
from brokers.store.store import MessageStore, StoreConfig
from tests.support.brokers import until
from tests.support.descriptors import none_left
from tests.support.small_disk import small_disk
from tests.unit.brokers.service.reading.test_repair import COUNT, Pair
from tests.unit.brokers.store.log.test_patch import flip
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, encoded, message, small_store

HOST = host_bytes("127.0.0.1", 1)


def opened(folder: Path) -> MessageStore:
    return MessageStore(folder, StoreConfig(log_file_bytes=1 << 20, queue_file_bytes=20_000))


async def test_the_log_becomes_durable_and_offsets_reach_the_disk(tmp_path: Path) -> None:
    store, tables = opened(tmp_path), TableFiles(tmp_path)
    upkeep = Upkeep(store, tables, lambda reason: None)
    end = store.put(MessageFields("T", 0, b"x", b"", 1, HOST, HOST), 1).end_offset
    tables.offsets.commit("g", "T", 0, 1, 1)
    tables.kept.adopt(45, b'{"offsetTable":{1:7}}')
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
    assert not told and store.log.io_error is None and not store.queues.take_unsynced().files
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


async def test_index_and_scrub_run_until_they_are_ended(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        config = BrokerConfig(
            store_dir=tmp_path, controllers=["127.0.0.1:1"], scrub_bytes_per_s=1 << 20
        )
        tasks = [
            asyncio.ensure_future(work) for work in store_care(config, pair.stores[0], pair.repairs)
        ]
        index = pair.stores[0].index
        assert index is not None and len(tasks) == 4
        await until(lambda: index.position == pair.stores[0].dispatched_offset, "the index follows")
        await until(tasks[0].done, "a start without damage leaves nothing to repair")
        assert not any(task.done() for task in tasks[1:])
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks[1:], return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)


async def test_damage_that_a_start_passed_over_is_told_and_repaired(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        pair.stores[0].close()
        flip(tmp_path / "own", pair.offsets[2] + 88)
        pair.stores[0] = pair.repairs._store = small_store(tmp_path / "own", same_boot=True)
        await repair_what_the_start_found(pair.stores[0], pair.repairs)
        assert [(kind, fields["offset"]) for kind, fields in pair.events] == [
            ("RecordRefused", pair.offsets[2]),
            ("RecordRepaired", pair.offsets[2]),
        ]
        assert pair.events[0][1]["found_by"] == "start"
        assert len(bodies(pair.stores[0])) == COUNT


async def test_a_message_whose_place_another_one_has_is_told_and_counts_as_damaged(
    tmp_path: Path,
) -> None:
    async with Pair(tmp_path) as pair:
        store = pair.stores[0]
        place, late = store.log_end, encoded(message(body=b"late"), 1, store.log_end)
        store.append_raw(place, late)
        store.dispatch_to(store.log_end)
        telling = asyncio.ensure_future(tell_what_is_hidden(store, pair.repairs))
        await until(lambda: bool(pair.events), "it is told")
        telling.cancel()
        ((kind, fields),) = pair.events
        assert (kind, fields["offset"], fields["found_by"]) == ("RecordRefused", place, "dispatch")
        assert pair.repairs.damaged == pair.repairs.taken == 1 and bodies(store) == [
            b"%d" % number for number in range(COUNT)
        ]
        assert store.put(message(), NOW_MS).queue_offset == COUNT


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
