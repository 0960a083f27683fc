"""What a running broker does for its store without being asked: index, checksums, and the damage
that its start has found.

Responsible for: which of this work a configuration asks for. Refuses to know: how it is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from brokers.process.config import BrokerConfig
from brokers.process.index_upkeep import IndexUpkeep
from brokers.process.scrubber import Scrubber
from brokers.service.reading.repair import FOUND_BY_DISPATCH, RETRY_MS, Repairs
from brokers.store.store import MessageStore

TRIES_MAX = 24
HIDDEN_EVERY_S = 1.0


def store_care(
    config: BrokerConfig, store: MessageStore, repairs: Repairs
) -> list[Coroutine[object, object, None]]:
    """Each runs for as long as the broker does."""
    return [
        repair_what_the_start_found(store, repairs),
        tell_what_is_hidden(store, repairs),
        IndexUpkeep(store).run(),
        Scrubber(store, repairs, config.scrub_bytes_per_s, config.scrub_every_s).run(),
    ]


async def repair_what_the_start_found(store: MessageStore, repairs: Repairs) -> None:
    """Damage that was passed over is told, and fetched from others as soon as there are any; what
    nobody has after TRIES_MAX tries is left to the look through the log.
    """
    left = list(store.recovery.damaged)
    for _ in range(TRIES_MAX):
        left = [bad for bad in left if not await repairs.waited(bad, "start")]
        if not left:
            return
        await asyncio.sleep(RETRY_MS / 1000)


async def tell_what_is_hidden(store: MessageStore, repairs: Repairs) -> None:
    """Messages whose places in their queues are taken by others are counted as damaged, and told;
    nothing is written.
    """
    hidden = store.dispatcher.hidden
    while True:
        while hidden:
            repairs.wanted(hidden.popleft(), FOUND_BY_DISPATCH)
        await asyncio.sleep(HIDDEN_EVERY_S)
