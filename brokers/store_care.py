"""What a running broker does for its store without being asked: index and checksums.

Responsible for: which of this work a configuration asks for. Refuses to know: how it is done.
"""

from __future__ import annotations

from collections.abc import Coroutine

from brokers.config import BrokerConfig
from brokers.index_upkeep import IndexUpkeep
from brokers.log.store import MessageStore
from brokers.scrubber import Scrubber
from brokers.service.repair import Repairs


def store_care(config: BrokerConfig, store: MessageStore, repairs: Repairs) -> list[Coroutine[object, object, None]]:
    """Each runs for as long as the broker does."""
    return [IndexUpkeep(store).run(), Scrubber(store, repairs, config.scrub_bytes_per_s, config.scrub_every_s).run()]
