"""The steady work a configuration asks for."""

import asyncio
from pathlib import Path

from brokers.config import BrokerConfig
from brokers.store_care import store_care
from tests.support.brokers import until
from tests.unit.brokers.service.test_repair import Pair


async def test_index_and_scrub_run_until_they_are_ended(tmp_path: Path) -> None:
    async with Pair(tmp_path) as pair:
        config = BrokerConfig(store_dir=tmp_path, controllers=["127.0.0.1:1"], scrub_bytes_per_s=1 << 20)
        tasks = [asyncio.ensure_future(work) for work in store_care(config, pair.stores[0], pair.repairs)]
        index = pair.stores[0].index
        assert index is not None and len(tasks) == 2
        await until(lambda: index.position == pair.stores[0].dispatched_offset, "the index follows")
        assert not any(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*tasks, return_exceptions=True))
