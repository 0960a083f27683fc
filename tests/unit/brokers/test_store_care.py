"""The steady work a configuration asks for."""

import asyncio
from pathlib import Path

from brokers.config import BrokerConfig
from brokers.store_care import repair_what_the_start_found, store_care
from tests.support.brokers import until
from tests.unit.brokers.log.log_samples import bodies, small_store
from tests.unit.brokers.log.test_patch import flip
from tests.unit.brokers.service.test_repair import COUNT, Pair


async def test_index_and_scrub_run_until_they_are_ended(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        config = BrokerConfig(store_dir=tmp_path, controllers=["127.0.0.1:1"], scrub_bytes_per_s=1 << 20)
        tasks = [asyncio.ensure_future(work) for work in store_care(config, pair.stores[0], pair.repairs)]
        index = pair.stores[0].index
        assert index is not None and len(tasks) == 3
        await until(lambda: index.position == pair.stores[0].dispatched_offset, "the index follows")
        await until(tasks[0].done, "a start without damage leaves nothing to repair")
        assert not tasks[1].done() and not tasks[2].done()
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
            ("RecordRefused", pair.offsets[2]), ("RecordRepaired", pair.offsets[2])
        ]  # fmt: skip
        assert pair.events[0][1]["found_by"] == "start"
        assert len(bodies(pair.stores[0])) == COUNT
