"""The slow look through a log."""

import asyncio
from pathlib import Path

import pytest

from brokers.scrubber import Scrubber
from brokers.service import repair
from tests.support.brokers import until
from tests.unit.brokers.log.log_samples import NOW_MS, bodies, log_bytes, sized
from tests.unit.brokers.log.test_patch import flip
from tests.unit.brokers.service.test_repair import COUNT, Pair

FAST = 1 << 30


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look goes on when a repair takes long; here it waits for each, however long this machine takes for it."""
    monkeypatch.setattr(repair, "WAIT_MS", 20_000)


async def test_damage_nobody_read_is_found_told_and_repaired(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        for number, at in ((1, 88), (2, 0), (4, 4)):  # body, length, magic of the last
            flip(tmp_path / "own", pair.offsets[number] + at)
        await Scrubber(pair.stores[0], pair.repairs, FAST, 0).look_through()
        assert [fields["found_by"] for kind, fields in pair.events if kind == "RecordRefused"] == ["scrub"] * 3
        assert (pair.repairs.repaired, pair.repairs.damaged) == (3, 0)
        assert len(bodies(pair.stores[0])) == COUNT


async def test_the_length_of_a_damaged_message_is_learnt_from_a_java_replica_too(tmp_path: Path) -> None:
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


async def test_a_damaged_blank_record_is_put_back_with_another_replicas_word(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        for store in pair.stores:
            for size in (3000, 2000):
                store.put(sized(size), NOW_MS)
            store.dispatch_to(store.log_end)
        own, other = pair.stores
        flip(tmp_path / "own", own.read_log(0, 4096).index(b"\xcb\xd4\x31\x94") + 2)
        assert log_bytes(own) != log_bytes(other)
        await Scrubber(own, pair.repairs, FAST, 0).look_through()
        assert log_bytes(own) == log_bytes(other) and (pair.repairs.repaired, pair.repairs.damaged) == (1, 0)
