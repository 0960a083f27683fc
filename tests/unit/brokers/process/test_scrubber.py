"""The slow look through a log."""

import asyncio
import errno
import os
import random
from pathlib import Path

import pytest

from brokers.clock import Clock
from brokers.process.scrubber import Scrubber
from brokers.remoting.client import RemotingClient
from brokers.service.reading import repair
from brokers.service.reading.repair import Repairs
from brokers.store.log.integrity import RECORD_BYTES_MAX
from brokers.store.log.records import MESSAGE_BYTES_MIN
from brokers.store.store import MessageStore, StoreConfig
from tests.support.brokers import until
from tests.unit.brokers.service.reading.test_repair import COUNT, Pair
from tests.unit.brokers.store.log.test_patch import flip
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, log_bytes, sized

FAST = 1 << 30


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look goes on when a repair takes long; here it waits for each, however long this machine
    takes for it.
    """
    monkeypatch.setattr(repair, "WAIT_MS", 20_000)


async def test_damage_nobody_read_is_found_told_and_repaired(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        for number, at in ((1, 88), (2, 0), (4, 4)):  # body, length, magic of the last
            flip(tmp_path / "own", pair.offsets[number] + at)
        await Scrubber(pair.stores[0], pair.repairs, FAST, 0).look_through()
        assert [fields["found_by"] for kind, fields in pair.events if kind == "RecordRefused"] == [
            "scrub"
        ] * 3
        assert (pair.repairs.repaired, pair.repairs.damaged) == (3, 0)
        assert len(bodies(pair.stores[0])) == COUNT


async def test_the_length_of_a_damaged_message_is_learnt_from_a_java_replica_too(
    tmp_path: Path,
) -> None:
    async with Pair(tmp_path, java=True) as pair:
        flip(tmp_path / "own", pair.offsets[-1] + 2)
        await Scrubber(pair.stores[0], pair.repairs, FAST, 0).look_through()
        assert len(bodies(pair.stores[0])) == COUNT and pair.repairs.repaired == 1


async def test_a_sound_log_is_passed_again_and_again_over_all_its_files(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        scrubber = Scrubber(pair.stores[0], pair.repairs, FAST, 0.001, first_after_s=0)
        running = asyncio.ensure_future(scrubber.run())
        await until(lambda: scrubber.passes >= 3, "three passes")
        running.cancel()
        assert pair.events == []


async def test_without_a_rate_nothing_is_read(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        flip(tmp_path / "own", 88)
        scrubber = Scrubber(pair.stores[0], pair.repairs, 0, 0, first_after_s=0)
        running = asyncio.ensure_future(scrubber.run())
        for _ in range(20):
            await asyncio.sleep(0)
        assert scrubber.passes == 0 and not running.done() and pair.events == []
        running.cancel()


async def test_unconfirmed_bytes_are_left_alone(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        flip(tmp_path / "own", pair.offsets[-1] + 88)
        pair.stores[0].confirm_offset = pair.offsets[-1]
        await Scrubber(pair.stores[0], pair.repairs, FAST, 0).look_through()
        assert pair.events == []


async def test_a_damaged_blank_record_is_put_back_with_another_replicas_word(
    tmp_path: Path,
) -> None:
    async with Pair(tmp_path) as pair:
        for store in pair.stores:
            for size in (3000, 2000):
                store.put(sized(size), NOW_MS)
            store.dispatch_to(store.log_end)
        own, other = pair.stores
        flip(tmp_path / "own", own.read_log(0, 4096).index(b"\xcb\xd4\x31\x94") + 2)
        assert log_bytes(own) != log_bytes(other)
        await Scrubber(own, pair.repairs, FAST, 0).look_through()
        assert log_bytes(own) == log_bytes(other) and (
            pair.repairs.repaired,
            pair.repairs.damaged,
        ) == (1, 0)


FILE = 8 * 1024 * 1024
SMALLEST = MESSAGE_BYTES_MIN + 1  # with a topic of one letter


def filled(root: Path, sizes: list[int], file_bytes: int = FILE) -> MessageStore:
    """A store of messages that have exactly these sizes, in bytes of their records."""
    store = MessageStore(root, StoreConfig(log_file_bytes=file_bytes))
    for size in sizes:
        store.put(sized(size), NOW_MS)
    store.dispatch_to(store.log_end)
    return store


async def looked_at(store: MessageStore) -> list[tuple[str, dict[str, object]]]:
    """What a set of one tells of a pass over its store."""
    told: list[tuple[str, dict[str, object]]] = []
    client = RemotingClient()
    repairs = Repairs(
        store, client, list, lambda kind, fields: told.append((kind, fields)), Clock()
    )
    await asyncio.wait_for(Scrubber(store, repairs, 1 << 40, 0).look_through(), 60)
    await repairs.close()
    await client.close()
    return told


@pytest.mark.parametrize("seed", range(6))
async def test_a_sound_store_of_any_sizes_has_no_damage_and_keeps_every_byte(
    tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    sizes: list[int] = []
    while sum(sizes) < 3 * FILE:
        most = draw.choice([200, 2_000, 130_000, 140_000, 1_000_000, RECORD_BYTES_MAX - 196_608])
        sizes += [draw.randint(SMALLEST, most) for _ in range(draw.randint(1, 12))]
    store = filled(tmp_path, sizes)
    before = log_bytes(store)
    assert await looked_at(store) == [] and log_bytes(store) == before
    for _ in range(5):  # confirmed up to anywhere
        store.confirm_offset = draw.randint(1, store.log_end)
        assert await looked_at(store) == []
    assert log_bytes(store) == before
    store.close()


@pytest.mark.parametrize("left", [8, 9, 20, 50, 90, 91, 92, 98, 99, 200])
async def test_a_large_message_in_front_of_a_files_end_leaves_the_small_ones_there_alone(
    tmp_path: Path, left: int
) -> None:
    """A piece that a large message made long ends within the last one of the file."""
    large, window = 200_000, 4_390_912
    room = FILE - left - window
    store = filled(tmp_path, [room, large, *[1_000_000] * 4, window - large - 4_000_000, 500])
    before = log_bytes(store)
    assert store.log.file_starts[-1] == FILE
    assert await looked_at(store) == [] and log_bytes(store) == before
    store.close()


async def test_a_blank_is_put_back_by_a_set_of_one_where_a_sound_record_ends_in_front_of_it(
    tmp_path: Path,
) -> None:
    store = filled(tmp_path, [3_000, 1_000, 500], 4096)  # 96 bytes are left
    before = log_bytes(store)
    flip(tmp_path, 4_000 + 5)
    assert [kind for kind, _ in await looked_at(store)] == [
        "RecordRefused",
        "RecordRepaired",
    ] and log_bytes(store) == before
    flip(tmp_path, 4_000 + 5)
    flip(tmp_path, 3_000 + 2)  # the length of the record in front: nothing leads to the blank
    damaged = log_bytes(store)
    assert [kind for kind, _ in await looked_at(store)] == ["RecordRefused"] and log_bytes(
        store
    ) == damaged
    store.close()


async def test_several_records_whose_lengths_are_wrong_come_back_one_after_the_other(
    tmp_path: Path,
) -> None:
    async with Pair(tmp_path) as pair:
        for number in range(COUNT):
            flip(tmp_path / "own", pair.offsets[number] + 2)
        await Scrubber(pair.stores[0], pair.repairs, FAST, 0).look_through()
        assert (pair.repairs.repaired, pair.repairs.damaged) == (COUNT, 0)
        assert log_bytes(pair.stores[0]) == log_bytes(pair.stores[1])


async def test_nothing_is_written_where_only_a_search_found_a_record(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        own, _other = pair.stores
        for root in ("own", "other"):
            flip(tmp_path / root, pair.offsets[1] + 2)  # nobody has it: its length stays unknown
        flip(tmp_path / "own", pair.offsets[3] + 88)
        damaged = log_bytes(own)
        await Scrubber(own, pair.repairs, FAST, 0).look_through()
        assert [fields["offset"] for kind, fields in pair.events] == [
            pair.offsets[1],
            pair.offsets[3],
        ]
        assert log_bytes(own) == damaged and pair.repairs.repaired == 0


async def test_a_sector_that_cannot_be_read_damages_the_record_in_it_and_no_other(
    tmp_path: Path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    store = filled(tmp_path, [5_000] * 20, 1 << 20)
    pread = os.pread

    def refusing(fd: int, count: int, at: int) -> bytes:
        if at < 45_056 + 4096 and at + count > 45_056:
            raise OSError(errno.EIO, "planted")
        return pread(fd, count, at)

    monkeypatch.setattr(os, "pread", refusing)
    told = await looked_at(store)
    monkeypatch.undo()
    assert [fields["offset"] for _, fields in told] == [45_000]
    store.close()
