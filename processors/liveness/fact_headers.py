"""The headers of what a controller, or a name server, reports of its own accord.

Responsible for: their ids and sequence. Refuses to know: what is reported.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count

from events.broker_events import BrokerEventHeader
from processors.liveness.pulses import BrokerKey

NO_BROKER = -1


class FactHeaders:
    """Those of one start of such a process: it stands in the place of an incarnation, under no
    broker's id.
    """

    def __init__(self, controller_id: str) -> None:
        self._controller_id = controller_id
        self._sequence = count()

    def next(self, key: BrokerKey, wall_ms: int) -> BrokerEventHeader:
        """For a fact about the replica `key`."""
        cluster_name, broker_name, _ = key
        sequence = next(self._sequence)
        # Controller, time and count: unique without randomness.
        event_id = sha256(
            (f"{self._controller_id} {wall_ms} {sequence} {key}").encode(errors="replace")
        ).digest()[:16]
        return BrokerEventHeader(
            event_id, cluster_name, broker_name, NO_BROKER, self._controller_id, wall_ms, sequence
        )
