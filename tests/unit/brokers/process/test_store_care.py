"""The steady work a configuration asks for."""

import asyncio
from pathlib import Path

from brokers.process.config import BrokerConfig
from brokers.process.store_care import repair_what_the_start_found, store_care, tell_what_is_hidden
from tests.support.brokers import until
from tests.unit.brokers.service.reading.test_repair import COUNT, Pair
from tests.unit.brokers.store.log.test_patch import flip
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, encoded, message, small_store


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
