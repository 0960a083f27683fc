"""Offsets that an operator set and consumers have not heard of (PROTOCOL 4.16).

Until a consumer pulls again its own places for these queues say nothing. In memory of the master
only, as with RocketMQ.
"""

from __future__ import annotations

from collections import OrderedDict

RESETS_MAX = 200_000


class PendingResets:
    """(group, topic, queue id) -> where it goes on. Beyond `RESETS_MAX` the oldest is forgotten."""

    def __init__(self) -> None:
        self._places: OrderedDict[tuple[str, str, int], int] = OrderedDict()

    def put(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self._places[group, topic, queue_id] = offset
        if len(self._places) > RESETS_MAX:
            self._places.popitem(last=False)

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._places.get((group, topic, queue_id)) if self._places else None

    def take(self, group: str, topic: str, queue_id: int) -> int | None:
        """The place, which is heard of with this."""
        return self._places.pop((group, topic, queue_id), None) if self._places else None

    def forget_group(self, group: str) -> None:
        """It is gone."""
        for key in [key for key in self._places if key[0] == group]:
            del self._places[key]

    def clear(self) -> None:
        self._places.clear()
